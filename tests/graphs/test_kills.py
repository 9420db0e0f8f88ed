"""A worker process that is killed in the middle of a graph."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from retinue import Retinue
from tests.faults.fleet import fleet, settle
from tests.graphs.worker import EVERY

pytestmark = pytest.mark.slow
ITEMS = 1000


async def test_G11_a_worker_is_killed_in_the_middle_of_a_thousand_items(shared_url: str, tmp_path: Path) -> None:
    opened = Retinue.open(shared_url, worker=False, graphs=[EVERY])
    async with fleet(shared_url, tmp_path, module="tests.graphs.worker") as workers, opened as app:
        run = await app.submit("graph:every", ITEMS)
        doomed = await workers.start()
        await workers.effects_begun(ITEMS // 3)
        doomed.kill()
        await doomed.wait()
        done = {row.id for row in await app.service.tree(run.id) if row.status == "completed"}
        assert ITEMS // 5 < len(done) < ITEMS, f"inconclusive: {len(done)} were done"
        await workers.start()
        await settle(app, [run.id])
        outcome, rows = await run.outcome(), await app.service.tree(run.id)
        effects = Counter(line.split()[0] for line in workers.effects().elements())
    assert (outcome.status, outcome.output) == ("completed", [2 * n for n in range(ITEMS)])
    assert len(rows) == ITEMS + 3
    assert {row.attempt for row in rows if row.id in done} == {1}
    assert all(effects[run_id] <= 1 for run_id in done)
    assert len(effects) == ITEMS
    print(f"{len(done)} nodes were done before the kill; {effects.total() - ITEMS} effects were tried again")
