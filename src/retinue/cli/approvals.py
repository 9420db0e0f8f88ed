"""`retinue approvals`"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from retinue.app import Retinue
from retinue.cli.database import command, from_json, one_input, opened
from retinue.cli.options import Db, Json, Message, TicketId, commands, examples
from retinue.cli.show import ago, clean, how_to_close, one_line, print_json, say, table, ticket_json
from retinue.errors import TicketEnded
from retinue.service import Life, TicketRow

app = commands("Decide and answer what runs wait for. A ticket's id may be shortened to its beginning or its end.")


@app.command("list", epilog=examples("retinue approvals list"))
def list_(db: Db = None, as_json: Json = False) -> None:
    """List what people are asked now."""

    async def go() -> None:
        async with opened(db) as app:
            tickets, now = await app.service.tickets(), await app.service.now()
        if as_json:
            print_json([ticket_json(ticket) for ticket in tickets])
        elif not tickets:
            say("Nobody is asked anything.")
        else:
            heads = ["TICKET", "KIND", "ASKED", "EXPIRES", "RUN", "WHAT"]
            table(heads, [_line(ticket, now) for ticket in tickets])
            say()
            say(("answer the first:  ", "dim"), command(how_to_close(tickets[0]), db))

    asyncio.run(go())


def _line(ticket: TicketRow, now: int) -> list[str]:
    data = msgspec.json.decode(ticket.data)
    given = f"  {one_line(data['arguments'], 80)}" if data.get("arguments") is not None else ""
    expires = ago(ticket.expires_at, now) if ticket.expires_at else "never"
    what = clean(ticket.title or ticket.call_id) + given
    return [ticket.id, ticket.kind, ago(ticket.opened_at, now), expires, ticket.run_id[-8:], what]


@app.command(
    epilog=examples("retinue approvals approve 3f8k2", "retinue approvals approve 3f8k2 --args '{\"eur\": 20}'")
)
def approve(
    ticket: TicketId,
    message: Message = "",
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Other arguments instead.")] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Let the run do what it asks for."""
    value = from_json(args, "--args") if args is not None else None
    _close(ticket, value, "approved", message, db, as_json)


@app.command(epilog=examples('retinue approvals deny 3f8k2 --message "too much"'))
def deny(
    ticket: TicketId,
    message: Message = "",
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="What is said with it.")] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Refuse what the run asks for."""
    value = from_json(args, "--args") if args is not None else None
    _close(ticket, value, "denied", message, db, as_json)


@app.command(
    epilog=examples(
        "retinue approvals answer 3f8k2 blue", "retinue approvals answer 3f8k2 --input-json '{\"size\": 3}'"
    )
)
def answer(
    ticket: TicketId,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The answer.")] = None,
    input_json: Annotated[str | None, typer.Option("--input-json", metavar="JSON", help="The answer.")] = None,
    message: Message = "",
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Answer what the run asks. Where a number or yes/no is asked for, TEXT may be that: 42, true."""
    if text is None and input_json is None:
        raise typer.BadParameter("Say the answer, as TEXT or --input-json.")
    _close(ticket, one_input(text, input_json), "answered", message, db, as_json, is_text=text is not None)


def _close(
    given: str, value: object, decision: str, message: str, db: str | None, as_json: bool, *, is_text: bool = False
) -> None:
    async def go() -> None:
        async with opened(db) as app:
            ticket = await app.service.ticket(given)
            if ticket.status != "open":
                raise TicketEnded(ticket_id=ticket.id, decision=ticket.decision or ticket.status)
            meant = _as_asked(ticket, str(value)) if is_text else value
            await app.service.answer(ticket.id, meant, decision=decision, message=message)
            if as_json:
                print_json({"ticket_id": ticket.id, "run_id": ticket.run_id, "decision": decision})
            else:
                await _say(app, ticket, decision, db)

    asyncio.run(go())


def _as_asked(ticket: TicketRow, text: str) -> object:
    """What is typed as text may be meant as a number, a list and so on: what the ticket's schema asks for decides."""
    asked = (msgspec.json.decode(ticket.data).get("schema") or {}).get("type", "string")
    if asked == "string" or (isinstance(asked, list) and "string" in asked):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _say(app: Retinue, ticket: TicketRow, decision: str, db: str | None) -> None:
    say((ticket.id, "bold"), f"  {decision}: {clean(ticket.title or ticket.call_id)}")
    if any(view.life is Life.ALIVE for view in await app.service.workers()):
        say((f"  {ticket.run_id} goes on", "dim"))
    else:
        say("  no worker is alive; the run goes on with:  ", command("worker", db))
