"""Figures: medians with their spread, and what machine they come from."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the report: what was measured, each round's value, and what it is held against."""

    what: str
    values: Sequence[float]
    unit: str
    target: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """Whether the median keeps to the target; if not, by how much it misses it."""
        found = re.match(r"([≤≥]) ([\d.,]+)", self.target)
        if not found:
            return ""
        limit, at_most = float(found[2].replace(",", "")), found[1] == "≤"
        if self.median <= limit if at_most else self.median >= limit:
            return "held"
        return f"**missed**, {self.median / limit:.2g} × that"

    def row(self) -> str:
        spread = f"{_round(min(self.values))} – {_round(max(self.values))}"
        return f"| {self.what} | {_round(self.median)} {self.unit} | {spread} | {self.target} | {self.verdict} |"


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def table(figures: Sequence[Figure]) -> str:
    head = "| what | median | spread | target | |\n|---|---|---|---|---|"
    return "\n".join([head, *(figure.row() for figure in figures)])


def machine() -> str:
    """What the figures were measured on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in _read("/proc/cpuinfo").splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or platform.machine(),
    )
    memory = next((line.split()[1] for line in _read("/proc/meminfo").splitlines() if line.startswith("MemTotal")), "0")
    return (
        f"{os.cpu_count()} × {cpu}, {int(memory) // 1024 // 1024} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}; "
        f"load {os.getloadavg()[0]:.1f} before the first figure"
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
