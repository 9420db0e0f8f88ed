"""From what is said to what answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from retinue import Retinue
from retinue.core.messages import Data, File, Text
from retinue.errors import (
    BadFile,
    BadInput,
    IdempotencyConflict,
    NotStorable,
    UnknownMessage,
    UnknownModel,
    UnknownRun,
    UnknownTarget,
    UnknownThread,
)
from retinue.ports.store import Post, Write
from retinue.service import OnBusy, Say
from retinue.store.sql import SqlStore
from retinue.store.writer import Halted
from retinue.testing import ScriptedModel, SetClock, drain
from tests.outside import ended, types_of

from .talk import ASKS, FAILS, KEEPS_QUIET, ORDERS, Doors, Heard, answer, counts, ends, say, told


async def test_C1_what_is_said_is_stored_in_one_transaction_and_its_answer_comes_later(
    app: Retinue, doors: Doors
) -> None:
    async with Retinue.open("sqlite://", worker=False) as idle:
        before = idle.services.store.commits
        said = await say(idle, "hello")
        assert idle.services.store.commits == before + 1
        assert (await answer(idle, said)).status == "queued"
    said = await say(app, "hello", "model:gated")
    await doors.reached("hello")
    placeholder = await answer(app, said)
    assert (placeholder.status, placeholder.parts, placeholder.participant) == ("running", (), "model:gated")
    doors.open("hello")
    assert (await ends(app, said)).output == "answer to hello"
    answered = await answer(app, said)
    assert (answered.status, answered.parts) == ("completed", (Text(text="answer to hello"),))
    run = app.get(said.answers[0].run_id)
    assert await types_of(run) == ["run.queued", "run.started", "turn.started", "model.responded", "run.finished"]
    row = await run.row()
    assert (row.thread_id, row.message_id) == (said.thread_id, placeholder.id)


async def test_C2_with_nobody_to_answer_nothing_is_stored(app: Retinue) -> None:
    with pytest.raises(UnknownTarget, match="say who is to answer"):
        await app.service.threads.say(Say(targets=(), parts=(Text(text="hello"),)))
    for target in ("model:nobody", "nobody", "function:no.such:thing"):
        with pytest.raises((UnknownTarget, UnknownModel)):
            await say(app, "hello", "model:test", target)
    assert await counts(app) == {}


async def test_C2_two_submits_with_one_key_are_one_run_and_both_get_it(app: Retinue) -> None:
    first = await say(app, "hello", "model:ann", "model:bob", idempotency_key="k")
    await drain(app)
    assert await say(app, "hello", "model:ann", "model:bob", idempotency_key="k") == first
    assert (await counts(app))["messages"] == 3
    both = ("model:ann", "model:bob")
    others: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
        ("hello!", both, {}),
        ("hello", both[:1], {}),
        ("hello", both, {"thread": first}),
        ("hello", both, {"max_minutes": 1.0}),
        ("hello", both, {"on_busy": OnBusy.PARALLEL}),
    ]
    for text, targets, options in others:
        with pytest.raises(IdempotencyConflict):
            await say(app, text, *targets, idempotency_key="k", **options)
    assert (await counts(app))["messages"] == 3
    assert (await say(app, "hello", "model:ann", idempotency_key="k", owner="ada")).thread_id != first.thread_id


async def test_C2_a_key_works_for_answers_beside_others_too(app: Retinue) -> None:
    said = await say(app, "hello", "model:ann")
    await drain(app)
    first = await say(app, None, "model:bob", thread=said, parent=said.message_id, idempotency_key="k")
    assert await say(app, None, "model:bob", thread=said, parent=said.message_id, idempotency_key="k") == first
    assert (first.message_id, len(first.answers)) == (None, 1)
    opening = await say(app, None, ORDERS, KEEPS_QUIET, thread=said, parent="root", idempotency_key="r")
    assert await say(app, None, ORDERS, KEEPS_QUIET, thread=said, parent="root", idempotency_key="r") == opening
    assert len(opening.answers) == 2


async def test_C2_a_key_goes_on_where_the_thread_ended_then_and_not_where_it_ends_now(app: Retinue) -> None:
    opening = await say(app, "one", "model:ann")
    first = await say(app, "two", "model:ann", thread=opening, idempotency_key="k")
    await say(app, "three", "model:ann", thread=opening)
    assert await say(app, "two", "model:ann", thread=opening, idempotency_key="k") == first
    await app.service.threads.delete(opening.thread_id)
    with pytest.raises((UnknownThread, UnknownRun)):
        await say(app, "two", "model:ann", thread=opening, idempotency_key="k")


async def test_C3_what_was_stored_when_the_process_died_runs_exactly_once(shared_url: str, clock: SetClock) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def die(when: str, writes: Sequence[Write]) -> None:
        if when == "halted":
            loop.call_soon_threadsafe(over.set)
        elif when == "after" and any(isinstance(write, Post) for write in writes):
            raise Halted

    async with Retinue.open(shared_url, clock=clock, checkpoint=die, grace=0) as doomed:
        saying = asyncio.create_task(say(doomed, "hello", idempotency_key="k"))
        await over.wait()
        saying.cancel()
        await asyncio.gather(saying, return_exceptions=True)
    clock.advance(31)
    model = ScriptedModel()
    async with Retinue.open(shared_url, clock=clock, models={"test": model}, grace=0) as app:
        await drain(app)
        said = await say(app, "hello", idempotency_key="k")
        assert (await ends(app, said)).output == "You said: hello"
        assert (await counts(app))["runs"] == model.asked == 1
        assert await told(app, said) == ["hello", "You said: hello"]


async def test_C7_follow_ups_see_earlier_answers_as_their_own_or_by_name(app: Retinue, ann: Heard, bob: Heard) -> None:
    opening = await say(app, "hello", "model:ann")
    await say(app, "and you?", "model:bob", thread=opening)
    last = await say(app, "sure?", "model:ann", thread=opening)
    await drain(app)
    assert ann.turns == [
        ("user", "hello"),
        ("model", "ann heard 1"),
        ("user", "and you?"),
        ("user", "[bob]: bob heard 3"),
        ("user", "sure?"),
    ]
    assert bob.turns == [("user", "hello"), ("user", "[ann]: ann heard 1"), ("user", "and you?")]
    assert await told(app, last) == ["hello", "ann heard 1", "and you?", "bob heard 3", "sure?", "ann heard 5"]


async def test_C10_three_targets_answer_side_by_side_and_one_that_fails_harms_nobody(app: Retinue, bob: Heard) -> None:
    said = await say(app, "hello", "model:ann", "model:broken", "model:bob")
    outcomes = [await ends(app, said, n) for n in range(3)]
    assert [(one.status, one.output) for one in outcomes] == [
        ("completed", "ann heard 1"),
        ("failed", None),
        ("completed", "bob heard 1"),
    ]
    replies = [await answer(app, said, n) for n in range(3)]
    assert {reply.parent_id for reply in replies} == {said.message_id}
    assert [reply.status for reply in replies] == ["completed", "failed", "completed"]
    assert replies[1].parts == (Text(text="I "),), "what there was of it stays"
    follow_up = await say(app, "well?", "model:bob", thread=said, parent=replies[1].id)
    await ends(app, follow_up)
    assert bob.turns == [("user", "hello"), ("user", "[broken]: I "), ("user", "well?")]


async def test_functions_are_given_what_was_said_and_say_what_they_return(app: Retinue) -> None:
    opening = await say(app, {"item": "tea"}, ORDERS)
    assert (await ends(app, opening)).output == {"ordered": {"item": "tea"}}
    assert (await answer(app, opening)).parts == (Data(data={"ordered": {"item": "tea"}}),)
    asked = await say(app, "two please", ORDERS, FAILS, KEEPS_QUIET, thread=opening)
    assert [(await ends(app, asked, n)).status for n in range(3)] == ["completed", "failed", "completed"]
    assert [(await answer(app, asked, n)).parts for n in (1, 2)] == [(), ()]
    again = await say(app, None, ORDERS, thread=opening, parent=asked.message_id)
    assert (await ends(app, again)).output == {"ordered": "two please"}, "it answers what that message says"


async def test_an_app_answers_in_a_thread_and_goes_on_in_it(app: Retinue, ann: Heard) -> None:
    run = await app.submit("model:ann", "hello")
    await ended(app, run)
    thread = (await run.row()).thread_id
    outcome = await app.run("model:ann", "again", thread=thread)
    assert (outcome.output, ann.turns[1]) == ("ann heard 3", ("model", "ann heard 1"))
    ordered = await app.submit(ORDERS, 5, thread=thread)
    assert (await ended(app, ordered)).output == {"ordered": 5}
    alone = await app.submit(ORDERS, 5)
    assert (await alone.row()).thread_id is None


@pytest.mark.parametrize("target", ["model:test", ORDERS])
async def test_a_parent_without_its_thread_is_refused(app: Retinue, target: str) -> None:
    with pytest.raises(BadInput, match="is in a thread: name that, too"):
        await app.submit(target, "hello", parent="msg_1")
    with pytest.raises(BadInput, match="on_busy is one of queue, reject, interrupt, parallel, not 'wait'"):
        await app.submit(target, "hello", thread="thr_1", on_busy="wait")
    assert await counts(app) == {}


async def test_what_cannot_be_said_is_refused_and_nothing_of_it_is_stored(app: Retinue) -> None:
    said = await say(app, "hello", owner="ann")
    await drain(app)
    before = await counts(app)
    with pytest.raises(BadInput, match="There is nothing to answer"):
        await say(app, None)
    with pytest.raises(BadInput, match="There is nothing to answer"):
        await say(app, "", thread=said, parent="root", owner="ann")
    with pytest.raises(UnknownThread):
        await say(app, "mine", thread=said, owner="bob")
    with pytest.raises(UnknownThread):
        await say(app, "mine", thread=said, parent="root", owner="bob")
    with pytest.raises(UnknownThread):
        await say(app, "hello", thread="thr_none")
    for on_busy in OnBusy:
        with pytest.raises(UnknownMessage):
            await say(app, "hello", thread=said, parent="msg_none", owner="ann", on_busy=on_busy)
    for value in (object(), "\udc80", {"a": float("nan")}):
        with pytest.raises(NotStorable):
            await say(app, value, thread=said, owner="ann")
    for uri, problem in (("file:x", "it lies outside the roots"), (f"file:sha256/{'0' * 64}", "there is no such file")):
        with pytest.raises(BadFile, match=rf"cat\.png cannot be used: {problem}"):
            await say(app, (File(uri=uri, media_type="image/png", name="cat.png"),), thread=said, owner="ann")
    for options in ({"max_minutes": 0}, {"max_cost_usd": -1.0}):
        with pytest.raises(BadInput, match="must be more than 0"):
            await say(app, "hello", thread=said, owner="ann", **options)
    assert await counts(app) == before


async def test_somebody_elses_file_is_not_there(app: Retinue) -> None:
    file = await app.service.threads.upload(b"secret", "text/plain", "a.txt", owner="ann")
    with pytest.raises(BadFile):
        await say(app, (file,), owner="bob")
    assert await say(app, (Text(text="look"), file), ORDERS, owner="ann")


async def test_an_odd_text_is_said_as_it_is(app: Retinue) -> None:
    odd = "model: nul \x00, \u2028 and 🦜 " + "x" * 100_000
    said = await say(app, odd)
    assert (await ends(app, said)).output == f"You said: {odd}"
    thread = await app.service.threads.thread(said.thread_id)
    assert thread.title == "model: nul , and 🦜…"
    assert await told(app, said) == [odd, f"You said: {odd}"]


async def test_no_secret_is_stored_in_a_thread(database_url: str, clock: SetClock, ann: Heard) -> None:
    secrets, models = {"KEY": "sk-12345678"}, {"ann": ann}
    async with Retinue.open(database_url, clock=clock, secrets=secrets, models=models, grace=0) as app:
        said = await say(app, "my key is sk-12345678", "model:ann")
        await drain(app)
        assert ann.turns == [("user", "my key is sk-12345678")]
        await app.service.threads.rename(said.thread_id, "about sk-12345678")
        assert (await app.service.threads.thread(said.thread_id)).title == "about ${secret:KEY}"
        other = await say(app, "sk-12345678", "model:ann")
        assert (await app.service.threads.thread(other.thread_id)).title == "${secret:KEY}"
        assert await told(app, said) == ["my key is ${secret:KEY}", "ann heard 1"]
        store = app.services.store
        assert isinstance(store, SqlStore)
        for table, column in (("threads", "title"), ("messages", "parts"), ("events", "data")):
            assert await store._read(f"SELECT {column} FROM {table} WHERE {column} LIKE ?", "%sk-1%") == []


async def test_an_answer_to_nothing_at_all_is_an_invalid_run(app: Retinue) -> None:
    quiet = await say(app, None, KEEPS_QUIET)
    await drain(app)
    asked = await say(app, None, "model:ann", thread=quiet, parent=quiet.answers[0].message_id)
    outcome = await ends(app, asked)
    assert (outcome.status, outcome.reason) == ("failed", "invalid")
    assert outcome.error
    assert "nothing to answer" in outcome.error.message


async def test_a_person_is_asked_in_a_thread(app: Retinue) -> None:
    said = await say(app, "hello", ASKS)
    await drain(app)
    assert (await answer(app, said)).status == "waiting"
    (ticket,) = await app.tickets()
    await app.answer(ticket.id, "Ada")
    assert (await ends(app, said)).output == "hello Ada"
    assert await told(app, said) == ["hello", "hello Ada"]


async def test_what_a_cancelled_answer_had_said_stays(app: Retinue, doors: Doors) -> None:
    said = await say(app, "hello", "model:gated")
    await doors.reached("hello")
    await app.get(said.answers[0].run_id).cancel()
    assert (await ends(app, said)).status == "cancelled"
    answered = await answer(app, said)
    assert (answered.status, answered.parts) == ("cancelled", (Text(text="answer to "),))


async def test_a_message_whose_run_was_pruned_is_still_read(app: Retinue, clock: SetClock) -> None:
    said = await say(app, "hello")
    await drain(app)
    clock.advance(3600)
    assert [pruned.trees async for pruned in app.service.prune(clock.now_ms())] == [1]
    assert await told(app, said) == ["hello", "You said: hello"]
    assert (await answer(app, said)).status is None
    assert (await ends(app, await say(app, "more", thread=said))).output == "You said: more"
