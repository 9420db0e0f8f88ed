"""Retinue runs AI agents, and plain async functions, as durable background work."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retinue.app import Retinue as Retinue
    from retinue.app import Run as Run
    from retinue.app import run_sync as run_sync
    from retinue.core.delta import Delta as Delta
    from retinue.core.events import Event as Event
    from retinue.core.outcome import Outcome as Outcome
    from retinue.core.outcome import Reason as Reason
    from retinue.core.outcome import Status as Status
    from retinue.engine.context import CallContext as CallContext
    from retinue.engine.context import current_call as current_call
    from retinue.errors import ChildFailed as ChildFailed
    from retinue.errors import OutcomeUnknown as OutcomeUnknown
    from retinue.errors import RetinueError as RetinueError
    from retinue.errors import StepFailed as StepFailed
    from retinue.errors import TicketRefused as TicketRefused
    from retinue.errors import ToolFailed as ToolFailed
    from retinue.ports.tools import Blob as Blob
    from retinue.ports.tools import Content as Content
    from retinue.ports.tools import Done as Done
    from retinue.ports.tools import ToolContext as ToolContext
    from retinue.project.graphs import Graph as Graph
    from retinue.project.python import Agent as Agent
    from retinue.runners.function import FunctionContext as FunctionContext
    from retinue.runners.function import durable as durable
    from retinue.tools.functions import tool as tool

__version__ = "0.1.0"

_HOMES = {
    "retinue.app": ("Retinue", "Run", "run_sync"),
    "retinue.core.delta": ("Delta",),
    "retinue.core.events": ("Event",),
    "retinue.core.outcome": ("Outcome", "Reason", "Status"),
    "retinue.engine.context": ("CallContext", "current_call"),
    "retinue.errors": ("ChildFailed", "OutcomeUnknown", "RetinueError", "StepFailed", "TicketRefused", "ToolFailed"),
    "retinue.ports.tools": ("Blob", "Content", "Done", "ToolContext"),
    "retinue.project.graphs": ("Graph",),
    "retinue.project.python": ("Agent",),
    "retinue.runners.function": ("FunctionContext", "durable"),
    "retinue.tools.functions": ("tool",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first used, so that importing the package costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'retinue' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
