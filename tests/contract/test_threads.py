"""Threads: what is said and what answers it are stored together or not at all; who waits for whom; what deleting takes
away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retinue.core import events as e
from retinue.core.outcome import Reason, Status
from retinue.errors import IdempotencyConflict, RunEnded, ThreadBusy, UnknownMessage, UnknownRun, UnknownThread
from retinue.ports.store import Cancel, Claim, Drop, Forget, Keep, OnBusy, Posted, Prune, Pruned, Purge, Rename
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import Held, by_hand, claim, claimed_ids, draft, gapless, queued, renew, status, take, together
from .talk import after, answer, post, run_of, say, start, waits_for

ANSWERED = '[{"kind":"text","text":"yes"}]'


async def rows_of(store: SqlStore, table: str) -> int:
    return (await store.stats()).rows[table]


# Posting


async def test_what_is_said_its_answer_and_its_run_are_there_together(store: SqlStore, clock: SetClock) -> None:
    write = say(text="hello", owner="ann", by=("model:a", "model:b"))
    before = store.commits
    assert await store.post(write) == Posted(run_id=run_of(write))
    assert store.commits == before + 1
    thread = await store.thread(write.thread_id)
    assert thread
    assert (thread.owner, thread.title, thread.updated_at) == ("ann", "a title", clock.now_ms())
    said, first, second = await store.messages(write.thread_id)
    assert (said.participant, said.parent_id, said.run_id, said.status) == ("user:ann", None, None, None)
    assert said.parts == '[{"kind":"text","text":"hello"}]'
    for n, placeholder in enumerate((first, second)):
        assert (placeholder.parent_id, placeholder.parts, placeholder.status) == (said.id, "[]", Status.QUEUED)
        assert placeholder.run_id == run_of(write, n)
        await gapless(store, run_of(write, n))
    assert sorted(await claimed_ids(store)) == sorted([run_of(write), run_of(write, 1)])


async def test_what_is_said_in_a_thread_that_is_there_moves_it_up(store: SqlStore, clock: SetClock) -> None:
    old, new = say(), say()
    await post(store, old)
    clock.advance(1)
    await post(store, new)
    clock.advance(1)
    assert [row.id for row in await store.threads()] == [new.thread_id, old.thread_id]
    await post(store, say(*after(old)))
    assert [row.id for row in await store.threads()] == [old.thread_id, new.thread_id]
    assert len(await store.messages(old.thread_id)) == 4


async def test_an_input_of_any_kind_can_be_said_where_something_was_said_before(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    queued_with = draft(e.RunQueued(target="function:shop:order", input={"items": ["tea"]}))
    assert await post(store, say(*after(first), queued=queued_with))


async def test_a_thread_that_is_not_there_or_somebody_elses_takes_nothing(store: SqlStore) -> None:
    first = say(owner="ann")
    await post(store, first)
    for write in (say("thr_none", owner="ann"), say(*after(first), owner="bob"), say(*after(first))):
        with pytest.raises(UnknownThread):
            await store.post(write)
    assert (await rows_of(store, "messages"), await rows_of(store, "runs")) == (2, 1)


async def test_a_parent_is_of_the_same_thread_or_there_is_none(store: SqlStore) -> None:
    one, other = say(), say()
    await post(store, one)
    await post(store, other)
    for parent_id in ("msg_none", after(other)[1]):
        with pytest.raises(UnknownMessage):
            await store.post(say(one.thread_id, parent_id))
    assert (await rows_of(store, "messages"), await rows_of(store, "runs")) == (4, 2)


async def test_one_that_is_refused_fails_alone(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    writes = [say(*after(first)), say("thr_none"), say(first.thread_id, "msg_none"), say()]
    answers = await together(store, *(store.post(write) for write in writes))
    assert [type(one) for one in answers] == [Posted, UnknownThread, UnknownMessage, Posted]
    assert await rows_of(store, "messages") == 6


async def test_a_run_whose_past_is_gone_is_not_said_again(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    with pytest.raises(UnknownRun):
        await store.post(say(*after(first), source_run_id="run_gone", source_seq=3))
    assert (await rows_of(store, "messages"), await rows_of(store, "runs")) == (2, 1)


async def test_one_key_is_one_post(store: SqlStore, clock: SetClock) -> None:
    key: dict[str, Any] = {"idempotency_key": "k", "request_digest": "x"}
    first = say(by=("model:a", "model:b"), **key)
    await post(store, first)
    same = await together(store, *(store.post(say(by=("model:a", "model:b"), **key)) for _ in range(3)))
    assert same == [Posted(run_id=run_of(first))] * 3
    with pytest.raises(IdempotencyConflict):
        await store.post(say(idempotency_key="k", request_digest="y"))
    assert (await rows_of(store, "threads"), await rows_of(store, "messages"), await rows_of(store, "runs")) == (
        1,
        3,
        2,
    )


async def test_one_key_twice_in_a_commit_is_one_post(store: SqlStore) -> None:
    key: dict[str, Any] = {"idempotency_key": "k", "request_digest": "x"}
    answers = await together(store, *(store.post(say(**key)) for _ in range(5)))
    assert len({posted.run_id for posted in answers if isinstance(posted, Posted)}) == 1
    assert await rows_of(store, "messages") == 2


async def test_who_goes_on_at_the_end_is_told_when_somebody_was_quicker(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    writes = [say(*after(first), at_end=True) for _ in range(3)]
    answers = await together(store, *(store.post(write) for write in writes))
    assert [bool(one) for one in answers] == [True, False, False]
    assert await rows_of(store, "messages") == 4
    assert await store.latest(first.thread_id) == after(writes[0])[1]
    assert await store.post(say(*after(first), at_end=True)) is None
    assert await store.post(say(*after(writes[0]), at_end=True))


async def test_the_newest_message_is_so_by_the_time_of_the_database(store: SqlStore, clock: SetClock) -> None:
    """Ids are made by whoever posts, and clocks differ."""
    first, second = say(), say()
    await post(store, first)
    clock.advance(1)
    second = say(*after(first))
    assert second.message
    early = [replace(second.answers[0], message=replace(second.answers[0].message, id="msg_000", parent_id="msg_00"))]
    await post(store, replace(second, message=replace(second.message, id="msg_00"), answers=tuple(early), at_end=True))
    assert await store.latest(first.thread_id) == "msg_000"
    told = [row.id for row in await store.messages(first.thread_id)]
    assert told[-2:] == ["msg_00", "msg_000"]
    last = (await store.messages(first.thread_id))[1]
    assert [row.id for row in await store.messages(first.thread_id, after=last)] == ["msg_00", "msg_000"]


# The answer


async def test_the_end_of_a_run_puts_its_answer_into_its_message(store: SqlStore) -> None:
    write, other = say(), say()
    await post(store, write)
    await post(store, other)
    run, _ = await start(store, write, other)
    await run.finish(answer=ANSWERED)
    _, answered = await store.messages(write.thread_id)
    assert (answered.parts, answered.status) == (ANSWERED, Status.COMPLETED)
    assert (await store.messages(other.thread_id))[1].parts == "[]"


async def test_an_attempt_that_was_overtaken_answers_nothing(store: SqlStore, clock: SetClock) -> None:
    write = say()
    await post(store, write)
    (stale,) = await start(store, write)
    clock.advance(31)
    await renew(store, "wrk_2")
    (again,) = await claim(store, "wrk_2")
    with pytest.raises(Exception, match="no longer held"):
        await stale.finish(answer=ANSWERED)
    assert (await store.messages(write.thread_id))[1].parts == "[]"
    await Held.just(store, again).finish(answer='[{"kind":"text","text":"mine"}]')
    assert "mine" in (await store.messages(write.thread_id))[1].parts


# Who waits for whom


async def test_a_run_waits_for_the_one_before_it_and_for_no_other(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    second = say(*after(first), ahead=(run_of(first),))
    sibling = say(first.thread_id, first.message.id if first.message else None)
    await post(store, second)
    await post(store, sibling)
    assert await waits_for(store, second) == run_of(first)
    run, _ = await start(store, first, sibling)
    await run.finish(answer=ANSWERED)
    assert await waits_for(store, second) is None
    assert await claimed_ids(store) == [run_of(second)]


async def test_who_waits_for_a_run_that_has_just_ended_waits_no_more(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    (run,) = await start(store, first)
    await run.finish()
    second = say(*after(first), ahead=(run_of(first),))
    await post(store, second)
    assert await waits_for(store, second) is None


async def test_who_is_said_in_the_commit_in_which_the_one_before_ends_is_free(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    (run,) = await start(store, first)
    second = say(*after(first), ahead=(run_of(first),))
    await together(store, store.append(run.write(finished())), store.post(second))
    assert await claimed_ids(store) == [run_of(second)]


async def queue_of(store: SqlStore, length: int) -> list[Any]:
    """Posts, each behind the one before it."""
    writes: list[Any] = [say()]
    await post(store, writes[0])
    for _ in range(length - 1):
        ahead = tuple(run_of(write) for write in reversed(writes))
        writes.append(say(*after(writes[-1]), ahead=ahead))
        await post(store, writes[-1])
    return writes


async def end_idle(store: SqlStore, *run_ids: str) -> None:
    """Cancel runs that nobody runs, all in one commit."""
    runs = []
    for run_id in run_ids:
        await store.cancel(Cancel(run_id=run_id))
        (claimed,) = await store.claim(Claim(worker_id="wrk_1", limit=1, run_id=run_id))
        row = await store.run(run_id)
        assert row
        runs.append(Held(store, claimed.row, row.last_seq))
    await together(store, *(store.append(run.write(finished(Status.CANCELLED))) for run in runs))


def finished(status: Status = Status.COMPLETED) -> e.RunFinished:
    return e.RunFinished(status=status, reason=Reason.GOAL if status is Status.COMPLETED else Reason.CANCELLED)


async def test_who_waited_for_one_that_had_to_wait_itself_waits_for_the_one_before_it(store: SqlStore) -> None:
    one, two, three = await queue_of(store, 3)
    (run,) = await start(store, one)
    assert [await waits_for(store, write) for write in (two, three)] == [run_of(one), run_of(two)]
    await end_idle(store, run_of(two))
    assert await waits_for(store, three) == run_of(one)
    assert await claimed_ids(store) == []
    await run.finish()
    assert await claimed_ids(store) == [run_of(three)]


async def test_several_that_end_in_one_commit_free_whoever_is_left(store: SqlStore) -> None:
    one, two, three, four, five = await queue_of(store, 5)
    (run,) = await start(store, one)
    await end_idle(store, run_of(three), run_of(four))
    assert [await waits_for(store, write) for write in (two, five)] == [run_of(one), run_of(two)]
    for run_id in (run_of(two),):
        await store.cancel(Cancel(run_id=run_id))
    (claimed,) = await store.claim(Claim(worker_id="wrk_1", limit=1, run_id=run_of(two)))
    row = await store.run(run_of(two))
    assert row
    ends = [run.write(finished()), Held(store, claimed.row, row.last_seq).write(finished(Status.CANCELLED))]
    await together(store, *(store.append(end) for end in ends))
    assert await claimed_ids(store) == [run_of(five)]


async def test_a_run_that_waits_for_another_is_claimed_by_nobody(store: SqlStore) -> None:
    _, two = await queue_of(store, 2)
    (claimed,) = await claimed_ids(store)
    assert claimed != run_of(two)
    assert await claimed_ids(store, root_id=run_of(two)) == []
    row = await store.run(run_of(two))
    assert row
    assert await store.ahead(row) == {}
    assert (await store.stats()).oldest_queued is None


# A busy branch


async def test_a_busy_branch_can_refuse(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    second = say(*after(first), ahead=(run_of(first),), on_busy=OnBusy.REJECT)
    with pytest.raises(ThreadBusy) as caught:
        await store.post(second)
    assert caught.value.run_id == run_of(first)
    assert await rows_of(store, "messages") == 2
    (run,) = await start(store, first)
    await run.finish()
    assert await store.post(second)


async def test_a_busy_branch_can_be_shared(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    second = say(*after(first), ahead=(run_of(first),), on_busy=OnBusy.PARALLEL)
    await post(store, second)
    await start(store, first, second)


async def test_a_busy_branch_can_be_interrupted(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    (run,) = await start(store, first)
    second = say(*after(first), ahead=(run_of(first),))
    await post(store, second)
    third = say(*after(second), ahead=(run_of(second), run_of(first)), on_busy=OnBusy.INTERRUPT)
    posted = await post(store, third)
    assert posted.interrupted == {run_of(first): Status.RUNNING, run_of(second): Status.QUEUED}
    for run_id in (run_of(first), run_of(second)):
        row = await store.run(run_id)
        assert row
        assert row.cancelled
        (signal,) = await store.signals(run_id, 0)
        assert (signal.kind, "interrupted" in signal.data) == ("cancel", True)
    assert await waits_for(store, third) == run_of(second)
    await end_idle_told(store, run_of(second))
    await run.finish()
    assert await claimed_ids(store) == [run_of(third)]


async def end_idle_told(store: SqlStore, run_id: str) -> None:
    (claimed,) = await store.claim(Claim(worker_id="wrk_1", limit=1, run_id=run_id))
    row = await store.run(run_id)
    assert row
    await Held(store, claimed.row, row.last_seq).append(finished(Status.CANCELLED))


async def test_a_post_that_interrupts_and_is_refused_interrupts_nothing(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    ahead = (run_of(first),)
    with pytest.raises(UnknownMessage):
        await store.post(say(first.thread_id, "msg_none", ahead=ahead, on_busy=OnBusy.INTERRUPT))
    assert await store.signals(run_of(first), 0) == []


# Renaming, deleting


async def test_a_thread_gets_another_name(store: SqlStore) -> None:
    write = say()
    await post(store, write)
    await store.rename(Rename(thread_id=write.thread_id, title="Porto"))
    thread = await store.thread(write.thread_id)
    assert thread
    assert thread.title == "Porto"
    with pytest.raises(UnknownThread):
        await store.rename(Rename(thread_id="thr_none", title="x"))


async def test_a_dropped_thread_is_gone_for_everybody_at_once(store: SqlStore) -> None:
    write = say()
    await post(store, write)
    await store.drop(Drop(thread_id=write.thread_id))
    assert await store.thread(write.thread_id) is None
    assert await store.threads() == []
    assert await store.saying("hi") == []
    assert await store.dropped() == [write.thread_id]
    for again in (Drop(thread_id=write.thread_id), Rename(thread_id=write.thread_id, title="x")):
        with pytest.raises(UnknownThread):
            await (store.drop(again) if isinstance(again, Drop) else store.rename(again))
    with pytest.raises(UnknownThread):
        await store.post(say(*after(write)))


async def test_what_runs_in_a_dropped_thread_is_told_to_stop_with_all_below(store: SqlStore) -> None:
    first, other = say(), say()
    await post(store, first)
    await post(store, other)
    second = say(*after(first), ahead=(run_of(first),))
    await post(store, second)
    run, _ = await start(store, first, other)
    child = await run.start("child")
    reached = await store.drop(Drop(thread_id=first.thread_id))
    assert reached == {run.id: Status.RUNNING, child: Status.QUEUED, run_of(second): Status.QUEUED}
    assert [await store.signals(run_of(other), 0)] == [[]]


async def test_a_thread_is_purged_when_the_last_run_of_its_trees_has_ended(store: SqlStore) -> None:
    write, stays = say(files=(("file:a", 10),)), say()
    await post(store, write)
    await post(store, stays)
    run, _ = await start(store, write, stays)
    child = await take(store, await run.start("child"))
    assert await store.purge(Purge(thread_id=write.thread_id)) is None, "it was not dropped"
    await store.drop(Drop(thread_id=write.thread_id))
    assert await store.purge(Purge(thread_id=write.thread_id)) is None
    await run.finish()
    assert await store.purge(Purge(thread_id=write.thread_id)) is None, "a child still runs"
    await child.finish()
    pruned = await store.purge(Purge(thread_id=write.thread_id))
    assert pruned
    assert (pruned.trees, pruned.runs, pruned.files) == (1, 2, ("file:a",))
    await store.forget(Forget(uris=pruned.files))
    rows = (await store.stats()).rows
    kept = {table: count for table, count in rows.items() if count and table not in ("requirements", "workers")}
    assert kept == {"threads": 1, "messages": 2, "runs": 1, "events": 2}
    assert await store.purge(Purge(thread_id=write.thread_id)) == Pruned()
    assert await store.dropped() == []


async def test_looking_whether_a_thread_can_go_reads_its_own_runs_only(store: SqlStore) -> None:
    write = say()
    await post(store, write)
    (run,) = await start(store, write)
    await run.finish()
    await together(store, *(queued(store) for _ in range(300)))
    await store.drop(Drop(thread_id=write.thread_id))
    if store.url.startswith("sqlite"):
        assert await opcodes(store, Purge(thread_id=write.thread_id)) < 3000
    else:
        assert await store.purge(Purge(thread_id=write.thread_id))


async def opcodes(store: SqlStore, write: Purge) -> int:
    """How many instructions of SQLite's machine a purge takes."""
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1

    def watch(connection: Any) -> None:
        connection.set_progress_handler(count, 1)

    await store._writer.look(watch)
    assert await store.purge(write)
    await store._writer.look(lambda connection: connection.set_progress_handler(None, 0))
    return seen


