"""What the README says to try does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def orders(folder: Path) -> subprocess.Popen[str]:
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "def order(" in block]
    (folder / "orders.py").write_text(code.replace("asyncio.sleep(5)", "asyncio.sleep(1)"))
    return subprocess.Popen([sys.executable, "-u", "orders.py"], cwd=folder, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_the_order_is_killed_while_it_packs_and_goes_on_without_charging_twice(tmp_path: Path) -> None:
    with orders(tmp_path) as doomed:
        assert doomed.stdout
        before = [doomed.stdout.readline()]
        while before[-1] != "7 tool.started\n":  # all that it did before is on disk, and it packs
            before.append(doomed.stdout.readline())
        doomed.kill()
    with orders(tmp_path) as again:
        after, _ = again.communicate()
    assert "".join(before).count("charging 42") == 1
    assert "charging" not in after
    assert "run.resumed" in after
    assert after.endswith("{'receipt': 'receipt for 42', 'parcel': 'on its way'}\n")
