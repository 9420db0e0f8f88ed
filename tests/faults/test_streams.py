"""An answer that is being streamed when the process that gives it is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from retinue import Delta, Retinue, Run
from retinue.core import events as e
from retinue.core.messages import Text
from tests.models.server import Reply, answer, chunk, serving, sse

from .fleet import check_journal, fleet

pytestmark = pytest.mark.slow
HALF, WHOLE = "A lighthouse is a tow", "A lighthouse is a tower with a light."


async def heard(run: Run, text: str) -> list[e.Event]:
    """Read until that much was said; the events until then."""
    events, said = [], ""
    async for seen in run.follow():
        if isinstance(seen, Delta):
            said += seen.text
        elif isinstance(seen, e.Event):
            events.append(seen)
        if said == text:
            break
    return events


async def test_C12_an_answer_is_whole_after_a_kill_in_the_middle_of_its_stream(
    shared_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as server, fleet(shared_url, tmp_path) as workers:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        never = Reply([sse(chunk({"role": "assistant", "content": HALF})), asyncio.Event()])
        server.will(never, answer({"content": WHOLE}))
        async with Retinue.open(shared_url, worker=False) as app:
            run = await app.submit("model:openai:any", "What is a lighthouse?")
            doomed = await workers.start()
            events = await heard(run, HALF)
            doomed.kill()
            await doomed.wait()
            await workers.start()
            events += [seen async for seen in run.follow(after=events[-1].seq) if isinstance(seen, e.Event)]
            assert events == await app.service.events(run.id)
            check_journal(events, settled=True)
            assert [event.type for event in events] == [
                *("run.queued", "run.started", "turn.started", "run.resumed"),
                *("turn.interrupted", "model.responded", "run.finished"),
            ]
            interrupted = events[4].data
            assert isinstance(interrupted, e.TurnInterrupted)
            assert (interrupted.text, interrupted.usage.estimated) == (HALF, True)
            assert ((await run.outcome()).output, len(server.asked)) == (WHOLE, 2)
            row = await run.row()
            placeholder = await app.service.threads.message(row.message_id or "")
            assert (placeholder.status, placeholder.parts) == ("completed", (Text(text=WHOLE),))
