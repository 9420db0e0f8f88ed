"""`retinue approvals`: what calls would do, and what people say about them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from retinue.core import events as e
from retinue.core.outcome import Waits
from retinue.ports.clock import SystemClock
from retinue.store.sql import open_store
from tests.contract.steps import held

from .conftest import Terminal

SCHEMA: dict[str, object] = {"type": "object", "properties": {"eur": {"type": "number"}}, "required": ["eur"]}
TICKET = "tkt_0123456789"


def asking(folder: Path, **facts: Any) -> str:
    """A run that waits for somebody to approve a call."""
    given: dict[str, Any] = {
        "tool": "mcp:bank/pay",
        "title": "Pay a bill?",
        "arguments": {"eur": 500, "to": "bob"},
        "schema": SCHEMA,
        **facts,
    }

    async def go() -> str:
        (folder / ".retinue").mkdir(exist_ok=True)
        store = await open_store(f"sqlite:///{folder / '.retinue/retinue.db'}", SystemClock())
        run = await held(store, target="agent:clerk")
        opened = e.TicketOpened(ticket_id=TICKET, kind=Waits.APPROVAL, call_id="call-1", **given)
        await run.park(Waits.APPROVAL, tickets=(opened,))
        await store.close()
        return run.id

    return asyncio.run(go())


def said(folder: Path, run_id: str) -> dict[str, Any]:
    """What reached the run."""

    async def go() -> dict[str, Any]:
        store = await open_store(f"sqlite:///{folder / '.retinue/retinue.db'}", SystemClock())
        (signal,) = await store.signals(run_id, 0)
        await store.close()
        data: dict[str, Any] = msgspec.json.decode(signal.data)
        return data

    return asyncio.run(go())


def test_the_list_shows_who_wants_to_do_what(retinue: Terminal, tmp_path: Path) -> None:
    run_id = asking(tmp_path)
    out = retinue("approvals", "list").out
    assert "agent:clerk wants to call mcp:bank/pay\n  Pay a bill?\n  eur  500\n  to   bob\n  asked just now\n" in out
    assert run_id in out
    assert f"retinue approvals approve {TICKET}" in out
    (shown,) = retinue("approvals", "list", "--json").json
    assert (shown["target"], shown["tool"], shown["arguments"]["eur"]) == ("agent:clerk", "mcp:bank/pay", 500)


def test_what_is_too_long_to_show_says_that_it_is_cut(retinue: Terminal, tmp_path: Path) -> None:
    asking(tmp_path, arguments={"note": "x" * 1001 + "evil", "sly": "a\x1b[2Jb\u202ec"})
    out = retinue("approvals", "list").out
    assert "…" in out
    assert "(cut; --json shows all)" in out
    assert "a·[2Jb·c" in out


@pytest.mark.parametrize(
    ("arguments", "decision", "value"),
    [
        (["approve"], "approved", None),
        (["approve", "--args", '{"eur": 20}'], "approved", {"arguments": {"eur": 20}}),
        (["approve", "--for-run"], "approved", {"remember": True}),
        (
            ["approve", "--args", '{"eur": 20}', "--for-run"],
            "approved",
            {"arguments": {"eur": 20}, "remember": True},
        ),
        (["deny"], "denied", None),
        (["deny", "--for-run"], "denied", {"remember": True}),
        (["deny", "--args", '{"eur": 20}'], "denied", {"arguments": {"eur": 20}}),
    ],
)
def test_a_decision_reaches_the_run(
    retinue: Terminal, tmp_path: Path, arguments: list[str], decision: str, value: object
) -> None:
    run_id = asking(tmp_path)
    command, *options = arguments
    assert retinue("approvals", command, TICKET, "--message", "so be it", *options).code == 0
    assert said(tmp_path, run_id) == {
        "ticket_id": TICKET,
        "decision": decision,
        "value": value,
        "message": "so be it",
        "by": "",
    }
    assert "already closed" in retinue("approvals", command, TICKET).err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["approve", TICKET, "--args", "[20]"], "--args is no object"),
        (["approve", TICKET, "--args", "null"], "--args is no object"),
        (["approve", TICKET, "--args", "{20"], "--args is no JSON"),
        (["approve", TICKET, "--args", '{"eur": "much"}'], "not fit its schema: eur"),
        (["approve", TICKET, "--args", "{}"], "not fit its schema"),
        (["answer", TICKET, "yes"], "asks for a decision"),
        (["approve", "tkt_nobody"], "no ticket"),
    ],
)
def test_a_decision_that_makes_no_sense_leaves_the_ticket_open(
    retinue: Terminal, tmp_path: Path, arguments: list[str], why: str
) -> None:
    asking(tmp_path)
    refused = retinue("approvals", *arguments)
    assert refused.code == 2
    assert why in refused.err
    assert len(retinue("approvals", "list", "--json").json) == 1


def test_a_question_is_answered_or_refused_and_never_approved(retinue: Terminal) -> None:
    retinue("run", "function:shop:ask", "--json")
    (ticket,) = retinue("approvals", "list", "--json").json
    assert "asks Which colour?" in retinue("approvals", "list").out
    refused = retinue("approvals", "approve", ticket["ticket_id"])
    assert (refused.code, "approvals answer" in refused.err) == (2, True)
    assert "--message alone" in retinue("approvals", "deny", ticket["ticket_id"], "--for-run").err
    assert retinue("approvals", "deny", ticket["ticket_id"]).code == 0
