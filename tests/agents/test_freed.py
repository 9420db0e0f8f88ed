"""What a run of an agent leaves behind in memory."""

from __future__ import annotations

import gc

from retinue import tool
from retinue.engine.attempt import Attempt
from retinue.engine.context import RunContext
from retinue.runners.local.calls import Calls
from retinue.testing import SetClock, call, drain
from tests.agents.acting import Actor, acting, finish


@tool
async def write(what: str) -> str:
    """Write something."""
    return what


async def test_what_a_run_needed_is_freed_when_it_ends_without_a_collection(clock: SetClock) -> None:
    async with acting(clock, Actor(call("write", what="it"), finish()), tools=[write]) as app:
        await drain(app)
        gc.collect()
        gc.disable()
        before = [one for one in gc.get_objects() if type(one) in (Attempt, RunContext, Calls)]  # of other tests
        try:
            await app.submit("agent:guide", "Go")
            await drain(app)
            after = [one for one in gc.get_objects() if type(one) in (Attempt, RunContext, Calls)]
            left = [type(one).__name__ for one in after if not any(one is other for other in before)]
        finally:
            gc.enable()
    assert left == []
