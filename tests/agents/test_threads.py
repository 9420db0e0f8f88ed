"""Agents in conversations: what they see of what was said before."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from retinue import Agent, Blob, Content, Retinue, tool
from retinue.core import events as e
from retinue.core.messages import Data, File, Message, Text, ToolCall, text_of
from retinue.core.outcome import Reason, Status
from retinue.errors import UnknownRun
from retinue.ports.models import Takes
from retinue.service import OnBusy, Said, Say
from retinue.service.threads import parts_of
from retinue.testing import Reply, ScriptedModel, SetClock, call, drain
from tests.agents.acting import Actor, acting, finish
from tests.outside import data_of, ended, outside, pass_time


@tool(effect="read")
async def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


@tool(effect="read")
async def draw() -> Content:
    """Draw."""
    return Content(("a picture", Blob(data=PNG, media_type="image/png", name="cat.png")))


PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02")


async def say(app: Retinue, said: object, target: str = "agent:guide", after: Said | None = None) -> Said:
    """Say it, and let it be answered."""
    stored = await app.service.threads.say(
        Say(targets=(target,), parts=parts_of(said), thread_id=after.thread_id if after else None)
    )
    await drain(app)
    return stored


def heard(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.role, text_of(message.parts)) for message in messages]


# C7


async def test_C7_an_agent_sees_its_earlier_answers_as_its_own(clock: SetClock) -> None:
    actor = Actor([call("look", at="one")], finish("first"), finish("second"))
    async with acting(clock, actor, tools=[look]) as app:
        said = await say(app, "One?")
        await say(app, "Two?", after=said)
        assert heard(actor.requests[-1].messages) == [("user", "One?"), ("model", "first"), ("user", "Two?")]


@asynccontextmanager
async def two(clock: SetClock, ann: ScriptedModel, bob: ScriptedModel, **keys: Any) -> AsyncIterator[Retinue]:
    """An app with two agents."""
    once: dict[str, Any] = {"retry": {"tries": 1}, **keys}
    agents = [
        Agent(name, **{"description": name, "instructions": f"You are {name}.", "model": name, **once})
        for name in ("ann", "bob")
    ]
    async with Retinue.open("sqlite://", clock=clock, grace=0, agents=agents, models={"ann": ann, "bob": bob}) as app:
        yield app


async def test_C7_two_agents_in_a_thread_see_each_other_as_named_users(clock: SetClock) -> None:
    ann, bob = Actor(finish("I am Ann.")), Actor(finish("I am Bob."))
    async with two(clock, ann, bob) as app:
        said = await say(app, "Who are you?", "agent:ann")
        await say(app, "And you?", "agent:bob", after=said)
        await say(app, "Who was first?", "agent:ann", after=said)
        assert heard(bob.requests[-1].messages) == [
            *(("user", "Who are you?"), ("user", "[ann]: I am Ann."), ("user", "And you?")),
        ]
        assert heard(ann.requests[-1].messages) == [
            *(("user", "Who are you?"), ("model", "I am Ann."), ("user", "And you?")),
            *(("user", "[bob]: I am Bob."), ("user", "Who was first?")),
        ]


async def test_C7_an_agent_answers_what_another_one_said(clock: SetClock) -> None:
    ann, bob = Actor(finish("It is so.")), Actor(finish("It is not."))
    async with two(clock, ann, bob) as app:
        said = await say(app, "Is it?", "agent:ann")
        await app.service.threads.say(
            Say(targets=("agent:bob",), thread_id=said.thread_id, parent_id=said.answers[0].message_id)
        )
        await drain(app)
        assert heard(bob.requests[-1].messages) == [("user", "Is it?"), ("user", "[ann]: It is so.")]


async def test_C10_agents_answer_one_message_side_by_side_and_one_fails(clock: SetClock) -> None:
    ann, bob = Actor(Reply(error=ValueError("no"))), Actor(finish("Bob's."))
    async with two(clock, ann, bob) as app:
        stored = await app.service.threads.say(Say(targets=("agent:ann", "agent:bob"), parts=parts_of("Go.")))
        await drain(app)
        answers = [await app.service.threads.message(answer.message_id) for answer in stored.answers]
        assert [answer.status for answer in answers] == [Status.FAILED, Status.COMPLETED]
        assert heard(bob.requests[-1].messages) == [("user", "Go.")]


async def test_C5_a_branch_that_is_broken_fails_the_run_of_an_agent(file_url: str, clock: SetClock) -> None:
    async with acting(clock, Actor(finish()), file_url) as app:
        run = await app.submit("agent:guide", "One?", start_at=clock.now_ms() + 1000)
        with sqlite3.connect(file_url.removeprefix("sqlite:///")) as database:
            database.execute("UPDATE messages SET parent_id = 'msg_none' WHERE parent_id IS NULL")
        await pass_time(app, clock, 2)
        outcome = await ended(app, run)
        assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.INVALID)
        assert "is missing" in str(outcome.error)


async def test_C11_a_thread_goes_with_what_an_agent_is_doing_in_it(clock: SetClock) -> None:
    async with acting(clock, Actor(call("hang")), tools=[hang]) as app:
        run = await app.submit("agent:guide", "One?")
        await outside.at_door.wait()
        assert await app.service.threads.delete((await run.row()).thread_id or "")
        with pytest.raises(UnknownRun):
            await run.row()


# Memory


async def test_with_transcripts_an_agent_sees_its_earlier_calls(clock: SetClock) -> None:
    actor = Actor([call("look", at="one")], finish("first"), finish("second"))
    async with acting(clock, actor, tools=[look], memory="transcripts") as app:
        said = await say(app, "One?")
        await say(app, "Two?", after=said)
        roles = [message.role for message in actor.requests[-1].messages]
        assert roles == ["user", "model", "tool", "model", "tool", "user"]
        assert "saw one" in str(actor.requests[-1].messages[2])


async def test_the_transcripts_of_others_are_not_shown(clock: SetClock) -> None:
    ann, bob = Actor([call("look", at="one")], finish("Ann's.")), Actor(finish("Bob's."))
    async with two(clock, ann, bob, memory="transcripts", tools=[look]) as app:
        said = await say(app, "One?", "agent:ann")
        await say(app, "Two?", "agent:bob", after=said)
        assert heard(bob.requests[-1].messages)[1:] == [("user", "[ann]: Ann's."), ("user", "Two?")]


async def test_the_transcript_of_a_retry_has_what_it_went_on_from(clock: SetClock) -> None:
    no = Reply(error=ValueError("no"))
    actor = Actor([call("look", at="one")], no, finish("first"), finish("second"))
    async with acting(clock, actor, tools=[look], memory="transcripts") as app:
        said = await say(app, "One?")
        again = await app.get(said.answers[0].run_id).retry()
        await drain(app)
        await say(app, "Two?", after=said)
        roles = [message.role for message in actor.requests[-1].messages]
        assert roles == ["user", "model", "tool", "model", "tool", "user"]
        assert (await again.row()).status is Status.COMPLETED


async def test_the_transcript_of_a_run_that_failed_is_not_shown(clock: SetClock) -> None:
    actor = Actor([call("look", at="one")], Reply(error=ValueError("no")), finish("second"))
    async with acting(clock, actor, tools=[look], memory="transcripts") as app:
        said = await say(app, "One?")
        await say(app, "Two?", after=said)
        assert [message.role for message in actor.requests[-1].messages] == ["user", "user"]


async def test_files_that_calls_gave_are_seen_again_with_the_transcript(clock: SetClock) -> None:
    actor = Actor([call("draw")], finish("first"), finish("second"), takes=Takes(media=frozenset({"image/png"})))
    async with acting(clock, actor, tools=[draw], memory="transcripts") as app:
        said = await say(app, "Draw a cat.")
        await say(app, "Is it black?", after=said)
        shown = actor.requests[-1].messages[3]
        assert text_of(shown.parts) == "[draw gave: cat.png]"
        (file,) = [part for part in shown.parts if isinstance(part, File)]
        assert actor.requests[-1].files[file.uri] == PNG


async def test_ids_of_calls_stay_apart_from_those_of_earlier_turns(clock: SetClock) -> None:
    same = ToolCall(call_id="call_0", tool="look", arguments={"at": "one"})
    actor = Actor([same], finish("first"), [same], finish("second"))
    async with acting(clock, actor, tools=[look], memory="transcripts") as app:
        said = await say(app, "One?")
        await say(app, "Two?", after=said)
        calls = [part for m in actor.requests[-1].messages for part in m.parts if isinstance(part, ToolCall)]
        assert len({made.call_id for made in calls}) == len(calls) == 3


# Templates and few-shot turns


async def test_the_query_stands_for_the_newest_turn_of_the_branch(clock: SetClock) -> None:
    actor = Actor(finish("first"), finish("second"))
    async with acting(clock, actor, query="Think about {{ input }}", input={"type": "string"}) as app:
        said = await say(app, "tea")
        await say(app, "milk", after=said)
        assert heard(actor.requests[-1].messages) == [
            *(("user", "tea"), ("model", "first"), ("user", "Think about milk")),
        ]


async def test_few_shot_turns_come_before_the_branch(clock: SetClock) -> None:
    shots = [{"role": "user", "text": "1+1"}, {"role": "model", "text": "2"}]
    actor = Actor(finish("first"), finish("second"))
    async with acting(clock, actor, messages=shots) as app:
        said = await say(app, "2+2")
        await say(app, "3+3", after=said)
        assert heard(actor.requests[-1].messages) == [
            *(("user", "1+1"), ("model", "2"), ("user", "2+2"), ("model", "first"), ("user", "3+3")),
        ]


# Regenerate and edit


async def test_an_answer_that_is_regenerated_begins_with_nothing_of_the_first(clock: SetClock) -> None:
    actor = Actor([call("look", at="one")], finish("first"), finish("another"))
    async with acting(clock, actor, tools=[look], memory="transcripts") as app:
        said = await say(app, "One?")
        again = await app.service.threads.regenerate(said.answers[0].message_id)
        await drain(app)
        assert heard(actor.requests[-1].messages) == [("user", "One?")]
        answers = [m for m in await app.service.threads.messages(said.thread_id) if m.run_id]
        assert [text_of(answer.parts) for answer in answers] == ["first", "another"]
        assert again.answers[0].message_id == answers[1].id


async def test_what_is_said_instead_is_answered_by_the_same_agent(clock: SetClock) -> None:
    actor = Actor(finish("first"), finish("another"))
    async with acting(clock, actor) as app:
        said = await say(app, "One?")
        await app.service.threads.edit(said.message_id or "", parts_of("Two?"))
        await drain(app)
        assert heard(actor.requests[-1].messages) == [("user", "Two?")]


# What an agent gives and gets


async def test_the_output_of_an_agent_is_its_message(clock: SetClock) -> None:
    output = {"name": "plan", "schema": {"type": "object", "properties": {"steps": {"type": "integer"}}}}
    actor = Actor(call("complete_task", plan={"steps": 3}), call("complete_task", plan={"steps": 4}))
    async with acting(clock, actor, output=output) as app:
        said = await say(app, "Plan.")
        answer = await app.service.threads.message(said.answers[0].message_id)
        assert answer.parts == (Data(data={"steps": 3}),)
        await say(app, "Again.", after=said)
        assert actor.requests[-1].messages[1] == Message(role="model", parts=(Data(data={"steps": 3}),))


async def test_a_file_of_a_message_reaches_the_agent_beside_its_query(clock: SetClock) -> None:
    actor = Actor(finish(), takes=Takes(media=frozenset({"image/png"})))
    async with acting(clock, actor, query="Look at this: {{ input }}") as app:
        file = await app.service.threads.upload(PNG, "image/png", "cat.png")
        await say(app, [Text(text="a cat"), file])
        (message,) = actor.requests[-1].messages
        assert [type(part) for part in message.parts] == [Text, File]
        assert actor.requests[-1].files[file.uri] == PNG


async def test_C8_a_file_that_the_model_cannot_take_is_a_note_and_a_warning(clock: SetClock) -> None:
    actor = Actor(finish())
    async with acting(clock, actor) as app:
        file = await app.service.threads.upload(PNG, "image/png", "cat.png")
        said = await say(app, [Text(text="a cat"), file])
        assert "cat.png" in heard(actor.requests[-1].messages)[0][1]
        assert [warned.code for warned in await data_of(app.get(said.answers[0].run_id), e.Warned)] == ["file"]


@pytest.mark.parametrize("memory", ["answers", "transcripts"])
async def test_C4_what_was_said_on_another_branch_is_not_seen(clock: SetClock, memory: str) -> None:
    actor = Actor(finish("first"), finish("left"), finish("right"))
    async with acting(clock, actor, memory=memory) as app:
        said = await say(app, "One?")
        for text in ("Left?", "Right?"):
            await app.service.threads.say(
                Say(
                    targets=("agent:guide",),
                    parts=parts_of(text),
                    thread_id=said.thread_id,
                    parent_id=said.answers[0].message_id,
                )
            )
            await drain(app)
        assert "Left?" not in str(actor.requests[-1].messages)
        assert "Right?" in str(actor.requests[-1].messages)


@tool
async def hang() -> str:
    """Do, until the door is open."""
    return str(await outside.wait_at_door("hung"))


@pytest.mark.parametrize(("on_busy", "status"), [(OnBusy.QUEUE, "completed"), (OnBusy.INTERRUPT, "cancelled")])
async def test_C9_a_busy_branch_waits_or_stops_the_agent_that_works_on_it(
    clock: SetClock, on_busy: OnBusy, status: str
) -> None:
    actor = Actor(call("hang"), finish("done"))
    async with acting(clock, actor, tools=[hang]) as app:
        first = await app.submit("agent:guide", "One?")
        await outside.at_door.wait()
        thread = (await first.row()).thread_id
        await app.submit("agent:guide", "Two?", thread=thread, on_busy=on_busy.value)
        if on_busy is OnBusy.QUEUE:
            assert len(actor.requests) == 1
        outside.door.set()
        await drain(app)
        assert (await first.row()).status == status
        assert heard(actor.requests[-1].messages)[-1] == ("user", "Two?")
