"""Modules of ours that are run in a process of their own, since only a process can be ended."""

from __future__ import annotations

import os
import sys

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


def command(module: str, *arguments: str) -> list[str]:
    """What lies in the folder where this was started is not taken for a module (-P)."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Without what is ours: keys are in it."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed_on | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
