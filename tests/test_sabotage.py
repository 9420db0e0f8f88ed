"""The breaks of `make sabotage` keep up with the source that they break."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_line_to_break_stands_in_its_file_once_and_its_tests_are_there() -> None:
    breaks = runpy.run_path(str(ROOT / "tools/sabotage.py"))["BREAKS"]
    assert len(breaks) >= 10
    for one in breaks:
        assert (ROOT / "src/retinue" / one.file).read_text().count(one.old) == 1, one.name
        assert one.new != one.old
        assert (ROOT / one.tests).exists()
