"""Tickets: what a run asks people, and what they answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue import FunctionContext, Retinue, TicketRefused
from retinue.core import events as e
from retinue.errors import BadInput, NotStorable, RunEnded, TicketEnded, UnknownTicket
from retinue.ports.store import Signal
from retinue.testing import SetClock, drain
from tests.outside import data_of, ended, pass_time

SCHEMA: dict[str, object] = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


async def ask(ctx: FunctionContext, input: dict[str, Any]) -> Any:
    try:
        return await ctx.wait("question", input.get("schema"), expires_in=input.get("expires_in"))
    except TicketRefused as error:
        return f"refused: {error.decision}"


async def test_an_answer_wakes_the_run_and_is_what_the_code_gets(app: Retinue) -> None:
    run = await app.submit(ask, {})
    await drain(app)
    assert (await run.row()).waits_for == "input"
    (ticket,) = await app.tickets()
    await app.answer(ticket.id, {"any": ["thing"]})
    assert (await ended(app, run)).output == {"any": ["thing"]}
    assert await app.tickets() == []


async def test_a_denied_ticket_raises_ticket_refused(app: Retinue) -> None:
    run = await app.submit(ask, {"schema": SCHEMA})
    await drain(app)
    await app.deny((await app.tickets())[0].id, message="not today")
    assert (await ended(app, run)).output == "refused: denied"
    (closed,) = await data_of(run, e.TicketClosed)
    assert closed.message == "not today"


async def test_a_ticket_that_expires_raises_ticket_refused(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(ask, {"expires_in": 60})
    await drain(app)
    await pass_time(app, clock, 59)
    assert (await run.row()).status == "waiting"
    await pass_time(app, clock, 1)
    assert (await run.outcome()).output == "refused: expired"


async def test_an_answer_must_fit_the_schema_and_the_ticket_stays_open(app: Retinue) -> None:
    run = await app.submit(ask, {"schema": SCHEMA})
    await drain(app)
    (ticket,) = await app.tickets()
    with pytest.raises(BadInput, match="name: 7 is not of type"):
        await app.answer(ticket.id, {"name": 7})
    await app.answer(ticket.id, {"name": "Ada"})
    assert (await ended(app, run)).output == {"name": "Ada"}


async def test_a_question_that_is_large_is_shown_whole_and_its_answer_checked(app: Retinue) -> None:
    run = await app.submit(ask, {"schema": {"enum": [f"colour {n:06}" for n in range(20_000)]}})
    await drain(app)
    (ticket,) = await app.tickets()
    assert "colour 019999" in ticket.data
    with pytest.raises(BadInput, match="does not fit"):
        await app.answer(ticket.id, "none of them")
    await app.answer(ticket.id, "colour 000007")
    assert (await ended(app, run)).output == "colour 000007"


async def test_an_answer_that_cannot_be_stored_is_refused(app: Retinue) -> None:
    run = await app.submit(ask, {"schema": SCHEMA})
    await drain(app)
    (ticket,) = await app.tickets()
    with pytest.raises(NotStorable):
        await app.answer(ticket.id, object())
    assert (await run.row()).status == "waiting"


async def test_a_ticket_takes_one_answer(app: Retinue) -> None:
    run = await app.submit(ask, {})
    await drain(app)
    (ticket,) = await app.tickets()
    answers = await asyncio.gather(*(app.answer(ticket.id, n) for n in range(5)), return_exceptions=True)
    assert [type(answer) for answer in answers].count(TicketEnded) == 4
    await ended(app, run)
    with pytest.raises(TicketEnded):
        await app.answer(ticket.id, "late")


async def test_an_unknown_ticket_or_decision_is_refused(app: Retinue) -> None:
    with pytest.raises(UnknownTicket):
        await app.answer("tkt_nobody", 1)
    with pytest.raises(BadInput, match="answered, approved or denied"):
        await app.service.answer("tkt_nobody", decision="perhaps")


async def test_the_tickets_of_a_run_that_ended_take_no_answer(app: Retinue) -> None:
    run = await app.submit(ask, {})
    await drain(app)
    (ticket,) = await app.tickets()
    await run.cancel()
    await ended(app, run)
    with pytest.raises(TicketEnded):
        await app.answer(ticket.id, 1)
    with pytest.raises(RunEnded):
        await run.pause()


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("sing", "{}", "not known here"),
        ("answer", '{"ticket_id":"tkt_nobody","decision":"answered"}', "too late"),
        ("child", '{"call_id":"nobody"}', "too late"),
    ],
)
async def test_a_signal_that_nobody_waits_for_is_noted_and_changes_nothing(
    app: Retinue, kind: str, data: str, why: str
) -> None:
    run = await app.submit(ask, {})
    await drain(app)
    await app.services.store.signal(Signal(run_id=run.id, kind=kind, data=data))
    await drain(app)
    (warned,) = await data_of(run, e.Warned)
    assert why in warned.message
    await app.answer((await app.tickets())[0].id, "all the same")
    assert (await ended(app, run)).output == "all the same"


async def ask_often(ctx: FunctionContext, input: int) -> list[Any]:
    return await asyncio.gather(*(ctx.wait("q", key=str(n), title=f"q{n}") for n in range(input)))


async def test_several_questions_are_asked_at_once_and_answered_in_any_order(app: Retinue) -> None:
    run = await app.submit(ask_often, 3)
    await drain(app)
    tickets = {ticket.title: ticket.id for ticket in await run.tickets()}
    for n in (2, 0, 1):
        await app.answer(tickets[f"q{n}"], n * 10)
        await drain(app)
    assert (await run.outcome()).output == [0, 10, 20]


async def test_an_answer_between_the_last_look_and_parking_is_not_missed(app: Retinue) -> None:
    """The answer is sent a different number of turns of the loop after the ticket is there."""
    for turns in range(60):
        run = await app.submit(ask, {})
        while not (tickets := await run.tickets()):
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        await app.answer(tickets[0].id, turns)
        assert (await ended(app, run)).output == turns
