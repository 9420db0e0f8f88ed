"""Reading a run while it goes on: stored events, then live ones and deltas, without gap or duplicate."""

from __future__ import annotations

import asyncio
import random
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from retinue import Delta, Retinue, Status
from retinue.core import events as e
from retinue.core.events import Event
from retinue.core.messages import Text
from retinue.engine import hub
from retinue.engine.hub import RING
from retinue.errors import StoreClosed, UnknownRun
from retinue.ports.store import LetGo, Signal
from retinue.store import queries
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock
from tests.contract.steps import Held, finished, held, queued, status, take

from .reading import Desk, Reader, Slow, a_desk, another_desk, turns_of_the_loop, until


@pytest.fixture
async def desk(store: SqlStore, clock: SetClock) -> AsyncIterator[Desk]:
    async with a_desk(store, clock) as desk:
        yield desk


@pytest.fixture
async def here(shared_url: str, clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """A process on a database that others are on too. They look at it often, so that tests are short."""
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.01)
    async with another_desk(shared_url, clock) as desk:
        yield desk


@pytest.fixture
async def there(here: Desk, shared_url: str, clock: SetClock) -> AsyncIterator[Desk]:
    async with another_desk(shared_url, clock) as desk:
        yield desk


def responded(turn: int = 1, try_: int = 1, text: str = "") -> e.ModelResponded:
    return e.ModelResponded(turn=turn, try_=try_, parts=(Text(text=text),), model="test")


def started(turn: int = 1) -> e.TurnStarted:
    return e.TurnStarted(turn=turn, model="test")


def interrupted(turn: int = 1, try_: int = 1) -> e.TurnInterrupted:
    return e.TurnInterrupted(turn=turn, try_=try_, cause="crash")


async def a_tree(store: SqlStore) -> tuple[Held, Held]:
    """A root and its child, both at work."""
    root = await held(store)
    await root.work(2)
    return root, await take(store, await root.start("a"))


# Events


async def test_from_every_place_of_an_ended_run_exactly_the_rest_comes(desk: Desk) -> None:
    run = await held(desk.store)
    await run.work(9)
    await run.finish()
    for after in range(run.seq + 1):
        reader = desk.read(run.id, after)
        await reader.task
        assert reader.seqs == list(range(after + 1, run.seq + 1))


@pytest.mark.parametrize("beyond", [0, 1000])
async def test_following_an_ended_run_from_its_end_ends_at_once(desk: Desk, beyond: int) -> None:
    run = await held(desk.store)
    await run.finish()
    desk.store.reads.clear()
    reader = desk.read(run.id, run.seq + beyond)
    await reader.task
    assert reader.seen == []
    assert desk.store.reads.total() == 1


async def test_an_unknown_run_is_refused_before_anything_is_given(desk: Desk) -> None:
    for tree in (False, True):
        with pytest.raises(UnknownRun):
            await anext(desk.follow("run_none", tree=tree))
    assert not desk.hub._tails


async def test_a_reader_beyond_the_end_sees_what_comes_there_and_disturbs_nobody(here: Desk, there: Desk) -> None:
    run = await held(here.store)
    beyond, far, whole = there.read(run.id, 9), there.read(run.id, 1000), there.read(run.id)
    await until(lambda: whole.seqs == [1, 2])
    await run.work(9)
    await run.finish()
    await asyncio.gather(beyond.task, far.task, whole.task)
    assert (whole.seqs, beyond.seqs, far.seqs) == (list(range(1, 13)), [10, 11, 12], [])


async def test_who_comes_and_goes_at_any_moment_sees_every_event_once_in_order(desk: Desk) -> None:
    dice, run = random.Random(7), await held(desk.store)
    readers: list[tuple[int, Reader]] = []
    for _ in range(60):
        for _ in range(dice.randrange(3)):
            after = dice.randint(0, run.seq)
            readers.append((after, desk.read(run.id, after)))
        if readers and dice.random() < 0.3:
            _, leaving = dice.choice(readers)
            await leaving.stop()
        await turns_of_the_loop(dice.randrange(4))
        await run.work(dice.randint(1, 3))
    await run.finish()
    await asyncio.gather(*(reader.task for _, reader in readers), return_exceptions=True)
    for after, reader in readers:
        upto = after + len(reader.seqs) if reader.task.cancelled() else run.seq
        assert reader.seqs == list(range(after + 1, upto + 1))


