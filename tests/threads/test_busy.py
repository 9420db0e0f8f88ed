"""A branch on which somebody is still answering: wait, be refused, interrupt, or answer beside it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue import Retinue
from retinue.errors import ThreadBusy
from retinue.models.scripted import ScriptedModel
from retinue.service import OnBusy, Said
from retinue.testing import SetClock, drain

from .talk import ASKS, Doors, Heard, answer, counts, ends, say, told


async def status_of(app: Retinue, said: Said) -> str | None:
    return (await answer(app, said)).status


async def waits_for(app: Retinue, said: Said) -> str | None:
    return (await app.get(said.answers[0].run_id).row()).after_run_id


async def test_C9_what_is_said_on_a_busy_branch_is_answered_afterwards(app: Retinue, doors: Doors, ann: Heard) -> None:
    first = await say(app, "first", "model:gated")
    await doors.reached("first")
    second = await say(app, "second", "model:ann", thread=first)
    assert (await status_of(app, second), await waits_for(app, second)) == ("queued", first.answers[0].run_id)
    doors.open("first")
    await ends(app, second)
    assert ann.turns == [("user", "first"), ("user", "[gated]: answer to first"), ("user", "second")]
    assert await waits_for(app, second) is None


async def test_C9_a_busy_branch_refuses_if_it_is_asked_to(app: Retinue, doors: Doors) -> None:
    first = await say(app, "first", "model:gated")
    await doors.reached("first")
    before = await counts(app)
    with pytest.raises(ThreadBusy) as caught:
        await say(app, "second", thread=first, on_busy=OnBusy.REJECT)
    assert caught.value.run_id == first.answers[0].run_id
    assert await counts(app) == before
    doors.open("first")
    await ends(app, first)
    assert await say(app, "second", thread=first, on_busy=OnBusy.REJECT)


async def test_C9_a_busy_branch_is_interrupted_if_it_is_asked_to(app: Retinue, doors: Doors, ann: Heard) -> None:
    first = await say(app, "first", "model:gated")
    await doors.reached("first")
    second = await say(app, "second", "model:gated", thread=first)
    third = await say(app, "third", "model:ann", thread=first, on_busy=OnBusy.INTERRUPT)
    outcomes = [await ends(app, said) for said in (first, second, third)]
    assert [outcome.status for outcome in outcomes] == ["cancelled", "cancelled", "completed"]
    assert outcomes[0].error
    assert outcomes[0].error.message == "interrupted by a newer message"
    assert [line for _, line in ann.turns] == ["first", "[gated]: answer to ", "second", "third"]
    assert doors.inside == ["first"]


async def test_C9_a_busy_branch_is_answered_twice_at_once_if_it_is_asked_to(
    app: Retinue, doors: Doors, ann: Heard
) -> None:
    first = await say(app, "first", "model:gated")
    await doors.reached("first")
    second = await say(app, "second", "model:ann", thread=first, on_busy=OnBusy.PARALLEL)
    assert (await ends(app, second)).output == "ann heard 2"
    assert await status_of(app, first) == "running"
    doors.open("first")
    await ends(app, first)


async def test_C9_sibling_branches_run_at_once(app: Retinue, doors: Doors) -> None:
    root = await say(app, "root", "model:ann")
    await ends(app, root)
    names = [str(n) for n in range(5)]
    forks = [await say(app, name, "model:gated", thread=root, parent=root.answers[0].message_id) for name in names]
    await doors.reached(*names)
    beside = [await say(app, None, "model:ann", thread=root, parent=fork.message_id) for fork in forks]
    assert [(await ends(app, one)).status for one in beside] == ["completed"] * 5, "nobody waits for who answers beside"
    doors.open(*names)
    assert [(await ends(app, fork)).output for fork in forks] == [f"answer to {name}" for name in names]


async def test_C9_a_run_that_waits_for_a_person_holds_only_its_branch(app: Retinue, ann: Heard) -> None:
    root = await say(app, "root", "model:ann")
    await ends(app, root)
    parent = root.answers[0].message_id
    asking = await say(app, "hello", ASKS, thread=root, parent=parent)
    behind = await say(app, "and?", "model:ann", thread=root, parent=asking.answers[0].message_id)
    beside = await say(app, "meanwhile", "model:ann", thread=root, parent=parent)
    await drain(app)
    assert [await status_of(app, one) for one in (asking, behind, beside)] == ["waiting", "queued", "completed"]
    (ticket,) = await app.tickets()
    await app.answer(ticket.id, "Ada")
    await ends(app, behind)
    assert [line for _, line in ann.turns][-2:] == ["[tests.threads.talk:asks]: hello Ada", "and?"]


@pytest.mark.parametrize("how", ["cancelled", "expired", "failed", "denied"])
async def test_who_waits_goes_on_however_the_one_before_it_ends(
    app: Retinue, clock: SetClock, how: str, ann: Heard
) -> None:
    first = await say(app, "hello", ASKS, expires_at=clock.now_ms() + 5000 if how == "expired" else None)
    second = await say(app, "and?", "model:ann", thread=first)
    await drain(app)
    run = app.get(first.answers[0].run_id)
    match how:
        case "cancelled":
            await run.cancel()
        case "expired":
            clock.advance(6)
            await app.worker.duty()
        case "denied":
            (ticket,) = await run.tickets()
            await app.deny(ticket.id)
        case _:
            (ticket,) = await run.tickets()
            await app.answer(ticket.id, "Ada")
    await ends(app, second)
    assert [line for _, line in ann.turns if "Ada" not in line] == ["hello", "and?"]


async def test_one_of_a_queue_that_is_cancelled_lets_nobody_overtake(app: Retinue, doors: Doors, ann: Heard) -> None:
    first = await say(app, "first", "model:gated")
    await doors.reached("first")
    second = await say(app, "second", "model:gated", thread=first)
    third = await say(app, "third", "model:ann", thread=first)
    await app.get(second.answers[0].run_id).cancel()
    assert (await ends(app, second)).status == "cancelled"
    assert (await status_of(app, third), await waits_for(app, third)) == ("queued", first.answers[0].run_id)
    doors.open("first")
    await ends(app, third)
    assert [line for _, line in ann.turns] == ["first", "[gated]: answer to first", "second", "third"]


async def test_a_retry_waits_for_its_branch_too(app: Retinue, doors: Doors, ann: Heard) -> None:
    first = await say(app, "first", "model:gated")
    await doors.reached("first")
    second = await say(app, "second", "model:ann", thread=first)
    run = app.get(second.answers[0].run_id)
    await run.cancel()
    retried = await run.retry(idempotency_key="again")
    assert (await run.retry(idempotency_key="again")).id == retried.id
    assert (await retried.row()).after_run_id == first.answers[0].run_id
    doors.open("first")
    assert (await retried.outcome()).output == "ann heard 3"
    message_id = (await retried.row()).message_id
    assert message_id
    placeholder = await app.service.threads.message(message_id)
    assert (placeholder.parent_id, placeholder.status) == (second.message_id, "completed")
    assert await told(app, first) == ["first", "answer to first", "second", "ann heard 3"]


async def test_C14_the_sixth_run_of_an_owner_waits_and_another_owners_does_not(
    database_url: str, clock: SetClock, models: dict[str, ScriptedModel], doors: Doors
) -> None:
    async with Retinue.open(database_url, clock=clock, models=models, owner_limit=5, grace=0) as app:
        mine = [await say(app, str(n), "model:gated", owner="ann") for n in range(6)]
        await doors.reached(*"01234")
        others = await say(app, "other", "model:ann", owner="bob")
        assert (await ends(app, others)).output == "ann heard 1"
        assert sorted(doors.inside) == list("01234")
        assert await status_of(app, mine[5]) == "queued"
        doors.open("3")
        await doors.reached("5")
        doors.open(*"01245")
        await drain(app)


posts = st.tuples(st.integers(0, 8), st.sampled_from(list(OnBusy)))
openings = st.integers(0, 8)


@given(st.lists(posts | openings, max_size=12))
@settings(max_examples=40, deadline=None)
async def test_nobody_answers_before_all_above_have_ended_unless_parallel_was_said(
    steps: list[tuple[int, OnBusy] | int],
) -> None:
    """Things are said anywhere in a tree while some answers take long; in the end all have ended, in that order."""
    log: list[tuple[str, str]] = []
    doors = Doors()
    async with Retinue.open("sqlite://", models={"gated": doors.model}, grace=0, clock=SetClock()) as app:
        app.services.store.on_commit(lambda commit: log.extend((one.run_id, one.type) for one in commit.events))
        said = [await say(app, "0", "model:gated")]
        above: list[tuple[int, ...]] = [()]
        parallel: set[int] = set()
        for step in steps:
            if isinstance(step, int):
                doors.open(str(step))
                continue
            under, on_busy = step[0] % len(said), step[1]
            parent = said[under].answers[0].message_id
            try:
                one = await say(app, f"{len(said)}", "model:gated", thread=said[0], parent=parent, on_busy=on_busy)
            except ThreadBusy:
                continue
            parallel |= {len(said)} if on_busy is OnBusy.PARALLEL else set()
            above.append((*above[under], under))
            said.append(one)
        doors.open(*map(str, range(len(said))))
        await drain(app)
        runs = [one.answers[0].run_id for one in said]
        assert [log.count((run_id, "run.finished")) for run_id in runs] == [1] * len(runs)
        for n, run_id in enumerate(runs):
            if parallel.isdisjoint({n, *above[n]}) and (run_id, "run.started") in log:
                began = log.index((run_id, "run.started"))
                assert all(log.index((runs[up], "run.finished")) < began for up in above[n])
