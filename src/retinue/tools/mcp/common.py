"""What the servers of a pool have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retinue.ports.clock import Clock
from retinue.tools.mcp.masks import Masks


class Keyring:
    """Ways in, by what is declared of them. They outlive connections: authorization servers may change a refresh token
    with each use, and a token that still holds need not be asked for again."""

    def __init__(self) -> None:
        self._ways: dict[Hashable, Any] = {}

    def kept(self, declared: Hashable, make: Callable[[], Any]) -> Any:
        if declared not in self._ways:
            self._ways[declared] = make()
        return self._ways[declared]


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """`folder` is where programs start that name no other."""

    secrets: Mapping[str, str]
    masks: Masks
    clock: Clock
    folder: Path
    keyring: Keyring = field(default_factory=Keyring)
