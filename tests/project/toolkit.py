"""A stand-in for `@tool`, for files that a test writes: `from tests.project.toolkit import tool`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from retinue.ports.models import ToolSpec


@dataclass
class FunctionTool:
    function: Callable[..., Any]
    spec: ToolSpec
    digest: str


def tool(function: Callable[..., Any]) -> FunctionTool:
    return FunctionTool(function, ToolSpec(name=function.__name__), f"digest of {function.__name__}")
