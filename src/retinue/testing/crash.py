"""The crash harness: stop a worker before each of its commits and after each of its events, start another, and see
that nothing is lost and nothing is done twice.

    async def test_order_survives(tmp_path):
        report = await crash_everywhere(Scenario(target=order, input={"item": "tea"}), sqlite_files(tmp_path), check)

An agent is run in the same way: `Scenario(target="agent:guide", agents=[guide], models={"m": model})`. What its model
says must follow from what it is asked, not from how often: after a crash it is asked again.

From the instant of the crash the stopped worker's connection refuses everything: no code of it, not even a
`finally`, can write any more. `processes=` does the same with a process that ends at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retinue.app import Retinue, Run
from retinue.core import events as e
from retinue.core.outcome import Effect, Outcome
from retinue.core.run import RunState, fold
from retinue.engine.worker import LEASE_SECONDS
from retinue.ports.models import Model
from retinue.runners.function import target_of
from retinue.settings import Settings, TheProject
from retinue.store.writer import Checkpoint, Halted
from retinue.testing.clock import SetClock
from retinue.testing.drain import drain
from retinue.testing.points import Life, Point, When

if TYPE_CHECKING:
    from retinue.project.graphs import Graph
    from retinue.project.python import Agent

WHENS: tuple[When, ...] = ("before", "after")
Databases = Callable[[], AbstractAsyncContextManager[str]]
MOST_STEPS = 500
LONGEST_LINE = 500


async def nobody(app: Retinue, run: Run) -> bool:
    """Nobody does anything."""
    return False


async def nothing(app: Retinue, run: Run) -> Run | None:
    """Nothing follows."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is run, and what people do meanwhile.

    `people` is called whenever all is at rest: it looks, does what is to be done (answer a ticket, cancel
    something) and says whether it did anything. When it did not, the clock is moved to the next time that
    something waits for. `then` is called when the run has ended and may give another one that follows it, such as
    a retry. `begin` is called before each story, to reset what stands for the outside world. `submit` begins the run
    in another way than with `target` and `input`; it is called in each life, and gives the same run each time.
    """

    target: str | Callable[..., Awaitable[Any]] = ""
    input: object = None
    submit: Callable[[Retinue], Awaitable[Run]] | None = None
    people: Callable[[Retinue, Run], Awaitable[bool]] = nobody
    then: Callable[[Retinue, Run], Awaitable[Run | None]] = nothing
    begin: Callable[[], None] = lambda: None
    models: Mapping[str, Model] | None = None
    agents: Sequence[Agent] = ()
    graphs: Sequence[Graph] = ()
    project: TheProject | None = None
    settings: Settings | None = None

    async def begun(self, app: Retinue) -> Run:
        """The run; the same one in each life."""
        if self.submit:
            return await self.submit(app)
        return await app.submit(target_of(self.target), self.input, idempotency_key="scenario")


@dataclass(frozen=True, slots=True)
class Story:
    """What became of a run: the last outcome, and all journals, by tree and run."""

    run_id: str
    outcome: Outcome
    trees: Mapping[str, Mapping[str, Sequence[e.Event]]]

    @property
    def journals(self) -> Mapping[str, Sequence[e.Event]]:
        return {run_id: journal for tree in self.trees.values() for run_id, journal in tree.items()}

    @property
    def events(self) -> Sequence[e.Event]:
        return self.journals[self.run_id]

    def states(self) -> list[RunState]:
        return [fold(run_id, journal) for run_id, journal in self.journals.items()]


@dataclass(slots=True)
class Report:
    """What the harness has tried: at each point a life was ended, and another one went on."""

    commits: int
    events: int
    points: int = 0

    def __str__(self) -> str:
        return f"{self.commits} commits, {self.events} events, {self.points} points tested"


async def crash_everywhere(
    scenario: Scenario,
    databases: Databases,
    check: Callable[[Story, Story], None],
    *,
    processes: str | None = None,
    part: tuple[int, int] = (0, 1),
) -> Report:
    """Crash at every point of a scenario; after each, `check(undisturbed, recovered)` and the laws of every journal.

    With `processes` (the scenario's name as MODULE:NAME) the first life is a process that ends with `os._exit`.
    `part` is (which, of how many), to share the points among several tests.
    """
    which, parts = part
    whole = Life()
    async with databases() as url:
        scenario.begin()
        undisturbed = await live(scenario, url, SetClock(), whole)
    check_laws(undisturbed)
    check(undisturbed, undisturbed)
    report = Report(whole.commits, whole.events)
    for when in WHENS:
        number = 1 + which
        # Until the life is over before: how writes share commits differs a little each time.
        while await _try_point(scenario, databases, check, undisturbed, Point(number, when, processes)):
            report.points += 1
            number += parts
    print(f"crash harness, part {which + 1} of {parts}: {report}")
    return report


async def _try_point(
    scenario: Scenario, databases: Databases, check: Callable[[Story, Story], None], undisturbed: Story, point: Point
) -> bool:
    async with databases() as url:
        scenario.begin()
        story, crashed = await _crash_and_recover(scenario, url, point)
        try:
            check_laws(story)
            check(undisturbed, story)
        except AssertionError as error:
            raise AssertionError(f"after a crash {point}: {error}\n{render(story)}") from error
    return crashed


async def _crash_and_recover(scenario: Scenario, url: str, point: Point) -> tuple[Story, bool]:
    clock = SetClock()
    if point.processes:
        crashed = await _process(url, point)
        clock.set(await _latest(url) or clock.now_ms())
    else:
        crashed = await _life(scenario, url, clock, point)
    clock.advance(LEASE_SECONDS + 1)
    return await live(scenario, url, clock), crashed


async def _life(scenario: Scenario, url: str, clock: SetClock, point: Point) -> bool:
    """A life that ends at the given point, in this process. Whether it got that far."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        raise Halted

    checkpoint = Life(point, end, lambda: loop.call_soon_threadsafe(over.set))
    life = asyncio.create_task(live(scenario, url, clock, checkpoint))
    ended = asyncio.create_task(over.wait())
    await asyncio.wait({life, ended}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    life.cancel()
    await asyncio.gather(life, ended, return_exceptions=True)
    return over.is_set()


async def live(scenario: Scenario, url: str, clock: SetClock, checkpoint: Checkpoint | None = None) -> Story:
    """Open the database, run the scenario to its end, tell the story."""
    async with Retinue.open(
        url,
        clock=clock,
        checkpoint=checkpoint,
        grace=0,
        models=scenario.models,
        agents=scenario.agents,
        graphs=scenario.graphs,
        project=scenario.project,
        settings=scenario.settings,
    ) as app:
        runs = [await scenario.begun(app)]
        for _ in range(MOST_STEPS):
            await drain(app)
            rows = await app.service.tree(runs[-1].id)
            if all(row.status.terminal for row in rows):
                following = await scenario.then(app, runs[-1])
                if following is None:
                    return await _story(app, runs)
                runs.append(following)
            elif not await scenario.people(app, runs[-1]):
                await _pass_time(app, clock)
        raise AssertionError(f"the scenario does not end: {[(row.target, row.status, row.waits_for) for row in rows]}")


async def _pass_time(app: Retinue, clock: SetClock) -> None:
    """Move the clock to the next time that something waits for, or at least past a lease."""
    times = [row.wake_at or row.due_at for row in await app.service.runs(limit=1000) if not row.status.terminal]
    times += [ticket.expires_at for ticket in await app.tickets() if ticket.expires_at]
    ahead = [at for at in times if at and at > clock.now_ms()]
    clock.set(min(ahead, default=clock.now_ms() + int(LEASE_SECONDS * 1000) + 1000))
    await app.worker.duty()


async def _story(app: Retinue, runs: Sequence[Run]) -> Story:
    trees = {}
    for run in runs:
        rows = await app.service.tree(run.id)
        trees[run.id] = {row.id: await app.service.events(row.id, limit=100_000) for row in rows}
    return Story(runs[-1].id, await runs[-1].outcome(), trees)


def check_laws(story: Story) -> None:
    """What holds for every tree of runs, whatever happened to it."""
    for tree in story.trees.values():
        places = sorted(event.root_seq for journal in tree.values() for event in journal)
        assert places == list(range(1, len(places) + 1)), f"root_seq has a gap or a duplicate: {places}"
        states = [fold(run_id, journal) for run_id, journal in tree.items()]
        children = sorted(child.run_id for state in states for child in state.children.values())
        assert len(children) == len(tree) - 1 == len(set(children)), f"children: {children}"
    for run_id, journal in story.journals.items():
        assert [event.seq for event in journal] == list(range(1, len(journal) + 1)), f"{run_id}: seq has a gap"
        ends = [event.seq for event in journal if event.type == "run.finished"]
        assert ends == [len(journal)], f"{run_id} has its end at {ends} of {len(journal)}"
        assert sum(event.type == "run.started" for event in journal) <= 1, f"{run_id} was started twice"


def write_tries(story: Story) -> dict[str, int]:
    """How often each write step was begun."""
    tries: dict[str, int] = {}
    for journal in story.journals.values():
        for event in journal:
            if isinstance(event.data, e.ToolStarted) and event.data.effect is Effect.WRITE:
                tries[event.data.call_id] = tries.get(event.data.call_id, 0) + 1
    return tries


def unknown_calls(story: Story) -> set[str]:
    """The calls of which nobody can tell whether they took effect."""
    return {call.call_id for state in story.states() for call in state.calls.values() if call.unknown}


def render(story: Story) -> str:
    """The tree's events in order, a line each."""
    events = sorted((event for journal in story.journals.values() for event in journal), key=lambda x: x.root_seq)
    return "\n".join(map(_line, events))


def _line(event: e.Event) -> str:
    place = f"{event.root_seq:4} {event.run_id[-6:]} {event.seq:3} a{event.attempt}"
    data = str(e.as_dict(event.data))
    return f"{place} {event.type:14} {data if len(data) <= LONGEST_LINE else f'{data[:LONGEST_LINE]}…'}"


def sqlite_files(folder: Path) -> Databases:
    """A new SQLite file for each life."""
    numbers = count(1)

    @asynccontextmanager
    async def database() -> AsyncIterator[str]:
        path = folder / f"crash-{next(numbers)}.db"
        yield f"sqlite:///{path}"
        _remove(path)

    return database


def _remove(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()


# A life that ends as a process


async def _process(url: str, point: Point) -> bool:
    assert point.processes
    place = ("--number", str(point.number), "--when", point.when)
    arguments = ("-m", "retinue.testing", point.processes, url, *place)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    )
    code = await process.wait()
    assert code in (0, CRASHED), f"the process ended with {code}"
    return code == CRASHED


CRASHED = 99


async def _latest(url: str) -> int | None:
    """The time of the last event that the process has written."""
    async with Retinue.open(url, worker=False) as app:
        rows = await app.service.runs(limit=1000)
        last = [event.at for row in rows if (event := await app.services.store.last_event(row.id))]
        wakes = [row.wake_at for row in rows if row.wake_at]
        return max([*last, *wakes], default=None)
