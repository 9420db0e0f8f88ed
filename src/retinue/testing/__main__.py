"""Run a scenario in a process that ends at one of its points: `python -m retinue.testing MODULE:NAME URL`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os

from retinue.testing.clock import SetClock
from retinue.testing.crash import CRASHED, Scenario, live
from retinue.testing.points import Life, Point


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a scenario and end the process at one of its points.")
    parser.add_argument("scenario", help="MODULE:NAME of a Scenario")
    parser.add_argument("url", help="the database")
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--when", choices=("before", "after"), required=True)
    given = parser.parse_args()
    module, _, name = given.scenario.partition(":")
    scenario: Scenario = getattr(importlib.import_module(module), name)
    life = Life(Point(given.number, given.when), end=lambda: os._exit(CRASHED))
    asyncio.run(live(scenario, given.url, SetClock(), life))


if __name__ == "__main__":
    main()
