"""Runs whose process dies while a tool is at work."""

from __future__ import annotations

from typing import Any

from retinue import Done, ToolContext, tool
from retinue.testing import ScriptedModel, SetClock
from tests.agents.acting import guide
from tests.outside import doomed, outside


@tool
async def pay(context: ToolContext, euros: int = 1) -> str:
    """Pay."""
    return f"paid {await outside.wait_at_door(context.idempotency_key)}"


@tool(effect="read")
async def look(context: ToolContext) -> str:
    """Look."""
    return f"saw {await outside.wait_at_door(context.idempotency_key)}"


async def happened(key: str) -> Done | None:
    """Whether the effect is known outside."""
    return Done(f"checked {key}") if f"effect {key}" in outside.done else None


@tool(check=happened)
async def send(context: ToolContext) -> str:
    """Send."""
    return f"sent {await outside.wait_at_door(context.idempotency_key)}"


async def broken_check(key: str) -> Done | None:
    raise ConnectionError("nobody is there")


@tool(check=broken_check)
async def ship(context: ToolContext) -> str:
    """Ship."""
    return f"shipped {await outside.wait_at_door(context.idempotency_key)}"


TOOLS = (pay, look, send, ship)


def keys_of(actor: ScriptedModel, **keys: Any) -> dict[str, Any]:
    """What an app is opened with, for `guide` and its model."""
    return {"agents": [guide(**{"tools": TOOLS, **keys})], "models": {"m": actor}}


async def interrupted(url: str, clock: SetClock, actor: ScriptedModel, **keys: Any) -> str:
    """The id of a run whose process died inside a tool. From then on the door is open."""
    async with doomed(url, clock, **keys_of(actor, **keys)) as app:
        run = await app.submit("agent:guide", "Do it.")
        await outside.at_door.wait()
    outside.door.set()
    return run.id
