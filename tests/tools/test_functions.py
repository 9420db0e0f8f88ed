from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from retinue import Done, ToolContext, ToolFailed, tool
from retinue.core.outcome import Effect
from retinue.errors import BadDefinition, Parked
from retinue.ports.threads import Threads
from retinue.ports.tools import Tool
from retinue.tools.functions import FunctionTool
from tests.tools.context import Context


@tool
async def lookup(city: str, limit: int = 3) -> str:
    """What is known about a city.

    Args:
        city: Its name.
    """
    return f"{city}: {limit}"


@tool(effect="read")
def measure(city: str) -> int:
    return len(city)


async def paid(key: str) -> Done | None:
    return Done(key)


def test_a_bare_decorator_takes_everything_from_the_function() -> None:
    made: Tool = lookup
    assert (made.name, made.spec.name, made.spec.description) == ("lookup", "lookup", "What is known about a city.")
    assert made.spec.schema["properties"] == {
        "city": {"description": "Its name.", "type": "string"},
        "limit": {"type": "integer", "default": 3},
    }
    assert (made.effect, made.timeout, made.check, made.origin) == (Effect.WRITE, None, None, "project")


def test_everything_can_be_declared() -> None:
    @tool(name="pay.now", effect="idempotent", timeout=3, check=paid, version="7", description="Pays.")
    async def pay(amount: float) -> None:
        """Something else."""

    assert (pay.name, pay.effect, pay.timeout, pay.check) == ("pay.now", Effect.IDEMPOTENT, 3.0, paid)
    assert (pay.digest, pay.spec.description, pay.__doc__) == ("7", "Pays.", "Something else.")


async def test_a_tool_is_still_the_function() -> None:
    assert await lookup("Porto", limit=2) == "Porto: 2"
    assert (measure("Porto"), measure.__name__, measure.__module__) == (5, "measure", __name__)
    assert repr(measure) == "<tool measure>"


async def test_a_tool_is_called_by_name_of_its_parameters() -> None:
    assert await lookup.call({"city": "Porto"}, Context()) == "Porto: 3"
    assert await measure.call({"city": "Porto"}, Context()) == 5
    with pytest.raises(ToolFailed, match="Expected `str`, got `int`"):
        await measure.call({"city": 3}, Context())


async def test_the_context_is_given_to_who_asks_for_it() -> None:
    @tool
    async def keep(text: str, context: ToolContext) -> str:
        context.progress("half", done=1, of=2)
        return await context.artifact(text.encode(), "text/plain", context.call_id)

    context = Context()
    assert await keep.call({"text": "hi"}, context) == "file:///call_1"
    assert (context.told, context.kept) == ([("half", 1, 2)], [(b"hi", "text/plain", "call_1")])


async def test_a_function_in_a_thread_acts_on_the_loop() -> None:
    where = threading.get_ident()
    acted: list[int] = []

    class Here(Context):
        def progress(self, message: str = "", *, done: float | None = None, of: float | None = None) -> None:
            acted.append(threading.get_ident())

    @tool
    def ask(context: ToolContext) -> list[object]:
        context.progress("one")
        answer = asyncio.run(context.ask("why"))
        return [answer, threading.get_ident() == where, (context.run_id, context.idempotency_key, context.deadline)]

    assert await ask.call({}, Here()) == ["answer to why", False, ["run_1", "key_1", None]]
    assert acted == [where]


async def test_being_parked_goes_through_a_function_in_a_thread() -> None:
    class Parking(Context):
        async def ask(self, question: str, schema: object = None) -> object:
            raise Parked

    @tool
    def ask(context: ToolContext) -> None:
        asyncio.run(context.ask("why"))

    with pytest.raises(Parked):
        await ask.call({}, Parking())


async def test_a_thread_has_the_context_variables_of_the_call() -> None:
    word: ContextVar[str] = ContextVar("word")
    word.set("here")

    @tool
    def say() -> str:
        return word.get()

    assert await say.call({}, Context()) == "here"


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), ToolFailed("not today")])
async def test_what_a_tool_raises_comes_out(error: Exception) -> None:
    @tool
    def fail() -> None:
        raise error

    with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
        await fail.call({}, Context())


async def test_a_tool_that_calls_exit_only_fails() -> None:
    @tool
    def leave() -> None:
        sys.exit(3)

    @tool
    async def leave_too() -> None:
        sys.exit(3)

    @tool
    def interrupt() -> None:
        raise KeyboardInterrupt

    for one in (leave, leave_too):
        with pytest.raises(ToolFailed, match=r"it ended itself with SystemExit\(3\)"):
            await one.call({}, Context())
    with pytest.raises(ToolFailed, match="KeyboardInterrupt"):
        await interrupt.call({}, Context())


