"""The hub: who is told what, and what a tail keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core import events as e
from retinue.core.delta import OpenTurn
from retinue.core.outcome import Failure
from retinue.engine import hub
from retinue.engine.codec import REFERENCE
from retinue.engine.hub import PAGE, RING, Hub, Tail
from retinue.errors import StoreClosed, UnknownRun
from retinue.ports.store import Draft, Recorded, Signal
from retinue.store import queries
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock
from tests.contract.steps import Held, by_hand, claim, held, note, queued, said

from .reading import Desk, a_desk, another_desk, until


class Living:
    """A run that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def signalled(self) -> None:
        self.told.append("signalled")

    def child_parked(self) -> None:
        self.told.append("child parked")


@pytest.fixture
async def desk(store: SqlStore, clock: SetClock) -> AsyncIterator[Desk]:
    async with a_desk(store, clock) as desk:
        yield desk


@pytest.fixture
async def shared(shared_url: str, clock: SetClock) -> AsyncIterator[Desk]:
    async with another_desk(shared_url, clock) as desk:
        yield desk


def recorded(place: int, run_id: str = "run_1") -> Recorded:
    return Recorded(run_id, place, place + 100, 1, 0, "warning", "{}")


def turn(text: str, number: int = 1, try_: int = 1) -> OpenTurn:
    said = OpenTurn(number, try_)
    said.add("text", 0, text)
    return said


# Tails


@given(st.lists(st.integers(1, 60)), st.integers(0, 70))
def test_a_tail_gives_what_follows_a_place_or_says_that_it_cannot(pushed: list[int], place: int) -> None:
    tail, kept = Tail("run_1", tree=False), list[int]()
    for n in pushed:
        tail.push(recorded(n))
        if not kept or n > kept[-1]:  # what it has already is left out, what follows a hole begins anew
            kept = [*kept, n] if kept and n == kept[-1] + 1 else [n]
    page = tail.after(place)
    if not kept or place < kept[0] - 1:
        assert page is None
    else:
        assert page is not None
        assert [one.seq for one in page] == [n for n in kept if n > place]


@given(st.integers(0, 2 * RING), st.integers(0, 3 * RING))
def test_a_tail_is_bounded_and_gives_pages(count: int, place: int) -> None:
    tail = Tail("run_1", tree=True)
    for n in range(1, count + 1):
        tail.push(recorded(n))
    assert len(tail.ring) == min(count, RING)
    page = tail.after(100 + place)
    reaches = place >= max(count - RING, 0) and count > 0
    assert ([one.seq for one in page] if page is not None else None) == (
        list(range(place + 1, min(place + PAGE, count) + 1)) if reaches else None
    )


def test_an_empty_tail_knows_only_what_a_reader_has_found_to_be_the_end() -> None:
    tail = Tail("run_1", tree=False)
    assert (tail.end, tail.after(5)) == (None, None)
    tail.caught_up(5)
    assert (tail.end, tail.after(5), tail.after(4)) == (5, [], None)
    tail.caught_up(3)
    assert tail.end == 5
    tail.push(recorded(7))
    assert (tail.end, tail.after(5), tail.after(6)) == (7, None, [recorded(7)])