@pytest.mark.parametrize("tree", [False, True])
async def test_an_event_that_is_committed_while_a_reader_looks_is_not_missed(desk: Desk, tree: bool) -> None:
    run = await held(desk.store)
    reader = desk.read(run.id, tree=tree)
    await until(lambda: len(reader.seqs) == 2)
    late = desk.read(run.id, 2, tree=tree)
    desk.store.meanwhile = lambda: run.work(2)
    behind = desk.read(run.id, 1, tree=tree)
    await until(lambda: all(seen.seqs[-2:] == [3, 4] for seen in (reader, late, behind)))
    await run.finish()
    await asyncio.gather(reader.task, late.task, behind.task)
    assert [seen.seqs for seen in (reader, late, behind)] == [[1, 2, 3, 4, 5], [3, 4, 5], [2, 3, 4, 5]]


async def test_a_parked_run_is_followed_across_its_rest(desk: Desk) -> None:
    run = await held(desk.store)
    reader = desk.read(run.id)
    await run.park()
    await until(lambda: reader.types[-1:] == ["run.waiting"])
    await desk.store.signal(Signal(run_id=run.id, kind="steer"))
    again = await take(desk.store, run.id)
    await again.finish()
    await reader.task
    assert reader.types == ["run.queued", "run.started", "run.waiting", "run.resumed", "run.finished"]


# Trees


async def test_a_tree_is_followed_from_every_place_without_a_gap(desk: Desk) -> None:
    root, child = await a_tree(desk.store)
    await child.work(3)
    await child.finish()
    await root.finish()
    whole = desk.read(root.id, tree=True)
    await whole.task
    last = len(whole.events)
    assert {event.run_id for event in whole.events} == {root.id, child.id}
    for after in range(last + 1):
        reader = desk.read(root.id, after, tree=True)
        await reader.task
        assert reader.places == list(range(after + 1, last + 1))


async def test_a_tree_ends_when_all_of_it_has_ended(desk: Desk) -> None:
    root, child = await a_tree(desk.store)
    readers = [desk.read(root.id, after, tree=True) for after in (0, 3)]
    await root.finish(cancel_children=True)
    readers.append(desk.read(root.id, tree=True))
    await child.work()
    await until(lambda: all(reader.events and reader.events[-1].run_id == child.id for reader in readers))
    assert not any(reader.task.done() for reader in readers)
    await child.finish()
    await asyncio.gather(*(reader.task for reader in readers))
    assert {reader.types[-1] for reader in readers} == {"run.finished"}
    assert {reader.events[-1].run_id for reader in readers} == {child.id}


async def test_a_reader_of_a_tree_goes_on_while_runs_that_were_started_late_go_on(desk: Desk) -> None:
    root, child = await a_tree(desk.store)
    reader = desk.read(root.id, 5, tree=True)
    await root.finish()
    grandchild = await take(desk.store, await child.start("b"))
    await child.finish()
    await grandchild.work(5)
    await until(lambda: reader.events[-1:] != [] and reader.events[-1].run_id == grandchild.id)
    assert not reader.task.done()
    await grandchild.finish()
    await reader.task
    assert reader.places == list(range(6, reader.places[-1] + 1))


async def test_the_tree_of_a_child_is_the_tree_that_it_is_in(desk: Desk) -> None:
    root, child = await a_tree(desk.store)
    of_child, of_root = desk.read(child.id, tree=True), desk.read(root.id, tree=True)
    await child.finish()
    await root.finish()
    await asyncio.gather(of_child.task, of_root.task)
    assert of_child.events == of_root.events != []


async def test_a_reader_of_a_tree_asks_for_its_runs_once(desk: Desk) -> None:
    root = await held(desk.store)
    children = [await take(desk.store, await root.start(f"c{n}")) for n in range(20)]
    desk.store.reads.clear()
    reader = desk.read(root.id, tree=True)
    await root.finish()
    for child in children:
        await child.finish()
    await reader.task
    assert desk.store.reads[queries.TREE] == 1


