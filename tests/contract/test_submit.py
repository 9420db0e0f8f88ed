"""Submits: stored whole, once for each key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retinue.core import events as e
from retinue.errors import IdempotencyConflict, StoreError
from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import Held, claim, draft, gapless, new_run, queued, renew, together, types

DAY = 24 * 3600


async def test_a_submitted_run_is_queued_with_its_first_event(store: SqlStore, clock: SetClock) -> None:
    run_id = await queued(store, owner="ann", priority=2, expires_at=clock.now_ms() + 9)
    row = await store.run(run_id)
    assert row
    assert (row.status, row.root_id, row.owner, row.priority) == ("queued", run_id, "ann", 2)
    assert (row.due_at, row.created_at, row.expires_at) == (clock.now_ms(), clock.now_ms(), clock.now_ms() + 9)
    assert (row.attempt, row.crashes, row.last_seq, row.signal_seq, row.started_at) == (0, 0, 1, 0, None)
    assert (row.recovered, row.cancelled) == (False, False)
    assert await types(store, run_id) == ["run.queued"]


async def test_what_a_run_refers_to_is_stored_once(store: SqlStore) -> None:
    for _ in range(2):
        await store.submit(replace(new_run(definition="d1", requires="r1"), requirement="{}", definition='{"a":1}'))
    assert await store.definition("d1") == '{"a":1}'
    assert await store.definition("d2") is None
    assert await store.unseen_requirements([]) == {"r1": "{}"}
    assert await store.unseen_requirements(["r0", "r1"]) == {}


async def test_requirements_of_runs_that_ended_are_not_looked_for(store: SqlStore) -> None:
    await store.submit(replace(new_run(), requirement="{}"))
    await renew(store)
    (claimed,) = await claim(store)
    assert await store.unseen_requirements([]) == {"any": "{}"}
    await Held.just(store, claimed).finish()
    assert await store.unseen_requirements([]) == {}


async def test_the_same_request_with_the_same_key_gives_the_same_run(store: SqlStore) -> None:
    first = await queued(store, idempotency_key="k", request_digest="x")
    assert await queued(store, idempotency_key="k", request_digest="x") == first
    assert [row.id for row in await store.runs()] == [first]


async def test_another_request_with_the_same_key_is_a_conflict(store: SqlStore) -> None:
    first = await queued(store, idempotency_key="k", request_digest="x")
    with pytest.raises(IdempotencyConflict) as caught:
        await queued(store, idempotency_key="k", request_digest="y")
    assert (caught.value.key, caught.value.run_id) == ("k", first)
    assert [row.id for row in await store.runs()] == [first]
    await gapless(store, first)


async def test_keys_of_two_owners_are_two_keys(store: SqlStore) -> None:
    first = await queued(store, owner="ann", idempotency_key="k", request_digest="x")
    second = await queued(store, owner="bob", idempotency_key="k", request_digest="y")
    assert first != second


async def test_a_key_is_free_again_after_a_day(store: SqlStore, clock: SetClock) -> None:
    first = await queued(store, idempotency_key="k", request_digest="x")
    clock.advance(DAY)
    assert await queued(store, idempotency_key="k", request_digest="x") == first
    clock.advance(1)
    second = await queued(store, idempotency_key="k", request_digest="y")
    assert second != first
    assert await queued(store, idempotency_key="k", request_digest="y") == second


async def test_one_key_twice_in_a_commit_is_one_run(store: SqlStore) -> None:
    same = [queued(store, idempotency_key="k", request_digest="x") for _ in range(5)]
    other = queued(store, idempotency_key="k", request_digest="y")
    answers = await together(store, *same, other, queued(store))
    assert len(set(answers[:5])) == 1
    assert isinstance(answers[5], IdempotencyConflict)
    assert len(await store.runs()) == 2


async def test_submits_that_share_a_commit_are_all_there(store: SqlStore) -> None:
    before = store.commits
    answers = await together(store, *(queued(store) for _ in range(200)))
    assert store.commits == before + 1
    assert {row.id for row in await store.runs(limit=500)} == set(answers)


async def test_a_submit_that_the_database_refuses_fails_alone(store: SqlStore) -> None:
    run_id = await queued(store)
    answers = await together(store, queued(store, id=run_id), queued(store))
    assert isinstance(answers[0], StoreError)
    assert len(await store.runs()) == 2
    await gapless(store, run_id)


async def test_a_submit_that_raises_fails_alone(store: SqlStore) -> None:
    bad = new_run(queued=draft(e.RunQueued(target="x")), owner=object())
    answers = await together(store, store.submit(bad), queued(store))
    assert isinstance(answers[0], Exception)
    assert [row.id for row in await store.runs()] == [answers[1]]


async def test_listeners_hear_what_was_committed(store: SqlStore) -> None:
    heard: list[tuple[str, int, str]] = []
    store.on_commit(lambda commit: heard.extend((r.type, r.root_seq, commit.roots[r.run_id]) for r in commit.events))
    run_id = await queued(store)
    await renew(store)
    await claim(store)
    assert heard == [("run.queued", 1, run_id), ("run.started", 2, run_id)]
