"""Who is held to be dead: only who surely is. A live worker that is taken for dead loses its runs in the middle."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from retinue.engine.worker import is_dead, this_process
from retinue.ports.store import WorkerRow

HERE = this_process(1)


def of_process(pid: int) -> WorkerRow:
    """A worker in another process of this host."""
    started = subprocess.run(
        [sys.executable, "-c", f"from retinue.engine.worker import _process_started as p; print(p({pid}))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return replace(HERE, pid=pid, process_started=started.stdout.strip())


def test_who_runs_here_is_not_dead() -> None:
    assert not is_dead(HERE, HERE)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        neighbour = of_process(process.pid)
        assert not is_dead(neighbour, HERE)
        process.kill()
        process.wait()
        assert is_dead(neighbour, HERE)


def test_a_process_that_has_the_number_of_one_that_ended_is_another_one() -> None:
    assert is_dead(replace(HERE, process_started="1"), HERE)


@pytest.mark.parametrize("elsewhere", [{"host": "there"}, {"boot_id": "another boot"}, {"boot_id": HERE.boot_id + "1"}])
def test_whose_processes_cannot_be_seen_from_here_is_not_said_to_be_dead(elsewhere: dict[str, str]) -> None:
    """Another host, one with the same name, or another container of this one."""
    assert not is_dead(replace(HERE, pid=999_999_999, **elsewhere), HERE)  # type: ignore[arg-type]
