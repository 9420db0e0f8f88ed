"""What an open turn says is kept now and then, only what is new, until the answer is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from retinue.core import events as e
from retinue.engine.speech import KEEP_CHARACTERS, Speech
from retinue.errors import DatabaseUnavailable
from retinue.testing.clock import SetClock
from tests.contract.steps import Held, finished, held, take

from .reading import Desk, another_desk, until


@pytest.fixture
async def desk(shared_url: str, clock: SetClock) -> AsyncIterator[Desk]:
    async with another_desk(shared_url, clock) as desk:
        yield desk


@pytest.fixture
async def run(desk: Desk) -> Held:
    """A run with an open turn."""
    run = await held(desk.store)
    await run.append(e.TurnStarted(turn=1, model="test"))
    return run


@pytest.fixture
def speech(desk: Desk, run: Held) -> Speech:
    speech = desk.speech(run)
    speech.begin(1, 1)
    return speech


Pieces = list[tuple[str, int, str]]


async def pieces(desk: Desk, run: Held) -> Pieces:
    sql = 'SELECT kind, "offset", text FROM partials WHERE run_id = ? ORDER BY turn, "try", kind, "offset"'
    return [(kind, offset, text) for kind, offset, text in await desk.store._read(sql, run.id)]


async def kept(speech: Speech) -> None:
    """Wait until what is being kept is kept."""
    if speech._keeping:
        await asyncio.wait({speech._keeping})


async def test_what_was_said_is_kept_each_second_and_only_what_is_new(desk: Desk, run: Held, speech: Speech) -> None:
    for text in ("one", " two", " three"):
        speech.say("text", text)
        desk.clock.advance(0.999)
        await kept(speech)
        speech.say("text", "!")
        desk.clock.advance(0.001)
        await kept(speech)
    assert await pieces(desk, run) == [("text", 0, "one!"), ("text", 4, " two!"), ("text", 9, " three!")]
    await speech.end()


async def test_nothing_is_written_while_nothing_is_said(desk: Desk, run: Held, speech: Speech) -> None:
    speech.say("text", "one")
    desk.clock.advance(1)
    await kept(speech)
    commits = desk.store.commits
    desk.clock.advance(1000)
    await kept(speech)
    assert (desk.store.commits, desk.clock._timers) == (commits, [])


async def test_4096_characters_are_kept_at_once(desk: Desk, run: Held, speech: Speech) -> None:
    speech.say("text", "x" * (KEEP_CHARACTERS - 1))
    assert speech._keeping is None
    speech.say("thinking", "y")
    await kept(speech)
    assert [(kind, len(text)) for kind, _, text in await pieces(desk, run)] == [("text", 4095), ("thinking", 1)]
    assert not desk.clock._timers


async def test_kinds_are_kept_apart(desk: Desk, run: Held, speech: Speech) -> None:
    for n in range(3):
        speech.say("thinking", f"hm {n};")
        speech.say("text", f"so {n};")
        desk.clock.advance(1)
        await kept(speech)
    said = await desk.store.open_turn(run.id)
    assert said
    assert (said.text(), said.text("thinking")) == ("so 0;so 1;so 2;", "hm 0;hm 1;hm 2;")


@pytest.mark.parametrize("how", [e.ModelResponded(turn=1, try_=1, parts=(), model="test"), finished()])
async def test_what_was_kept_is_gone_when_the_turn_is_closed(
    desk: Desk, run: Held, speech: Speech, how: e.EventData
) -> None:
    speech.say("text", "one")
    desk.clock.advance(1)
    await asyncio.sleep(0)  # the first words are under way
    speech.say("text", " two")
    await run.append(how)
    await kept(speech)
    assert await pieces(desk, run) == []
    desk.clock.advance(1)
    await kept(speech)
    assert (await pieces(desk, run), desk.clock._timers) == ([], [])


async def test_the_next_try_is_kept_from_its_beginning(desk: Desk, run: Held, speech: Speech) -> None:
    speech.say("thinking", "a long thought")
    speech.say("text", "a long answer")
    desk.clock.advance(1)
    await asyncio.sleep(0)  # the first piece is under way
    await run.append(e.TurnInterrupted(turn=1, try_=1, cause="crash"))
    speech.begin(1, 2)
    speech.say("thinking", "short")
    speech.say("text", "brief")
    desk.clock.advance(1)
    await kept(speech)
    said = await desk.store.open_turn(run.id)
    assert said
    assert (said.try_, said.text(), said.text("thinking")) == (2, "brief", "short")
    await speech.end()


async def test_what_is_said_while_words_are_being_kept_is_kept_too(desk: Desk, run: Held, speech: Speech) -> None:
    speech.say("text", "one")
    desk.clock.advance(1)
    speech.say("text", " two")
    desk.clock.advance(1)  # the first are still under way
    await kept(speech)
    desk.clock.advance(1)
    await kept(speech)
    assert await pieces(desk, run) == [("text", 0, "one"), ("text", 3, " two")]
    await speech.end()


@pytest.mark.parametrize("late", [False, True], ids=["before it was stored", "after it was stored"])
async def test_words_that_met_a_lost_database_are_kept_when_it_is_back(
    desk: Desk, run: Held, speech: Speech, late: bool
) -> None:
    desk.store.fails, desk.store.fails_late = [DatabaseUnavailable(url=desk.store.url, problem="away")], late
    speech.say("text", "one")
    desk.clock.advance(1)
    await kept(speech)
    speech.say("text", " two")
    desk.clock.advance(1)
    await kept(speech)
    assert await pieces(desk, run) == [("text", 0, "one"), ("text", 3, " two")]
    await speech.end()
    assert not desk.clock._timers


async def test_an_attempt_that_is_fenced_keeps_nothing_more(desk: Desk, run: Held, speech: Speech) -> None:
    desk.clock.advance(60)
    await take(desk.store, run.id, "wrk_2")
    for _ in range(2):
        speech.say("text", "late")
        desk.clock.advance(1)
        await kept(speech)
    assert (await pieces(desk, run), speech._unsent) == ([], [])
    await speech.end()


@pytest.mark.parametrize("abandon", [False, True])
async def test_an_end_leaves_no_task_and_no_timer(desk: Desk, run: Held, speech: Speech, abandon: bool) -> None:
    before = asyncio.all_tasks()
    speech.say("text", "one")
    desk.clock.advance(1)
    speech.say("text", " two")
    await speech.end(abandon=abandon)
    assert (asyncio.all_tasks(), desk.clock._timers, speech.said()) == (before, [], None)
    assert not desk.hub.turns


async def test_a_database_of_one_process_is_told_nothing(clock: SetClock) -> None:
    async with another_desk("sqlite://", clock) as desk:
        run = await held(desk.store)
        speech, commits = desk.speech(run), desk.store.commits
        speech.begin(1, 1)
        speech.say("text", "x" * 2 * KEEP_CHARACTERS)
        clock.advance(10)
        await speech.end()
        assert desk.store.commits == commits


async def test_readers_hear_words_before_they_are_kept(desk: Desk, run: Held, speech: Speech) -> None:
    reader = desk.read(run.id, run.seq)
    speech.say("text", "now")
    await until(lambda: reader.heard() == "now")
    assert await pieces(desk, run) == []
    await reader.stop()
    await speech.end()