# Slow, dead and many readers


async def test_a_reader_that_never_consumes_does_not_keep_the_run_from_ending(desk: Desk) -> None:
    run = await held(desk.store)
    async with aclosing(desk.follow(run.id)) as dead:  # type: ignore[type-var]
        assert isinstance(first := await anext(dead), Event)
        eager = desk.read(run.id)
        for _ in range(12):
            await run.work(100)
        await run.finish()
        await eager.task
        assert run.seq > RING
        assert len(desk.hub._tails[run.id, False].ring) <= RING
        rest = [seen.seq async for seen in dead if isinstance(seen, Event)]
    assert [first.seq, *rest] == eager.seqs == list(range(1, run.seq + 1))


async def test_readers_that_fell_behind_the_ring_go_on_without_a_gap(desk: Desk) -> None:
    run, dice = await held(desk.store), random.Random(1)
    streams = [desk.follow(run.id) for _ in range(4)]
    seen: list[list[int]] = [[] for _ in streams]
    for _ in range(8):
        await run.work(300)
        for stream, mine in zip(streams, seen, strict=True):
            mine += [(await anext(stream)).seq for _ in range(dice.randrange(300))]  # type: ignore[union-attr]
    await run.finish()
    for stream, mine in zip(streams, seen, strict=True):
        mine += [event.seq async for event in stream if isinstance(event, Event)]
        assert mine == list(range(1, run.seq + 1))


async def test_a_thousand_readers_share_what_they_read(clock: SetClock) -> None:
    async with another_desk("sqlite://", clock) as desk:
        run = await held(desk.store)
        readers = [desk.read(run.id) for _ in range(1000)]
        await until(lambda: all(len(reader.seen) == 2 for reader in readers))
        for _ in range(10):
            await run.work(20)
        await run.finish()
        await asyncio.gather(*(reader.task for reader in readers))
        assert {tuple(reader.seqs) for reader in readers} == {tuple(range(1, run.seq + 1))}
        assert not desk.hub._tails


async def test_a_waiting_reader_costs_little_memory(desk: Desk) -> None:
    run = await held(desk.store)
    await run.work(200)
    streams = [desk.follow(run.id, run.seq) for _ in range(500)]
    tracemalloc.start()
    try:
        waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await until(lambda: sum(len(tail.waiting) for tail in desk.hub._tails.values()) == len(streams))
        assert tracemalloc.get_traced_memory()[0] / len(streams) < 10_000
    finally:
        tracemalloc.stop()
    await run.finish()
    assert [seen.type for seen in await asyncio.gather(*waiting)] == ["run.finished"] * len(streams)
    await asyncio.gather(*(stream.aclose() for stream in streams))  # type: ignore[attr-defined]


