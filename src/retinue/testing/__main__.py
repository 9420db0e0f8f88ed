"""Run a scenario in a process that ends at one of its commits: `python -m retinue.testing MODULE:NAME URL`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
from collections.abc import Sequence
from itertools import count

from retinue.ports.store import Write
from retinue.testing.clock import SetClock
from retinue.testing.crash import CRASHED, Scenario, live


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a scenario and end the process at one of its commits.")
    parser.add_argument("scenario", help="MODULE:NAME of a Scenario")
    parser.add_argument("url", help="the database")
    parser.add_argument("--commit", type=int, required=True)
    parser.add_argument("--when", choices=("before", "after"), required=True)
    given = parser.parse_args()
    module, _, name = given.scenario.partition(":")
    scenario: Scenario = getattr(importlib.import_module(module), name)
    commits = count(1)

    def checkpoint(at: str, writes: Sequence[Write]) -> None:
        if at == given.when and next(commits) == given.commit:
            os._exit(CRASHED)

    asyncio.run(live(scenario, given.url, SetClock(), checkpoint))


if __name__ == "__main__":
    main()
