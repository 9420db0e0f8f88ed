"""Break the source in one line at a time, in a copy, and see that at least one test turns red.

A test suite that stays green when the fence is gone proves nothing. `--only NAME` tries one, `--list` names them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Break:
    """One line that is changed, and the tests that should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


CONTRACT, ENGINE, CRASH, CORE = "tests/contract", "tests/engine", "tests/crash", "tests/core"
BREAKS = (
    Break(
        "no fence: any attempt may write",
        "store/writes/appends.py",
        "runs.id = b.id AND runs.attempt = b.attempt AND runs.last_seq = b.last",
        "runs.id = b.id AND runs.last_seq = b.last",
        CONTRACT,
    ),
    Break(
        "no check for signals at parking",
        "store/writes/appends.py",
        "FROM b WHERE {_FENCE} AND runs.signal_seq = b.seen {_GAVE}",
        "FROM b WHERE {_FENCE} AND runs.signal_seq >= 0 * b.seen {_GAVE}",
        CONTRACT,
    ),
    Break(
        "the effect happens before tool.started is on disk",
        "engine/context.py",
        "if effect is Effect.WRITE:\n                await self._journal.sync()",
        "if effect is Effect.READ:\n                await self._journal.sync()",
        CRASH,
    ),
    Break(
        "the lease is never renewed",
        "store/writes/claims.py",
        "DO UPDATE SET lease_until = excluded.lease_until",
        "DO UPDATE SET lease_until = workers.lease_until",
        CONTRACT,
    ),
    Break(
        "a gap in seq", "store/writes/appends.py", "seq + n + 1, root_seq + n,", "seq + n + 2, root_seq + n,", CONTRACT
    ),
    Break(
        "the parent is not told that its child has ended",
        "store/writes/appends.py",
        "    if told:\n        send(batch, told)",
        "    if not told:\n        send(batch, told)",
        CONTRACT,
    ),
    Break(
        "a run is finished in two transactions",
        "store/writes/appends.py",
        "    if told:\n        send(batch, told)",
        '    if tx.run("COMMIT") + tx.run("BEGIN") or told:\n        send(batch, told)',
        CRASH,
    ),
    Break(
        "a reader skips an event",
        "engine/follow.py",
        "place = tail.place(recorded)\n                    _count",
        "place = tail.place(recorded) + (recorded.seq == 3)\n                    _count",
        ENGINE,
    ),
    Break(
        "an interrupted write is repeated",
        "engine/context.py",
        "if known.effect is not Effect.WRITE:",
        "if known.effect is not None:",
        CRASH,
    ),
    Break(
        "a signal does not wake a parked run",
        "store/writes/signals.py",
        "THEN 'queued' ELSE runs.status END",
        "THEN runs.status ELSE runs.status END",
        CONTRACT,
    ),
    Break(
        "a claim does not begin a new attempt",
        "store/writes/claims.py",
        "attempt = runs.attempt + 1,",
        "attempt = runs.attempt + 0,",
        CONTRACT,
    ),
    Break(
        "transactions begin deferred",
        "store/sqlite.py",
        '"BEGIN IMMEDIATE")\n        return',
        '"BEGIN DEFERRED")\n        return',
        CONTRACT,
    ),
    Break(
        "a cancelled parent may start children",
        "store/writes/appends.py",
        "writes = _refuse_late_children(batch, writes)",
        "_refuse_late_children(batch, [])",
        CONTRACT,
    ),
    Break(
        "a crash is not counted",
        "store/writes/claims.py",
        "crashes = runs.crashes + CASE WHEN",
        "crashes = runs.crashes + 0 * CASE WHEN",
        CONTRACT,
    ),
    Break(
        "a retry forgets what had succeeded",
        "engine/past.py",
        "while source and upto != 0:",
        "while source and upto == 0:",
        CRASH,
    ),
    Break(
        "secrets go to disk as they are",
        "engine/codec.py",
        "self._secrets.hide(e.encode(data)).decode()",
        "e.encode(data).decode()",
        ENGINE,
    ),
    Break(
        "nothing may follow the end of a run, but does",
        "core/run.py",
        "if self.outcome is not None:",
        "if self.outcome is None and self.seq < 0:",
        CORE,
    ),
    Break(
        "a run parks while a step is under way",
        "engine/gate.py",
        "if self._active or self.leaving",
        "if self.leaving",
        ENGINE,
    ),
    Break(
        "code that goes on after Parked goes unnoticed",
        "engine/attempt.py",
        "if self._gate.leaving:\n            return _failed",
        "if self._gate.leaving is True:\n            return _failed",
        ENGINE,
    ),
    Break(
        "ctx in a finally goes unnoticed",
        "engine/attempt.py",
        "if broken := self._context.broken or self._gate.swallowed:",
        "if broken := self._context.broken:",
        ENGINE,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sabotage", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="a part of the name of the one to try")
    parser.add_argument("--list", action="store_true", help="name them and do nothing")
    given = parser.parse_args()
    chosen = [a_break for a_break in BREAKS if not given.only or given.only in a_break.name]
    if given.list:
        print("\n".join(f"{a_break.name} ({a_break.file})" for a_break in chosen))
        return 0
    survivors = [a_break.name for a_break in chosen if not try_break(a_break)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} breaks were noticed")
    for name in survivors:
        print(f"  not noticed: {name}")
    return len(survivors)


def try_break(a_break: Break) -> bool:
    """Whether a test turns red."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("src", "tests", "tools"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        broken = copy / "src/retinue" / a_break.file
        source = broken.read_text()
        if source.count(a_break.old) != 1:
            print(f"{a_break.name}: its line stands {source.count(a_break.old)} times in {a_break.file}")
            return False
        broken.write_text(source.replace(a_break.old, a_break.new))
        started = time.monotonic()
        failed = run_tests(copy, a_break.tests, "-x", "-n", "2")
        # What fails without the break too has noticed nothing.
        broken.write_text(source)
        noticed = bool(failed) and not run_tests(copy, failed[0])
        mark = "noticed" if noticed else "NOT NOTICED"
        first = failed[0] if failed else "all tests passed"
        print(f"{mark:11} {time.monotonic() - started:5.1f} s  {a_break.name}\n            {first}", flush=True)
        return noticed


def run_tests(copy: Path, *tests: str) -> list[str]:
    """The tests that fail. A break may also make tests wait for what never comes."""
    command = [sys.executable, "-m", "pytest", "-q", "--timeout", "30", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    marks = ("FAILED tests", "ERROR tests")
    return [line.split(" ")[1] for line in result.stdout.splitlines() if line.startswith(marks)]


if __name__ == "__main__":
    raise SystemExit(main())
