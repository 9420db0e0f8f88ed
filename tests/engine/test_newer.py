"""Runs that a newer release has worked on too."""

from __future__ import annotations

from typing import Any, cast

import pytest

from retinue import FunctionContext, Retinue, Run
from retinue.core.events import Unknown
from retinue.errors import NewerEvent
from retinue.store.sql import SqlStore
from retinue.testing import drain
from tests.conftest import eventually
from tests.contract.steps import by_hand

REMARK = "INSERT INTO events (run_id, seq, root_id, root_seq, attempt, at, type, data) VALUES (?, ?, ?, ?, 1, 0, ?, ?)"


async def ask(ctx: FunctionContext, input: Any) -> Any:
    return await ctx.wait("name")


async def say(ctx: FunctionContext, input: Any) -> Any:
    return input


async def remarked(app: Retinue) -> Run:
    """A run that waits for an answer, in whose journal a newer release has written."""
    run = await app.submit(ask)
    await drain(app)
    store, seq = cast(SqlStore, app.services.store), (await run.row()).last_seq + 1
    await by_hand(store, REMARK, run.id, seq, run.id, seq, "remark.made", '{"text":"well"}')
    await by_hand(store, "UPDATE runs SET last_seq = ?, tree_seq = ? WHERE id = ?", seq, seq, run.id)
    return run


async def is_left(app: Retinue, run: Run) -> bool:
    row = await run.row()
    return row.status == "queued" and "events" in (await app.services.store.requirement(row.requires) or "")


async def test_it_is_left_to_who_knows_its_events_and_not_claimed_again(app: Retinue) -> None:
    run = await remarked(app)
    (ticket,) = await run.tickets()
    await app.answer(ticket.id, "Ada")
    await eventually(lambda: is_left(app, run))
    row = await run.row()
    assert (row.status, row.attempt, row.crashes) == ("queued", 2, 0)
    requires = await app.services.store.requirement(row.requires)
    assert requires == f'{{"platform":"function","function":"{__name__}:ask","events":["remark.made"]}}'
    other = await app.run(say, "others go on")
    assert (other.output, (await run.row()).attempt) == ("others go on", 2)


async def test_a_release_that_knows_its_events_takes_it(app: Retinue) -> None:
    knows = {"platform": "function", "function": f"{__name__}:ask", "events": ["run.queued"]}
    assert app.services.runners.can_load(knows)
    assert not app.services.runners.can_load(knows | {"events": ["run.queued", "remark.made"]})
    assert not app.services.runners.can_load(knows | {"events": 7})


async def test_its_journal_can_be_read_and_followed_and_no_state_is_made_of_it(app: Retinue) -> None:
    run = await remarked(app)
    events = await app.service.events(run.id)
    assert events[-1].data == Unknown("remark.made", {"text": "well"})
    follower = run.follow()
    assert [(await anext(follower)).type for _ in events] == [event.type for event in events]
    with pytest.raises(NewerEvent, match=f"{run.id} has an event of a newer release: remark.made. Upgrade"):
        await app.service.explain(run.id)


async def test_one_that_goes_on_from_it_is_left_too(app: Retinue) -> None:
    run = await remarked(app)
    await by_hand(cast(SqlStore, app.services.store), "UPDATE runs SET status = 'failed' WHERE id = ?", run.id)
    again = await run.retry()
    await eventually(lambda: is_left(app, again))
    assert ((await again.row()).status, (await again.row()).attempt) == ("queued", 1)
