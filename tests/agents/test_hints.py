"""What people say to an agent while it works: it is told once, at the next turn, and nothing of it is lost."""

from __future__ import annotations

from typing import Any

from retinue import Retinue, Run, tool
from retinue.core import events as e
from retinue.core.messages import Text
from retinue.testing import Reply, SetClock, call, drain
from tests.agents.acting import acting, finish, guide, told
from tests.agents.pace import NEVER, Paced, said_to, until
from tests.outside import data_of, doomed, ended, heard, outside, types_of


@tool(effect="read")
async def wait() -> str:
    """Waits at the door."""
    return str(await outside.wait_at_door("result"))


@tool(effect="read")
async def look(what: str = "") -> str:
    """Looks."""
    return f"saw {what}"


async def test_L30_a_hint_during_a_call_is_in_the_next_prompt_and_not_again(clock: SetClock) -> None:
    model = Paced(clock, call("wait"), call("look"), finish())
    async with acting(clock, model, tools=[wait, look]) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        await run.steer("left")
        await run.steer("then right")
        await heard(app, run)
        outside.door.set()
        assert (await ended(app, run)).reason == "goal"
        assert [said_to(request) for request in model.requests] == [
            ["go"],
            ["go", "leftthen right"],
            ["go", "leftthen right"],
        ]
        assert model.requests[1].messages[-1].parts == (Text(text="left"), Text(text="then right"))
        assert [(hint.text, hint.turn) for hint in await data_of(run, e.SteerReceived)] == [
            ("left", 2),
            ("then right", 2),
        ]


async def test_L30_a_hint_to_one_run_never_reaches_another(clock: SetClock) -> None:
    model = Paced(clock, call("wait"), call("wait"), finish(), finish())
    async with acting(clock, model, tools=[wait]) as app:
        one, other = await app.submit("agent:guide", "one"), await app.submit("agent:guide", "other")
        await until(lambda: len(outside.done) == 2)
        await one.steer("left")
        await heard(app, one)
        outside.door.set()
        await ended(app, one)
        await ended(app, other)
        assert {tuple(said_to(request)) for request in model.requests[2:]} == {("one", "left"), ("other",)}


async def test_a_hint_while_the_model_answers_is_for_the_turn_after_also_when_it_is_asked_again(
    file_url: str, clock: SetClock
) -> None:
    asked: list[Paced] = []
    for lines in ((NEVER,), (call("look"), finish())):
        asked.append(model := Paced(clock, *lines))
        options: dict[str, Any] = {"agents": [guide(tools=[look])], "models": {"m": model}}
        if len(asked) == 1:
            async with doomed(file_url, clock, **options) as app:
                run = await app.submit("agent:guide", "go")
                await until(lambda: model.asked == 1)
                await run.steer("left")
                await heard(app, run)
        else:
            async with Retinue.open(file_url, clock=clock, **options) as app:
                assert (await ended(app, app.get(run.id))).reason == "goal"
    first, second = asked[1].requests
    assert (said_to(first), said_to(second)) == (["go"], ["go", "left"])


async def test_L31_what_a_turn_adds_is_results_then_what_people_said_then_what_the_run_says(clock: SetClock) -> None:
    """What background children gave comes with delegation, before the hints; this is the order around it."""
    model = Paced(clock, call("wait"), finish())
    async with acting(clock, model, tools=[wait], limits={"max_minutes": 1}) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        await run.steer("left")
        await heard(app, run)
        clock.advance(50)
        outside.door.set()
        await ended(app, run)
        results, said = model.requests[1].messages[-2:]
        assert (results.role, told(model.requests[1])) == ("tool", ["result"])
        texts = [part.text for part in said.parts if isinstance(part, Text)]
        assert texts == ["left", "Only 10 seconds left. Come to an end in time."]


def steering(run: list[Run]) -> Reply:
    """The last answer, during which a person says something."""

    async def steer(_: int) -> None:
        await run[0].steer("left")

    return Reply(pieces=["so"], before=steer, calls=[finish()])


async def test_L32_a_hint_during_the_last_turn_is_unread_in_the_end(clock: SetClock) -> None:
    runs: list[Run] = []
    async with acting(clock, Paced(clock, steering(runs))) as app:
        runs.append(await app.submit("agent:guide", "go"))
        assert (await ended(app, runs[0])).reason == "goal"
        (finished,) = await data_of(runs[0], e.RunFinished)
        assert finished.unread == ("left",)
        assert (await types_of(runs[0])).index("steer.received") > 0


async def test_L32_a_hint_that_the_worker_has_not_heard_of_when_the_run_ends_is_unread_too(
    file_url: str, clock: SetClock
) -> None:
    runs: list[Run] = []
    elsewhere = Retinue.open(file_url, clock=clock, worker=False)
    async with elsewhere as other, acting(clock, Paced(clock, steering(runs)), file_url) as app:
        run = await app.submit("agent:guide", "go")
        runs.append(other.get(run.id))
        assert (await ended(app, run)).reason == "goal"
        (finished,) = await data_of(run, e.RunFinished)
        assert finished.unread == ("left",)


async def test_L32_a_hint_during_the_last_turn_is_read_in_the_recovery_turn(clock: SetClock) -> None:
    model = Paced(clock, call("wait"), finish())
    async with acting(clock, model, tools=[wait], limits={"max_turns": 1}) as app:
        run = await app.submit("agent:guide", "go")
        await outside.at_door.wait()
        await run.steer("left")
        await heard(app, run)
        outside.door.set()
        assert (await ended(app, run)).recovered
        assert said_to(model.requests[1])[-1].startswith("leftYou have used all the turns")
        (finished,) = await data_of(run, e.RunFinished)
        assert finished.unread == ()


async def test_a_hint_to_a_run_that_has_not_begun_is_in_its_first_prompt(clock: SetClock) -> None:
    model = Paced(clock, finish())
    async with acting(clock, model) as app:
        run = await app.submit("agent:guide", "go", start_at=clock.now_ms() + 60_000)
        await run.steer("left")
        clock.advance(60)
        await app.worker.duty()
        await drain(app)
        assert said_to(model.requests[0]) == ["go", "left"]
