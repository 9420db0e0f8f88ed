"""Calls and what they gave, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.cli.show import clean, failure, one_line, plural
from retinue.core.events import ToolFinished
from retinue.core.tool import FINISH

LONGEST_ARGUMENT, LONGEST_ARGUMENTS, LONGEST_RESULT = 60, 100, 200


def arguments(given: object, longest: int = LONGEST_ARGUMENTS, each: int = LONGEST_ARGUMENT) -> str:
    """`city: Porto, days: 3`"""
    if not isinstance(given, Mapping):
        return "" if given is None else one_line(given, longest)
    said = (f"{one_line(str(name), 40)}: {one_line(value, each)}" for name, value in given.items())
    return one_line(", ".join(said), longest)


def result(finished: ToolFinished) -> str:
    """What a call gave; what went wrong, where it failed."""
    if finished.error:
        return one_line(failure(finished.error))
    files = f"{plural(len(finished.files), 'file')}" if finished.files else ""
    text = "" if finished.result is None else one_line(finished.result, LONGEST_RESULT)
    return ", ".join(filter(None, (text, files)))


def call(tool: str, given: object, finished: ToolFinished) -> str:
    """What a call was given, and what came of it. What completes the task is the run's output, and shown as that."""
    came = "" if tool == FINISH and finished.ok else result(finished)
    asked = "" if tool == FINISH else arguments(given)
    return f"{asked} → {came}" if asked and came else asked or came


def name(tool: str) -> str:
    """A tool's name; models make up long ones."""
    return one_line(clean(tool), 60)
