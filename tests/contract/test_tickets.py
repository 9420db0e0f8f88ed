"""Tickets: opened with their event, taken once, closed with their event or when their time has come."""

from __future__ import annotations

import json

import pytest

from retinue.core import events as e
from retinue.errors import RunEnded, TicketEnded, UnknownRun, UnknownTicket
from retinue.ports.store import Signal, TicketRow, WakeDue
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import Held, held, status, ticket, together


def answer(run: Held, ticket_id: str = "tkt_1", data: str = '{"decision":"approve"}') -> Signal:
    return Signal(run_id=run.id, kind="decide", data=data, ticket_id=ticket_id)


async def test_a_ticket_is_opened_with_its_event(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    opened = ticket(expires_at=clock.now_ms() + 5)
    await run.append(opened)
    row = await store.ticket("tkt_1")
    assert row == TicketRow(
        *("tkt_1", run.id, run.id, "approval", "pay", "open", "Pay?"),
        *(e.encode(opened).decode(), None, clock.now_ms(), clock.now_ms() + 5, None),
    )
    assert await store.tickets() == [row]
    assert await store.ticket("tkt_2") is None


async def test_an_answer_takes_the_ticket_and_wakes_the_run(store: SqlStore) -> None:
    run = await held(store)
    await run.park(tickets=(ticket(),))
    assert await store.signal(answer(run)) == 1
    assert [(s.kind, s.data) for s in await store.signals(run.id, 0)] == [("decide", '{"decision":"approve"}')]
    assert await status(store, run.id) == "queued"
    assert await store.tickets(status="open") == []


async def test_a_ticket_is_taken_once(store: SqlStore) -> None:
    run = await held(store)
    await run.park(tickets=(ticket(),))
    await store.signal(answer(run))
    with pytest.raises(TicketEnded):
        await store.signal(answer(run))
    assert len(await store.signals(run.id, 0)) == 1


async def test_of_two_answers_at_the_same_time_one_counts(store: SqlStore) -> None:
    run = await held(store)
    await run.park(tickets=(ticket(),))
    answers = await together(store, *(store.signal(answer(run)) for _ in range(2)))
    assert answers[0] == 1
    assert isinstance(answers[1], TicketEnded)
    assert len(await store.signals(run.id, 0)) == 1


async def test_a_ticket_is_closed_with_its_event(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.append(ticket())
    clock.advance(3)
    await run.append(e.TicketClosed(ticket_id="tkt_1", decision="approve"))
    (row,) = await store.tickets()
    assert (row.status, row.decision, row.closed_at) == ("closed", "approve", clock.now_ms())
    with pytest.raises(TicketEnded, match="approve"):
        await store.signal(answer(run))


async def test_a_ticket_may_be_opened_and_closed_in_one_append(store: SqlStore) -> None:
    run = await held(store)
    await run.append(ticket(), e.TicketClosed(ticket_id="tkt_1", decision="deny"))
    (row,) = await store.tickets()
    assert (row.status, row.decision) == ("closed", "deny")


async def test_an_unknown_ticket_is_said_to_be_unknown(store: SqlStore) -> None:
    run = await held(store)
    with pytest.raises(UnknownTicket):
        await store.signal(answer(run, "tkt_none"))
    assert await store.signals(run.id, 0) == []


async def test_a_ticket_of_another_run_stays_open(store: SqlStore) -> None:
    run, other = await held(store), await held(store)
    await run.append(ticket())
    with pytest.raises(UnknownTicket):
        await store.signal(answer(other))
    with pytest.raises((UnknownTicket, UnknownRun)):
        await store.signal(Signal(run_id="run_none", kind="decide", ticket_id="tkt_1"))
    assert await store.signal(answer(run)) == 1


async def test_a_ticket_of_a_run_that_ended_is_closed(store: SqlStore) -> None:
    run = await held(store)
    await run.append(ticket())
    await run.finish()
    with pytest.raises((TicketEnded, RunEnded)):
        await store.signal(answer(run))


async def test_a_ticket_expires_once(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.park(tickets=(ticket(expires_at=clock.now_ms() + 1000),))
    await store.wake_due(WakeDue())
    assert await store.signals(run.id, 0) == []
    clock.advance(1)
    for _ in range(2):
        assert not await store.wake_due(WakeDue())
    (signal,) = await store.signals(run.id, 0)
    assert (signal.kind, json.loads(signal.data)) == ("expire", {"ticket_id": "tkt_1"})
    assert await status(store, run.id) == "queued"


async def test_a_ticket_that_was_answered_does_not_expire(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.park(tickets=(ticket(expires_at=clock.now_ms() + 1000),))
    await store.signal(answer(run))
    clock.advance(2)
    await store.wake_due(WakeDue())
    assert [signal.kind for signal in await store.signals(run.id, 0)] == ["decide"]


async def test_a_ticket_that_expired_cannot_be_answered(store: SqlStore, clock: SetClock) -> None:
    run = await held(store)
    await run.park(tickets=(ticket(expires_at=clock.now_ms()),))
    answers = await together(store, store.wake_due(WakeDue()), store.signal(answer(run)))
    kinds = [signal.kind for signal in await store.signals(run.id, 0)]
    assert kinds == (["expire"] if isinstance(answers[1], TicketEnded) else ["decide"])


async def test_tickets_are_found_by_tree_and_status(store: SqlStore) -> None:
    first, second = await held(store), await held(store)
    await first.append(ticket("tkt_1"), ticket("tkt_2"))
    await second.append(ticket("tkt_3"))
    await store.signal(answer(first, "tkt_1"))
    assert [row.id for row in await store.tickets(root_id=first.id)] == ["tkt_1", "tkt_2"]
    assert [row.id for row in await store.tickets(status="open")] == ["tkt_2", "tkt_3"]
    assert [row.id for row in await store.tickets(root_id=first.id, status="open")] == ["tkt_2"]