async def test_who_waits_is_woken_by_a_change_and_not_kept_by_one_that_came_before() -> None:
    tail = Tail("run_1", tree=False)
    waiting = [asyncio.ensure_future(tail.changed(tail.version)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert len(tail.waiting) == 2
    tail.push(recorded(1))
    await asyncio.gather(*waiting[1:], tail.changed(0))
    assert not tail.waiting


async def test_nobody_waits_at_a_tail_that_is_closed(desk: Desk) -> None:
    with desk.hub.watch("run_1", tree=False) as tail:
        await desk.hub.close()
        with pytest.raises(StoreClosed):
            await tail.changed(tail.version)


async def test_a_tail_is_there_while_somebody_reads(desk: Desk) -> None:
    with desk.hub.watch("run_1", tree=False) as tail:
        with desk.hub.watch("run_1", tree=False) as same, desk.hub.watch("run_1", tree=True) as tree:
            assert tail is same
            assert tail is not tree
        assert list(desk.hub._tails) == [("run_1", False)]
    assert not desk.hub._tails


async def test_only_readers_of_a_run_and_of_its_tree_are_woken(desk: Desk) -> None:
    root, other = await held(desk.store), await held(desk.store)
    child = await root.start("a")
    keys = [(root.id, False), (root.id, True), (child, False), (other.id, False), (other.id, True)]
    with (
        desk.hub.watch(*keys[0][:1], tree=False),
        desk.hub.watch(root.id, tree=True),
        desk.hub.watch(child, tree=False),
        desk.hub.watch(other.id, tree=False),
        desk.hub.watch(other.id, tree=True),
    ):
        await root.work()
        desk.hub.said(root.id, root.id, turn("hm"))
        desk.hub.said(child, root.id, turn("so"))
        assert [desk.hub._tails[key].version for key in keys] == [2, 3, 1, 0, 0]


# Looking at what others write


async def test_a_database_of_one_process_is_not_looked_at(desk: Desk) -> None:
    with desk.hub.watch("run_1", tree=False) as tail:
        assert (tail.poller is not None) == desk.store.shared


async def test_looking_ends_with_the_last_reader(shared: Desk) -> None:
    with shared.hub.watch("run_1", tree=False) as tail, shared.hub.watch("run_1", tree=False):
        assert tail.poller
    await asyncio.gather(tail.poller, return_exceptions=True)
    assert tail.poller.cancelled()


async def test_all_readers_of_a_run_share_one_look_and_a_run_that_lives_here_needs_none(
    shared: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await held(shared.store)
    readers = [shared.read(run.id) for _ in range(20)]
    await until(lambda: all(len(reader.seen) == 2 for reader in readers))
    tail = shared.hub._tails[run.id, False]
    await until(lambda: len(tail.waiting) == 20)
    shared.store.reads.clear()
    await shared.hub._look(tail)
    assert shared.store.reads == {queries.EVENTS: 1, queries.PARTIALS: 1, queries.RUN: 1}
    shared.hub.live(run.id, Living())
    monkeypatch.setattr(hub, "POLL_SECONDS", 0)
    shared.store.reads.clear()
    await asyncio.sleep(0.05 + hub.POLL_SECONDS)
    assert not shared.store.reads
    await asyncio.gather(*(reader.stop() for reader in readers))


async def test_a_look_reaches_the_end_however_far_it_is(shared: Desk, shared_url: str, clock: SetClock) -> None:
    async with another_desk(shared_url, clock) as elsewhere:
        run = await held(elsewhere.store)
        with shared.hub.watch(run.id, tree=False) as tail:
            tail.caught_up(run.seq)
            await run.work(2 * RING)
            await shared.hub._look(tail)
            assert (tail.end, len(tail.ring)) == (run.seq, RING)


async def test_a_look_that_finds_nothing_new_wakes_nobody(shared: Desk, shared_url: str, clock: SetClock) -> None:
    async with another_desk(shared_url, clock) as elsewhere:
        run = await held(elsewhere.store)
        speech = elsewhere.speech(run)
        speech.begin(1, 1)
        speech.say("text", "so far")
        clock.advance(1)
        await until(lambda: elsewhere.store.commits > 2 and not speech._unsent)
        with shared.hub.watch(run.id, tree=True) as tail:
            tail.caught_up(3)
            await shared.hub._look(tail)
            version = tail.version
            await shared.hub._look(tail)
            assert (tail.turns[run.id].text(), tail.version) == ("so far", version)
        await speech.end()


# Open turns


def retried(try_: int) -> e.ModelRetried:
    return e.ModelRetried(turn=1, try_=try_, error=Failure(kind="busy", message=""))


async def test_a_turn_is_open_until_its_own_end_is_on_disk(desk: Desk) -> None:
    run = await held(desk.store)
    await run.append(e.TurnStarted(turn=1, model="test"))
    second = turn("again", 1, 2)
    with desk.hub.watch(run.id, tree=False) as tail:
        desk.hub.said(run.id, run.id, second)
        await run.append(retried(1))
        assert (desk.hub.is_open(run.id, second), tail.turns) == (True, {run.id: second})
        await run.append(note("between"), retried(2))
        assert (desk.hub.is_open(run.id, second), tail.turns) == (False, {})


async def test_an_answer_that_is_kept_in_a_file_ends_its_turn(desk: Desk) -> None:
    run, said = await held(desk.store), turn("long")
    desk.hub.said(run.id, run.id, said)
    responded = e.ModelResponded(turn=1, try_=1, parts=(), model="test")
    await desk.store.append(replace(run.write(), drafts=(Draft(responded, REFERENCE + '"file:1"}'),)))
    assert not desk.hub.is_open(run.id, said)


async def test_who_comes_late_finds_the_open_turns_of_its_run_or_tree(desk: Desk) -> None:
    for run_id, root_id in (("run_1", "run_1"), ("run_2", "run_1"), ("run_3", "run_3")):
        desk.hub.said(run_id, root_id, turn(run_id))
    with desk.hub.watch("run_1", tree=False) as one, desk.hub.watch("run_1", tree=True) as tree:
        assert (set(one.turns), set(tree.turns)) == ({"run_1"}, {"run_1", "run_2"})
        desk.hub.said("run_2", "run_1", None)
        assert (set(one.turns), set(tree.turns)) == ({"run_1"}, {"run_1"})


# Who is told


async def test_a_signal_reaches_a_run_that_lives_here(desk: Desk) -> None:
    run_id, living = await queued(desk.store), Living()
    desk.hub.live(run_id, living)
    await desk.store.signal(Signal(run_id=run_id, kind="steer"))
    assert living.told == ["signalled"]
    desk.hub.rest(run_id, Living())
    assert desk.hub.is_live(run_id)
    desk.hub.rest(run_id, living)
    await desk.store.signal(Signal(run_id=run_id, kind="steer"))
    assert (living.told, desk.hub.is_live(run_id)) == (["signalled"], False)


async def test_a_parent_here_is_told_that_a_child_rests(desk: Desk) -> None:
    living = Living()
    desk.hub.live("run_1", living)
    for parent_id in ("run_1", "run_2", None):
        desk.hub.parked(parent_id)
    assert living.told == ["child parked"]


async def test_a_queued_run_wakes_the_worker(desk: Desk) -> None:
    assert not desk.hub.queued.is_set()
    await queued(desk.store)
    assert desk.hub.queued.is_set()


async def test_what_is_due_before_the_next_look_is_looked_for_in_time(store: SqlStore, clock: SetClock) -> None:
    hub = Hub(store, clock)
    hub.due(5000)
    hub.due(300)
    clock.advance(0.299)
    assert not hub.tick.is_set()
    clock.advance(0.001)
    assert hub.tick.is_set()
    assert not clock._timers


async def test_all_who_wait_for_an_end_elsewhere_share_each_look(
    shared: Desk, shared_url: str, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.01)
    async with another_desk(shared_url, clock) as there:
        runs = [await held(there.store) for _ in range(20)]
        with ExitStack() as waiting:
            ends = [waiting.enter_context(shared.hub.ending(run.id)) for run in runs]
            about_to_be = waiting.enter_context(shared.hub.ending("run_that_is_about_to_be_stored"))
            await until(lambda: shared.store.reads[queries.STATUSES_OF] >= 2)
            assert not any(end.done() for end in ends)
            for run in runs:
                await run.finish()
            assert await asyncio.gather(*ends) == [None] * 20
            assert not about_to_be.done()
    assert set(shared.store.reads) == {queries.STATUSES_OF}
    assert shared.store.reads[queries.STATUSES_OF] < 20 * 20


async def test_who_waits_for_a_run_that_is_deleted_is_told(
    shared: Desk, shared_url: str, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.01)
    async with another_desk(shared_url, clock) as there:
        run_id = await queued(there.store)
        with shared.hub.ending(run_id) as end:
            await until(lambda: shared.store.reads[queries.STATUSES_OF] > 0)
            await by_hand(there.store, "DELETE FROM runs")
            with pytest.raises(UnknownRun):
                await end


async def test_who_waits_for_a_run_that_is_deleted_before_the_first_look_is_told(
    shared: Desk, shared_url: str, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.01)
    async with another_desk(shared_url, clock) as there:
        run_id = await queued(there.store)
        with shared.hub.ending(run_id) as end:
            shared.hub.is_stored(run_id)
            await by_hand(there.store, "DELETE FROM runs")
            with pytest.raises(UnknownRun):
                await end


async def test_a_look_at_a_tree_elsewhere_asks_once_for_all_that_is_said(
    shared: Desk, shared_url: str, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.01)
    async with another_desk(shared_url, clock) as there:
        root = await held(there.store)
        for n in range(10):
            await root.start(str(n))
        children = [Held.just(there.store, claimed) for claimed in await claim(there.store)]
        for child in children:
            await there.store.speak(said(child, "word"))
        reader = shared.read(root.id, tree=True)
        await until(lambda: {delta.run_id for delta in reader.deltas} == {child.id for child in children})
        await reader.stop()
    assert (shared.store.reads[queries.PARTIALS], shared.store.reads[queries.TREE]) == (0, 1)
