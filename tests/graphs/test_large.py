"""Graphs that are large."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.faults.fleet import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_G9_over_a_hundred_thousand_items_a_process_stays_small(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.graphs.large", f"sqlite:///{tmp_path / 'large.db'}", "100000"),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    print(f"100,000 items took {int(said)} MiB at most")
    assert int(said) < 300