async def test_a_file_stays_as_long_as_anything_that_is_left_refers_to_it(store: SqlStore) -> None:
    one, two = say(files=(("file:a", 1), ("file:b", 1))), say(files=(("file:b", 1),))
    for write in (one, two):
        await post(store, write)
    for run in await start(store, one, two):
        await run.finish()
    gone = []
    for write in (one, two):
        await store.drop(Drop(thread_id=write.thread_id))
        pruned = await store.purge(Purge(thread_id=write.thread_id))
        assert pruned
        gone.append(pruned.files)
    assert gone == [("file:a",), ("file:b",)]


async def test_what_is_said_takes_an_upload_over(store: SqlStore) -> None:
    for holder, uri, owner in (
        ("upl_1", "file:a", "ann"),
        ("upl_2", "file:b", "ann"),
        ("upl_3", "file:a", "bob"),
        ("upl_4", "file:c", "ann"),
        ("upl_5", "file:c", "ann"),
    ):
        await store.keep(Keep(uri=uri, holder=holder, owner=owner, size=1))
    write = say(owner="ann", files=(("file:a", 1), ("file:c", 1)))
    await post(store, write)
    assert await store.holds("ann", ["file:a", "file:b", "file:c"]) == {"file:a": 1, "file:b": 1, "file:c": 1}
    (run,) = await start(store, write)
    await run.finish()
    await store.drop(Drop(thread_id=write.thread_id))
    pruned = await store.purge(Purge(thread_id=write.thread_id))
    assert pruned
    assert pruned.files == (), "bob has the one still, and ann has uploaded the other twice"
    assert await store.holds("ann", ["file:a", "file:b", "file:c"]) == {"file:b": 1, "file:c": 1}


