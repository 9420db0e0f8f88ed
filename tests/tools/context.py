"""A context for calling a tool without a run around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Context:
    run_id: str = "run_1"
    call_id: str = "call_1"
    idempotency_key: str = "key_1"
    deadline: int | None = None
    told: list[tuple[str, float | None, float | None]] = field(default_factory=list)
    kept: list[tuple[bytes, str, str]] = field(default_factory=list)

    def progress(self, message: str = "", *, done: float | None = None, of: float | None = None) -> None:
        self.told.append((message, done, of))

    async def ask(self, question: str, schema: Mapping[str, object] | None = None) -> object:
        return f"answer to {question}"

    async def artifact(self, data: bytes, media_type: str, name: str = "") -> str:
        self.kept.append((data, media_type, name))
        return f"file:///{name}"
