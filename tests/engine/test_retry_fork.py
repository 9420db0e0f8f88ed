"""Retry and fork: new runs that read their past through their source."""

from __future__ import annotations

from typing import Any

import pytest

from retinue import ChildFailed, Done, FunctionContext, OutcomeUnknown, Retinue, current_call
from retinue.core import events as e
from retinue.errors import BadInput, UnknownRun
from retinue.testing import SetClock, drain
from tests.outside import data_of, ended, outside, types_of


async def key() -> str:
    outside.done.append(current_call().idempotency_key)
    return current_call().idempotency_key


async def mends(ctx: FunctionContext, input: int) -> Any:
    """Fails until the outside world has seen `input` mendings."""
    first = await ctx.step("first", key)
    for n in range(input):
        await ctx.step("mended", mended, n)
    return first


async def mended(n: int) -> str:
    if f"mended {n}" not in outside.done:
        raise ConnectionError("not yet")
    return "now"


async def test_a_retry_reuses_successes_and_goes_on_at_the_failure(app: Retinue) -> None:
    run = await app.submit(mends, 1)
    assert (await ended(app, run)).status == "failed"
    outside.done.append("mended 0")
    again = await run.retry()
    assert (await ended(app, again)).output == outside.done[0]
    assert outside.done.count(outside.done[0]) == 1
    assert again.id != run.id
    row = await again.row()
    assert (row.source_run_id, row.source_seq) == (run.id, (await run.row()).last_seq)


async def test_a_fresh_retry_reuses_nothing(app: Retinue) -> None:
    run = await app.submit(mends, 1)
    await ended(app, run)
    outside.done.append("mended 0")
    await ended(app, await run.retry(fresh=True))
    assert len(outside.done) == 3


async def test_a_retry_of_a_retry_reads_through_both_sources(app: Retinue) -> None:
    run = await app.submit(mends, 2)
    for n in range(2):
        assert (await ended(app, run)).status == "failed"
        outside.done.append(f"mended {n}")
        run = await run.retry()
    assert (await ended(app, run)).output == outside.done[0]
    assert outside.done[1:] == ["mended 0", "mended 1"]


async def test_the_same_key_gives_the_same_retry(app: Retinue) -> None:
    run = await app.submit(mends, 1)
    await ended(app, run)
    assert (await run.retry(idempotency_key="k")).id == (await run.retry(idempotency_key="k")).id


async def test_only_what_has_ended_can_be_retried(app: Retinue) -> None:
    run = await app.submit(asks)
    await drain(app)
    with pytest.raises(BadInput, match="is waiting: only a run that has ended"):
        await run.retry()
    with pytest.raises(UnknownRun):
        await app.get("run_nobody").retry()


async def charges(ctx: FunctionContext, input: str) -> Any:
    effect = "idempotent" if "safe" in outside.done else "write"
    check = happened if "checkable" in outside.done else None
    try:
        return await ctx.step("charge", hanging, effect=effect, check=check)
    except OutcomeUnknown as error:
        outside.done.append("unknown " + error.key)
        raise


async def hanging() -> str:
    return str(await outside.wait_at_door(current_call().idempotency_key))


async def happened(key: str) -> Done | None:
    return Done("charged " + key) if "happened" in outside.done else None


@pytest.mark.parametrize(
    ("learned", "gives", "charged"),
    [
        ([], "unknown", 1),
        (["checkable", "happened"], "charged", 1),
        (["checkable"], "again", 2),
        (["safe"], "again", 2),
    ],
)
async def test_a_write_of_unknown_outcome_keeps_its_key_and_is_decided_again(
    app: Retinue, learned: list[str], gives: str, charged: int
) -> None:
    run = await app.submit(charges)
    await outside.at_door.wait()
    await run.cancel()
    await ended(app, run)
    (key,) = outside.done
    outside.done += learned
    outside.door.set()
    outcome = await ended(app, await run.retry())
    assert outcome.output == {"unknown": None, "charged": "charged " + key, "again": key}[gives]
    assert outside.done.count(key) == charged


async def asks(ctx: FunctionContext, input: Any) -> list[Any]:
    first = await ctx.step("first", key)
    answer = await ctx.wait("question")
    return [first, answer, await ctx.step("last", key)]


async def test_a_fork_reuses_what_is_up_to_its_seq_and_leaves_the_old_run_alone(app: Retinue) -> None:
    run = await app.submit(asks)
    await drain(app)
    fork = await run.fork((await run.row()).last_seq)
    early = await run.fork(2)
    await drain(app)
    for n, ticket in enumerate(await app.tickets()):
        await app.answer(ticket.id, n)
    outputs = [(await ended(app, one)).output for one in (run, fork, early)]
    first = outside.done[0]
    assert [output[0] for output in outputs] == [first, first, outside.done[1]]  # type: ignore[index]
    assert len({output[2] for output in outputs}) == 3  # type: ignore[index]


@pytest.mark.parametrize("seq", [-1, 0, 99])
async def test_a_fork_at_a_seq_that_is_not_there_is_refused(app: Retinue, seq: int) -> None:
    run = await app.submit(asks)
    with pytest.raises(BadInput, match=f"cannot be forked at {seq}"):
        await run.fork(seq)


async def test_an_answer_that_was_given_is_not_asked_for_again(app: Retinue) -> None:
    run = await app.submit(asks)
    await drain(app)
    await app.answer((await app.tickets())[0].id, "yes")
    await ended(app, run)
    again = await run.retry()
    assert (await ended(app, again)).output == (await run.outcome()).output
    assert "ticket.opened" not in await types_of(again)


async def family(ctx: FunctionContext, input: Any) -> Any:
    return [await ctx.child(quick, "good"), await ctx.child(mends, 1)]


async def quick(ctx: FunctionContext, input: str) -> Any:
    return await ctx.step("quick", outside.act, input)


async def test_a_retry_keeps_completed_children_and_retries_the_others(app: Retinue) -> None:
    run = await app.submit(family)
    assert (await ended(app, run)).status == "failed"
    outside.done.append("mended 0")
    again = await run.retry()
    good, charged = outside.done[:2]
    assert (await ended(app, again)).output == [good, charged]
    assert outside.done == [good, charged, "mended 0"]
    (started,) = await data_of(again, e.ChildStarted)
    assert started.target.endswith(":mends")


async def handed_over(ctx: FunctionContext, input: Any) -> Any:
    await ctx.sleep(hours=1)
    try:
        return await ctx.child(family)
    except ChildFailed:
        return await ctx.step("mended", mended, 0)


async def test_a_retry_does_not_sleep_again(app: Retinue, clock: SetClock) -> None:
    run = await app.submit(handed_over)
    await drain(app)
    clock.advance(3600)
    await app.worker.duty()
    assert (await ended(app, run)).status == "failed"
    outside.done.append("mended 0")
    again = await run.retry()
    assert (await ended(app, again)).status == "completed"
    assert "run.waiting" not in await types_of(again)