async def test_pruning_takes_runs_and_leaves_what_was_said(store: SqlStore, clock: SetClock) -> None:
    write = say()
    await post(store, write)
    (run,) = await start(store, write)
    await run.finish(answer=ANSWERED)
    clock.advance(24 * 3600)
    assert (await store.prune(Prune(root_ids=(run.id,), before=clock.now_ms()))).runs == 1
    said, answered = await store.messages(write.thread_id)
    assert (answered.parts, answered.status, answered.parent_id) == (ANSWERED, None, said.id)
    await store.drop(Drop(thread_id=write.thread_id))
    assert await store.purge(Purge(thread_id=write.thread_id)) == Pruned()
    assert await rows_of(store, "messages") == 0


async def test_a_post_and_a_drop_in_one_commit_leave_nothing_running(store: SqlStore) -> None:
    first = say()
    await post(store, first)
    second = say(*after(first), ahead=(run_of(first),))
    _, reached = await together(store, store.post(second), store.drop(Drop(thread_id=first.thread_id)))
    assert isinstance(reached, dict)
    assert set(reached) == {run_of(first), run_of(second)}


# Reading


async def test_threads_of_an_owner_come_in_pages_also_those_of_one_moment(store: SqlStore, clock: SetClock) -> None:
    writes = [say(owner="ann") for _ in range(7)]
    for n, write in enumerate(writes):
        await post(store, write)
        clock.advance(n % 3 == 0)
    await post(store, say(owner="bob"))
    found = []
    page = await store.threads(owner="ann", limit=2)
    while page:
        found += [row.id for row in page]
        page = await store.threads(owner="ann", before=page[-1], limit=2)
    assert sorted(found) == sorted(write.thread_id for write in writes)
    assert len(await store.threads()) == 8