async def test_a_tool_that_cancels_itself_only_fails() -> None:
    @tool
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ToolFailed, match="CancelledError"):
        await give_up.call({}, Context())


async def test_cancelling_stops_an_async_tool() -> None:
    stopped = asyncio.Event()

    @tool
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    call = asyncio.create_task(wait.call({}, Context()))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stopped.is_set()
    assert wait.stops


async def test_cancelling_lets_go_of_a_thread_whose_result_is_dropped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside, door, said = threading.Event(), threading.Event(), list[str]()

    @tool
    def block(context: ToolContext) -> str:
        inside.set()
        door.wait(60)
        context.progress("too late")
        try:
            asyncio.run(context.ask("why"))
        except ToolFailed as error:
            said.append(str(error))
        return "late"

    threads, context = Threads(most=1, most_adrift=1), Context()
    bound = block.within(threads)
    assert not bound.stops
    call = asyncio.create_task(bound.call({}, context))
    await asyncio.to_thread(inside.wait, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    with pytest.raises(ToolFailed, match="1 earlier calls never came to an end"):
        await bound.call({}, Context())
    door.set()
    while not caplog.records:
        await asyncio.sleep(0.001)
    assert caplog.messages == [
        "tool block ended with a result after its call was given up; that counts no longer",
    ]
    assert (context.told, said) == ([], ["its call was given up"])
    assert await measure.within(threads).call({"city": "Porto"}, Context()) == 5


async def test_so_many_threads_at_once_and_no_more() -> None:
    inside, most, door, lock = 0, 0, threading.Event(), threading.Lock()

    @tool
    def block() -> None:
        nonlocal inside, most
        with lock:
            inside, most = inside + 1, max(most, inside + 1)
            if inside == 2:
                door.set()
        door.wait(60)
        with lock:
            inside -= 1

    bound = block.within(Threads(most=2))
    await asyncio.gather(*(bound.call({}, Context()) for _ in range(6)))
    assert most == 2


async def test_a_function_that_gives_something_to_wait_for_is_waited_for() -> None:
    @tool
    @_passing
    async def later(city: str) -> str:
        return city

    assert not later.stops
    assert await later.call({"city": "Porto"}, Context()) == "Porto"


def _passing(function: Any) -> Any:
    @wraps(function)
    def passed(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return passed


class Library:
    def find(self, title: str) -> str:
        return f"{title} is here"


async def test_a_method_of_an_object_can_be_a_tool() -> None:
    assert await tool(Library().find).call({"title": "Emma"}, Context()) == "Emma is here"


def yielding() -> Iterator[int]:
    yield 3


async def streaming() -> AsyncIterator[int]:
    yield 3


def fine() -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (yielding, {}, "Tool yielding is not declared rightly: it yields"),
        (streaming, {}, "it yields"),
        (Library, {}, "@tool is for functions, not for a type"),
        (lookup, {}, "it is a tool already"),
        (Library.find, {}, "parameter self has no type"),
        (lambda: 3, {}, "say name=…"),
        (fine, {"name": "mcp:x/y"}, "Tool mcp:x/y is not declared rightly: a tool's name is"),
        (fine, {"name": ""}, "a tool's name is"),
        (fine, {"name": "x" * 65}, "a tool's name is"),
        (fine, {"effect": "reed"}, "there is no effect 'reed'. Did you mean read"),
        (fine, {"timeout": 0}, "timeout is a number of seconds above 0, not 0"),
        (fine, {"timeout": "3"}, "timeout is a number"),
        (fine, {"check": fine}, "check is an async function"),
    ],
)
def test_a_wrong_declaration_is_refused(function: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadDefinition) as raised:
        tool(**options)(function)
    assert says in str(raised.value)


def test_the_digest_is_that_of_the_modules_code(tmp_path: Path) -> None:
    def digest(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        space: dict[str, Any] = {"__name__": name}
        exec(compile(text, str(tmp_path / name), "exec"), space)
        made: FunctionTool[Any, Any] = space["f"]
        return made.digest

    first = digest("a.py", "from retinue import tool\n@tool\ndef f(x: int): return x\n")
    assert first == digest("b.py", "from retinue import tool\n# the same\n@tool\ndef f(x: int):\n    return x\n")
    assert first != digest("c.py", "from retinue import tool\n@tool\ndef f(x: int): return -x\n")
    assert digest("typed", "from retinue import tool\n@tool\ndef f(x: int): return -x\n") == ""
