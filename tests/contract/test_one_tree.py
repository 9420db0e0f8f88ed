"""Working on one tree only."""

from __future__ import annotations

from retinue.store.sql import SqlStore
from retinue.testing.clock import SetClock

from .steps import LEASE_MS, claimed_ids, held, new_run, queued, renew


async def test_a_claim_can_be_kept_to_one_tree(store: SqlStore) -> None:
    run = await held(store)
    child = await run.start("child")
    await queued(store, priority=9)
    assert await claimed_ids(store, root_id=run.id) == [child]
    assert await claimed_ids(store, root_id=run.id) == []


async def test_the_root_itself_is_of_its_tree(store: SqlStore) -> None:
    await queued(store)
    run_id = await queued(store)
    assert await claimed_ids(store, root_id=run_id) == [run_id]


async def test_what_was_left_behind_elsewhere_is_left(store: SqlStore, clock: SetClock) -> None:
    mine, other = await held(store), await held(store)
    clock.advance(LEASE_MS / 1000 + 1)
    await renew(store, "wrk_2")
    assert await claimed_ids(store, "wrk_2", root_id=mine.id) == [mine.id]
    assert await claimed_ids(store, "wrk_2") == [other.id]


async def test_under_a_limit_for_owners_too(store: SqlStore) -> None:
    run_id = await queued(store, owner="ann")
    await queued(store, owner="ann")
    assert await claimed_ids(store, root_id=run_id, owner_limit=1) == [run_id]


async def test_what_a_tree_requires_is_told_apart(store: SqlStore) -> None:
    for name in "ab":
        submit = new_run(requires=name)
        await store.submit(type(submit)(run=submit.run, requirement=f'{{"function":"{name}"}}'))
    rows = {row.requires: row for row in await store.runs()}
    assert set(await store.unseen_requirements([])) == {"a", "b"}
    assert set(await store.unseen_requirements([], rows["a"].id)) == {"a"}
    assert await store.requirement("b") == '{"function":"b"}'
    assert await store.requirement("c") is None
