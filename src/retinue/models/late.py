"""Packages that take long to import, imported when they are first needed, and one at a time.

Two threads that import parts of one package which need each other can see half of it; so one waits for the other.
"""

from __future__ import annotations

from importlib import import_module
from threading import Lock
from types import ModuleType

_one_at_a_time = Lock()


def load(name: str) -> ModuleType:
    with _one_at_a_time:
        return import_module(name)
