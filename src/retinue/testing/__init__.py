"""For tests of what runs on Retinue: a clock set by hand, a scripted model, `drain`, and the crash harness."""

from __future__ import annotations

from retinue.models.script import Script
from retinue.models.scripted import Reply, ScriptedModel, call
from retinue.testing.clock import SetClock
from retinue.testing.crash import (
    Report,
    Scenario,
    Story,
    check_laws,
    crash_everywhere,
    render,
    sqlite_files,
    unknown_calls,
    write_tries,
)
from retinue.testing.drain import drain

__all__ = [
    "Reply",
    "Report",
    "Scenario",
    "Script",
    "ScriptedModel",
    "SetClock",
    "Story",
    "call",
    "check_laws",
    "crash_everywhere",
    "drain",
    "render",
    "sqlite_files",
    "unknown_calls",
    "write_tries",
]
