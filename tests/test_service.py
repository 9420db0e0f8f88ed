"""The service: the one way in."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import FunctionContext, Retinue
from retinue.core.outcome import Waits
from retinue.engine.submit import Request
from retinue.errors import BadInput, TicketEnded, UnknownRun
from retinue.testing import SetClock, drain
from tests.contract.steps import held, ticket
from tests.outside import ended


async def echo(ctx: FunctionContext, input: Any) -> Any:
    return input


async def ask(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.wait("question", {"type": "integer"}, title="How many?")


async def below(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.child(ask)


async def test_runs_are_listed_newest_first_by_status_and_in_pages(app: Retinue, clock: SetClock) -> None:
    ids = [(await app.submit(echo, n)).id for n in range(5)]
    await drain(app)
    later = await app.submit(echo, start_at=clock.now_ms() + 1000)
    assert [row.id for row in await app.service.runs(status="completed")] == ids[::-1]
    assert [row.id for row in await app.service.runs(limit=2)] == [later.id, ids[4]]
    assert [row.id for row in await app.service.runs(before=ids[4], limit=2)] == [ids[3], ids[2]]


async def test_a_journal_is_read_in_pages(app: Retinue) -> None:
    run = await app.submit(echo, 1)
    await ended(app, run)
    pages = [await app.service.events(run.id, after, 1) for after in range(4)]
    assert [[event.seq for event in page] for page in pages] == [[1], [2], [3], []]
    with pytest.raises(UnknownRun):
        await app.service.events("run_nobody")


async def test_a_ticket_of_a_child_is_found_at_its_root_and_can_be_approved(app: Retinue) -> None:
    run = await app.submit(below)
    await drain(app)
    (ticket,) = await app.service.tickets(root_id=run.id)
    assert (ticket.title, ticket.kind) == ("How many?", "input")
    await app.service.answer(ticket.id, 3, decision="approved", by="user:ada")
    assert (await ended(app, run)).output == 3
    assert await app.service.tickets(root_id=run.id) == []
    assert len(await app.service.tickets(root_id=run.id, status=None)) == 1


async def test_a_tree_is_the_same_from_each_of_its_runs(app: Retinue) -> None:
    run = await app.submit(below)
    await drain(app)
    rows = await app.service.tree(run.id)
    assert len(rows) == 2
    assert await app.service.tree(rows[1].id) == rows


async def test_outcome_waits_for_the_end(app: Retinue) -> None:
    run_id = await app.service.submit(Request(target=f"function:{__name__}:echo", input=[1]))
    assert (await app.service.outcome(run_id)).output == [1]


async def test_a_call_is_approved_with_other_arguments_and_for_the_rest_of_the_run(app: Retinue) -> None:
    store = app.services.store
    run = await held(store)
    await run.park(Waits.APPROVAL, tickets=(ticket("tkt_pay"),))
    with pytest.raises(BadInput, match="approve or deny"):
        await app.answer("tkt_pay", "yes")
    with pytest.raises(BadInput, match="makes no sense"):
        await app.service.answer("tkt_pay", {"eur": 20}, decision="approved")
    await app.approve("tkt_pay", arguments={"eur": 20}, remember=True)
    (said,) = await store.signals(run.id, 0)
    assert '"value":{"arguments":{"eur":20},"remember":true}' in said.data
    with pytest.raises(TicketEnded):
        await app.deny("tkt_pay", remember=True)