async def test_what_was_said_is_found_in_pages(store: SqlStore) -> None:
    writes = [say(text=f"100% Tea {n}", owner="ann") for n in range(5)]
    for write in writes:
        await post(store, write)
    await post(store, say(text="tea", owner="bob"))
    await post(store, say(text="100x Tea", owner="ann"))
    first = await store.saying("100% TEA", owner="ann", limit=3)
    rest = await store.saying("100% TEA", owner="ann", before=first[-1].id, limit=3)
    ids = [write.message.id for write in writes if write.message]
    assert [row.id for row in [*first, *rest]] == ids[::-1]


async def test_a_branch_stops_where_the_thread_does(store: SqlStore) -> None:
    one, other = say(), say()
    await post(store, one)
    await post(store, other)
    await by_hand(store, "UPDATE messages SET parent_id = ? WHERE id = ?", after(other)[1], after(one)[1])
    assert [row.id for row in await store.branch(after(one)[1])] == [after(one)[1]]
    assert [row.id for row in await store.path(after(one)[1])] == [after(one)[1]]


async def test_the_replies_to_a_message(store: SqlStore) -> None:
    write = say(by=("model:a", "model:b"))
    await post(store, write)
    assert write.message
    later = answer(write.message.id, write.thread_id, by="model:c")
    await post(store, replace(write, title=None, message=None, answers=(later,)))
    assert [row.participant for row in await store.replies(write.thread_id, write.message.id)] == [
        "model:a",
        "model:b",
        "model:c",
    ]
    assert await status(store, later.submit.run.id) == "queued"


async def test_a_run_that_has_ended_cannot_be_interrupted(store: SqlStore) -> None:
    write = say()
    await post(store, write)
    (run,) = await start(store, write)
    await run.finish()
    with pytest.raises(RunEnded):
        await store.cancel(Cancel(run_id=run.id))
    posted = await post(store, say(*after(write), ahead=(run.id,), on_busy=OnBusy.INTERRUPT))
    assert posted.interrupted == {}
