"""The purse of a tree: what is put aside and what is spent never pass its limit, whatever breaks off."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.core import events as e
from retinue.errors import Fenced
from retinue.ports.clock import SystemClock
from retinue.ports.store import Reserve, RunRow, Store
from retinue.store.sql import SqlStore, open_store
from retinue.testing.clock import SetClock

from .steps import Held, claim, finished, held, renew, take, together

LIMIT = 1_000_000


async def reserve(run: Held, micros: int, *, keep: int = 0) -> bool:
    return await run.store.reserve(Reserve(run_id=run.id, attempt=run.attempt, micros=micros, keep=keep))


def settled(micros: int) -> e.BudgetSettled:
    return e.BudgetSettled(reserved_usd=0.0, spent_usd=micros / 1_000_000)


async def purse(store: Store, root_id: str) -> tuple[int, int]:
    """What is spent and what is put aside."""
    row = await store.run(root_id)
    assert row
    return row.purse_spent or 0, row.purse_held or 0


async def row_of(run: Held) -> RunRow:
    row = await run.store.run(run.id)
    assert row
    return row


async def test_what_is_put_aside_is_replaced_by_what_it_cost(store: SqlStore) -> None:
    run = await held(store, purse_limit=LIMIT)
    assert await reserve(run, 600_000)
    assert await purse(store, run.id) == (0, 600_000)
    await run.append(settled(250_000))
    assert await purse(store, run.id) == (250_000, 0)
    assert (await row_of(run)).reserved is None
    assert await reserve(run, 750_000)
    assert not await reserve(run, 750_001)
    assert await purse(store, run.id) == (250_000, 750_000)


async def test_a_purse_is_one_for_a_tree(store: SqlStore) -> None:
    run = await held(store, purse_limit=LIMIT)
    child = await take(store, await run.start("child", purse_limit=LIMIT))
    assert await reserve(run, 600_000)
    assert not await reserve(child, 400_001)
    assert await reserve(child, 400_000)
    assert await purse(store, run.id) == (0, LIMIT)
    assert await purse(store, child.id) == (0, 0)
    await child.append(settled(100_000))
    assert await purse(store, run.id) == (100_000, 600_000)


async def test_something_can_be_kept_back(store: SqlStore) -> None:
    run = await held(store, purse_limit=LIMIT)
    assert not await reserve(run, 600_000, keep=400_001)
    assert await reserve(run, 600_000, keep=400_000)
    assert await reserve(run, 1_000_000)


async def test_what_was_put_aside_before_a_crash_is_replaced(store: SqlStore, clock: SetClock) -> None:
    run = await held(store, purse_limit=LIMIT)
    assert await reserve(run, 600_000)
    clock.advance(31)
    await renew(store, "wrk_2")
    (claimed,) = await claim(store, "wrk_2")
    again = Held.just(store, claimed)
    assert await reserve(again, 900_000)
    assert await purse(store, run.id) == (0, 900_000)
    with pytest.raises(Fenced):
        await reserve(run, 1)


async def test_what_is_put_aside_comes_back_when_the_run_ends(store: SqlStore) -> None:
    run = await held(store, purse_limit=LIMIT)
    child = await take(store, await run.start("child", purse_limit=LIMIT))
    assert await reserve(child, 700_000)
    await child.finish()
    assert await purse(store, run.id) == (0, 0)
    assert await reserve(run, 1_000_000)


async def test_a_call_that_is_settled_in_the_commit_that_ends_its_run_counts_once(store: SqlStore) -> None:
    run = await held(store, purse_limit=LIMIT)
    assert await reserve(run, 700_000)
    await run.append(settled(400_000), finished())
    assert await purse(store, run.id) == (400_000, 0)


async def test_a_write_that_was_done_already_does_not_settle_again(store: SqlStore) -> None:
    run = await held(store, purse_limit=LIMIT)
    assert await reserve(run, 700_000)
    write = run.write(settled(400_000))
    await store.append(write)
    await store.append(run.write(settled(400_000), again=True))
    assert await purse(store, run.id) == (400_000, 0)


async def test_a_run_without_a_purse_puts_nothing_aside(store: SqlStore) -> None:
    assert not await reserve(await held(store), 0)


async def test_those_that_ask_at_once_get_no_more_than_there_is(store: SqlStore) -> None:
    run = await held(store, purse_limit=LIMIT)
    children = [await take(store, await run.start(f"c{n}", purse_limit=LIMIT)) for n in range(10)]
    got = await together(store, *(reserve(child, 150_000) for child in children))
    assert sum(map(bool, got)) == 6
    assert await purse(store, run.id) == (0, 900_000)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700_000), st.booleans()), max_size=12))
@settings(max_examples=30, deadline=None)
async def test_held_and_spent_add_up_whatever_is_done(steps: list[tuple[int, int, bool]]) -> None:
    """Three runs of a tree put aside, and settle what they have put aside."""
    store = await open_store("sqlite://", SystemClock())
    root = await held(store, purse_limit=LIMIT)
    runs = [root] + [await take(store, await root.start(f"c{n}", purse_limit=LIMIT)) for n in range(2)]
    aside, spent = [0, 0, 0], 0
    for which, micros, settles in steps:
        if settles:
            cost = min(micros, aside[which])
            await runs[which].append(settled(cost))
            spent, aside[which] = spent + cost, 0
        else:
            fits = spent + sum(aside) - aside[which] + micros <= LIMIT
            assert await reserve(runs[which], micros) == fits
            aside[which] = micros if fits else aside[which]
        assert await purse(store, root.id) == (spent, sum(aside))
        assert spent + sum(aside) <= LIMIT
    await store.close()