async def test_what_is_live_is_read_from_the_ring(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.engine.hub.POLL_SECONDS", 3600)
    run = await held(desk.store)
    readers = [desk.read(run.id, tree=tree) for tree in (False, True) for _ in range(20)]
    await until(lambda: all(len(reader.seen) == 2 for reader in readers))
    await turns_of_the_loop()
    desk.hub.live(run.id, desk)  # type: ignore[arg-type]
    await until(lambda: all(tail.end == 2 and len(tail.waiting) == 20 for tail in desk.hub._tails.values()))
    desk.store.reads.clear()
    speech = desk.speech(run)
    await run.append(started())
    speech.begin(1, 1)
    for _ in range(50):
        speech.say("text", "word ")
        await run.work()
    await run.append(responded(), finished())
    await asyncio.gather(*(reader.task for reader in readers))
    assert {len(reader.events) for reader in readers} == {55}
    assert not desk.store.reads
    await speech.end()


# Leaving


@pytest.mark.parametrize("tree", [False, True])
async def test_who_closes_early_leaves_nothing_behind(desk: Desk, tree: bool) -> None:
    run, before = await held(desk.store), asyncio.all_tasks()
    stream = desk.follow(run.id, tree=tree)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    reader = desk.read(run.id, tree=tree)
    await until(lambda: any(tail.waiting for tail in desk.hub._tails.values()))
    await reader.stop()
    await turns_of_the_loop()
    assert (desk.hub._tails, asyncio.all_tasks()) == ({}, before)


async def test_readers_that_leave_a_quiet_run_are_forgotten_while_others_stay(desk: Desk) -> None:
    run = await held(desk.store)
    staying = desk.read(run.id)
    leaving = [desk.read(run.id) for _ in range(5)]
    await until(lambda: (run.id, False) in desk.hub._tails and len(desk.hub._tails[run.id, False].waiting) == 6)
    await asyncio.gather(*(reader.stop() for reader in leaving))
    assert len(desk.hub._tails[run.id, False].waiting) == 1
    await run.finish()
    await staying.task


async def test_whoever_still_reads_is_told_when_the_app_closes(database_url: str, clock: SetClock) -> None:
    async with Retinue.open(database_url, clock=clock, grace=0) as app:
        run = await app.submit("model:test", "hello", start_at=clock.now_ms() + 1000)
        reader, waiting = Reader(run.follow()), asyncio.create_task(run.outcome())
        await until(lambda: reader.types == ["run.queued"])
        await turns_of_the_loop()
    for task in (reader.task, waiting):
        with pytest.raises(StoreClosed):
            await task


# What open turns say


async def test_deltas_make_the_answer_and_end_with_it(clock: SetClock) -> None:
    slow = Slow("One", " two", " three.", thinking="Hm.")
    async with Retinue.open("sqlite://", clock=clock, models={"slow": slow.model}, grace=0) as app:
        reader = Reader((run := await app.submit("model:slow", "count")).follow())
        await slow.say()
        await slow.say()
        slow.finish()
        await reader.task
        assert (reader.heard(), reader.heard("thinking")) == ((await run.outcome()).output, "Hm.")
        assert [delta.offset for delta in reader.deltas if delta.kind == "text"] == [0, 3, 7]
        assert "delta" not in reader.types[reader.types.index("model.responded") :]
        assert reader.types.index("turn.started") < reader.types.index("delta")


async def test_who_comes_late_hears_what_was_said_so_far_and_then_the_rest(desk: Desk) -> None:
    run = await held(desk.store)
    await run.append(started())
    speech = desk.speech(run)
    speech.begin(1, 1)
    speech.say("text", "one ")
    speech.say("text", "two ")
    late = [desk.read(run.id, after, tree=tree) for after in (0, 3) for tree in (False, True)]
    await until(lambda: all(reader.deltas for reader in late))
    speech.say("text", "three")
    await turns_of_the_loop()
    await run.append(responded(), finished())
    await asyncio.gather(*(reader.task for reader in late))
    assert {tuple(delta.text for delta in reader.deltas) for reader in late} == {("one two ", "three")}
    await speech.end()


async def test_who_comes_after_an_answer_hears_nothing_of_it(desk: Desk) -> None:
    run = await held(desk.store)
    await run.append(started())
    speech = desk.speech(run)
    speech.begin(1, 1)
    speech.say("text", "old")
    await run.append(responded())
    late = [desk.read(run.id, run.seq), desk.read(run.id, run.seq, tree=True)]
    await until(lambda: all(tail.waiting for tail in desk.hub._tails.values()) and len(desk.hub._tails) == 2)
    await run.append(started(2))
    speech.begin(2, 1)
    speech.say("text", "new")
    await until(lambda: all(reader.deltas for reader in late))
    assert [reader.types for reader in late] == [["turn.started", "delta"]] * 2
    assert {reader.deltas[0].text for reader in late} == {"new"}
    await speech.end()
    await asyncio.gather(*(reader.stop() for reader in late))


async def test_the_next_try_is_heard_after_the_end_of_the_broken_one(desk: Desk) -> None:
    run = await held(desk.store)
    await run.append(started())
    speech, reader = desk.speech(run), desk.read(run.id)
    speech.begin(1, 1)
    speech.say("text", "wrong")
    await until(lambda: reader.heard() == "wrong")
    speech.begin(1, 2)
    speech.say("text", "right")  # before the end of the first is on disk
    await turns_of_the_loop()
    await run.append(interrupted())
    await until(lambda: reader.heard(try_=2) == "right")
    assert reader.types[-3:] == ["delta", "turn.interrupted", "delta"]
    late = desk.read(run.id, run.seq)
    await until(lambda: late.heard(try_=2) == "right")
    await speech.end()
    await asyncio.gather(reader.stop(), late.stop())


async def test_readers_of_a_tree_hear_each_run_apart(desk: Desk) -> None:
    root, child = await a_tree(desk.store)
    reader = desk.read(root.id, tree=True)
    await until(lambda: len(reader.events) == 7)
    for n, run in enumerate((root, child)):
        await run.append(started())
        speech = desk.speech(run)
        speech.begin(1, 1)
        speech.say("text", f"said by {n}")
    await until(lambda: len(reader.deltas) == 2)
    assert {delta.run_id: delta.text for delta in reader.deltas} == {root.id: "said by 0", child.id: "said by 1"}
    await reader.stop()


async def test_a_slow_reader_hears_fewer_and_longer_deltas(desk: Desk) -> None:
    run = await held(desk.store)
    await run.append(started())
    speech = desk.speech(run)
    speech.begin(1, 1)
    speech.say("text", "0")
    stream = desk.follow(run.id, run.seq)
    said = [await anext(stream)]
    for n in range(1, 1000):
        speech.say("text", str(n))
    said.append(await anext(stream))
    assert [delta.text for delta in said if isinstance(delta, Delta)] == ["0", "".join(map(str, range(1, 1000)))]
    await stream.aclose()  # type: ignore[attr-defined]
    await speech.end()


# Other processes


async def test_another_process_sees_the_same_events(here: Desk, there: Desk) -> None:
    root, child = await a_tree(here.store)
    readers = [desk.read(root.id, tree=True) for desk in (here, there, there)]
    for run in (child, root):
        await run.work(3)
        await asyncio.sleep(0.02)
        await run.finish()
    await asyncio.gather(*(reader.task for reader in readers))
    assert readers[0].events == readers[1].events == readers[2].events
    assert readers[1].places == list(range(1, len(readers[1].places) + 1))


async def test_another_app_hears_what_was_said_and_then_the_rest(shared_url: str, clock: SetClock) -> None:
    slow = Slow("One", " two", " three", " four.")
    models = {"slow": slow.model}
    async with (
        Retinue.open(shared_url, clock=clock, models=models, grace=0) as working,
        Retinue.open(shared_url, clock=clock, models=models, worker=False) as reading,
    ):
        run = await working.submit("model:slow", "count")
        early = Reader(reading.get(run.id).follow())
        await slow.say(2)
        clock.advance(1)
        await until(lambda: early.heard() == "One two")
        late = Reader(reading.get(run.id).follow(after=3))
        await until(lambda: late.heard() == "One two")
        await slow.say()
        clock.advance(1)
        await until(lambda: late.heard() == early.heard() == "One two three")
        slow.finish()
        await asyncio.gather(early.task, late.task)
        assert early.types[-2:] == late.types[-2:] == ["model.responded", "run.finished"]
        assert (early.seqs, late.seqs) == ([1, 2, 3, 4, 5], [4, 5])


async def test_a_process_of_its_own_reads_along(shared_url: str, clock: SetClock) -> None:
    slow = Slow("One", " two", " three.")
    async with Retinue.open(shared_url, clock=clock, models={"slow": slow.model}, grace=0) as app:
        run = await app.submit("model:slow", "count")
        await slow.say(2)
        clock.advance(1)
        arguments = ("-m", "tests.engine.reading", shared_url, run.id)
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
        assert process.stdout
        lines = [(await process.stdout.readline()).decode().rstrip() for _ in range(4)]
        slow.finish()
        lines += (await process.stdout.read()).decode().splitlines()
        assert await process.wait() == 0
    events = ["event 1 run.queued", "event 2 run.started", "event 3 turn.started"]
    assert lines == [*events, "delta 0 One two", "event 4 model.responded", "event 5 run.finished"]


async def test_who_joins_late_elsewhere_hears_nothing_of_an_answer_that_is_there(here: Desk, there: Desk) -> None:
    run = await held(here.store)
    await run.append(started())
    speech, early = here.speech(run), there.read(run.id)
    speech.begin(1, 1)
    speech.say("text", "old")
    here.clock.advance(1)
    await until(lambda: early.heard() == "old")
    tail = there.hub._tails[run.id, False]
    assert tail.poller
    tail.poller.cancel()  # between two looks
    await run.append(responded())
    late = there.read(run.id, run.seq)
    await until(lambda: len(tail.waiting) == 2)
    assert (late.seen, tail.turns[run.id].text()) == ([], "old")
    await asyncio.gather(early.stop(), late.stop())
    await speech.end()


async def test_words_from_elsewhere_come_after_the_events_before_them(here: Desk, there: Desk) -> None:
    run = await held(here.store)
    await run.append(started())
    reader, speech = there.read(run.id), here.speech(run)

    async def next_turn() -> None:
        await run.append(responded(), started(2))
        speech.begin(2, 1)
        speech.say("text", "two")
        here.clock.advance(1)
        await until(lambda: speech._keeping is not None and speech._keeping.done())

    await until(lambda: len(reader.events) == 3)
    there.store.meanwhile = next_turn  # between a look at the events and the next one at anything
    await until(lambda: reader.heard() == "two")
    assert reader.types[2:] == ["turn.started", "model.responded", "turn.started", "delta"]
    await speech.end()
    await reader.stop()


async def test_a_run_that_changes_hands_is_followed_in_both_processes(here: Desk, there: Desk) -> None:
    dice, desks, run_id = random.Random(3), (here, there), await queued(here.store)
    readers = [desk.read(run_id, tree=tree) for desk in desks for tree in (False, True) for _ in range(2)]
    for n in range(16):
        desk, name = desks[n % 2], f"wrk_{n % 2}"
        run = await take(desk.store, run_id, name)
        desk.hub.live(run_id, desk)  # type: ignore[arg-type]
        for _ in range(dice.randrange(4)):
            await run.work(dice.randint(1, 3))
            await asyncio.sleep(dice.choice([0, 0, 0.02]))
        if n == 15:
            await run.finish()
        else:
            await desk.store.let_go(LetGo(worker_id=name, run_ids=(run_id,)))
        desk.hub.rest(run_id, desk)  # type: ignore[arg-type]
        readers.append(desk.read(run_id, tree=bool(n % 4)))
    await asyncio.gather(*(reader.task for reader in readers))
    assert await status(here.store, run_id) == Status.COMPLETED
    assert {tuple(reader.seqs) for reader in readers} == {tuple(range(1, run.seq + 1))}


async def test_looks_at_the_database_and_own_news_together_give_each_event_once(
    here: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0)
    run = await held(here.store)
    readers = [here.read(run.id, tree=tree) for tree in (False, True, True)]
    for _ in range(100):
        await run.work()
    await run.finish()
    await asyncio.gather(*(reader.task for reader in readers))
    assert {tuple(reader.places) for reader in readers} == {tuple(range(1, run.seq + 1))}


async def test_a_crashed_run_is_heard_to_break_off_and_begin_again(here: Desk, there: Desk) -> None:
    run = await held(here.store)
    reader = there.read(run.id)
    await run.append(started())
    dying = here.speech(run)
    dying.begin(1, 1)
    dying.say("text", "brok")
    here.clock.advance(1)
    await until(lambda: reader.heard() == "brok")
    here.clock.advance(60)
    again = await take(there.store, run.id, "wrk_2")
    await again.append(interrupted())
    speech = there.speech(again)
    speech.begin(1, 2)
    speech.say("text", "whole")
    await until(lambda: reader.heard(try_=2) == "whole")
    await again.append(responded(1, 2), finished())
    await reader.task
    kinds = ["turn.started", "delta", "run.resumed", "turn.interrupted", "delta", "model.responded", "run.finished"]
    assert reader.types[2:] == kinds
    await asyncio.gather(dying.end(), speech.end())
