"""`retinue approvals`"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from retinue.app import Retinue
from retinue.cli.database import command, from_json, one_input, opened
from retinue.cli.decide import arguments, as_asked
from retinue.cli.options import Db, Json, Message, TicketId, commands, examples
from retinue.cli.show import ago, asks, clean, facts, how_to_close, one_line, print_json, say, ticket_json
from retinue.core.approval import ANSWERED, APPROVED, DENIED, Approval
from retinue.errors import BadInput, TicketEnded
from retinue.service import Life, TicketRow

ForRun = Annotated[
    bool, typer.Option("--for-run", help="Decide the same whenever this is asked again, until the run has ended.")
]
app = commands(
    "Decide and answer what runs wait for. A ticket's id may be shortened to its beginning or its end.",
    "retinue approvals list",
    "retinue approvals approve 3f8k2",
    "retinue approvals answer 3f8k2 blue",
)


@app.command("list", epilog=examples("retinue approvals list", "retinue approvals list --json"))
def list_(db: Db = None, as_json: Json = False) -> None:
    """List what people are asked now, and what each call would do."""

    async def go() -> None:
        async with opened(db) as app:
            tickets, now = await app.service.tickets(), await app.service.now()
            targets = {ticket.run_id: (await app.service.run(ticket.run_id)).target for ticket in tickets}
        if as_json:
            print_json([{**ticket_json(ticket), "target": targets[ticket.run_id]} for ticket in tickets])
        elif not tickets:
            say("Nobody is asked anything.")
        else:
            for ticket in tickets:
                _show(ticket, targets[ticket.run_id], now)
            close = "approve" if tickets[0].kind == "approval" else "answer"
            say((f"{close} the first:  ", "dim"), command(how_to_close(tickets[0]), db))
            say((f"{'refuse it:':{len(close) + 13}}", "dim"), command(f"approvals deny {tickets[0].id}", db))

    asyncio.run(go())


def _show(ticket: TicketRow, target: str, now: int) -> None:
    data = msgspec.json.decode(ticket.data)
    wants = "wants to call" if ticket.kind == "approval" else "asks"
    what = data.get("tool") or ticket.title or ticket.call_id
    say((clean(target), "cyan"), f" {wants} ", (one_line(what), "bold"))
    if data.get("tool") and ticket.title and ticket.title != data["tool"]:
        say(f"  {one_line(ticket.title)}")
    facts(arguments(data.get("arguments")))
    expires = f", expires {ago(ticket.expires_at, now)}" if ticket.expires_at else ""
    say((f"  asked {ago(ticket.opened_at, now)}{expires}", "dim"))
    say((f"  {ticket.id}  {ticket.run_id}", "dim"))
    say()


@app.command(
    epilog=examples(
        "retinue approvals approve 3f8k2",
        "retinue approvals approve 3f8k2 --args '{\"eur\": 20}'",
        "retinue approvals approve 3f8k2 --for-run",
    )
)
def approve(
    ticket: TicketId,
    message: Message = "",
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Other arguments instead.")] = None,
    for_run: ForRun = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Let the run do what it asks for."""
    _close(ticket, _approval(args, for_run), APPROVED, message, db, as_json)


@app.command(epilog=examples('retinue approvals deny 3f8k2 --message "too much"'))
def deny(
    ticket: TicketId,
    message: Message = "",
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Arguments that would be fine.")] = None,
    for_run: ForRun = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Refuse what the run asks for. It is told why, and goes on without."""
    _close(ticket, _approval(args, for_run), DENIED, message, db, as_json)


def _approval(args: str | None, for_run: bool) -> object:
    given = from_json(args, "--args") if args is not None else None
    if args is not None and not isinstance(given, dict):
        raise BadInput(problem="--args is no object: say the arguments by name, like '{\"eur\": 20}'.")
    return Approval(arguments=given if isinstance(given, dict) else None, remember=for_run).value


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
    _close(ticket, one_input(text, input_json), ANSWERED, message, db, as_json, is_text=text is not None)


def _close(
    given: str, value: object, decision: str, message: str, db: str | None, as_json: bool, *, is_text: bool = False
) -> None:
    async def go() -> None:
        async with opened(db) as app:
            ticket = await app.service.ticket(given)
            if ticket.status != "open":
                raise TicketEnded(ticket_id=ticket.id, decision=ticket.end)
            _check_kind(ticket, decision, value)
            meant = as_asked(ticket, str(value)) if is_text else value
            await app.service.answer(ticket.id, meant, decision=decision, message=message)
            if as_json:
                print_json({"ticket_id": ticket.id, "run_id": ticket.run_id, "decision": decision})
            else:
                await _say(app, ticket, decision, db)

    asyncio.run(go())


def _check_kind(ticket: TicketRow, decision: str, value: object) -> None:
    """A question is answered, a call is approved; either may be refused."""
    if ticket.kind != "approval" and decision == APPROVED:
        raise BadInput(problem=f"{ticket.id} asks a question: retinue {how_to_close(ticket)}")
    if ticket.kind != "approval" and value is not None and decision == DENIED:
        raise BadInput(problem=f"{ticket.id} asks a question: refuse it with --message alone.")


async def _say(app: Retinue, ticket: TicketRow, decision: str, db: str | None) -> None:
    say((ticket.id, "bold"), f"  {decision}: {asks(ticket)}")
    if any(view.life is Life.ALIVE for view in await app.service.workers()):
        say((f"  {ticket.run_id} goes on", "dim"))
    else:
        say("  no worker is alive; the run goes on with:  ", command("worker", db))
