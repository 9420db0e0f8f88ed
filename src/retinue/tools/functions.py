"""`@tool`: a Python function that an agent can call."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

from retinue.core.outcome import Effect
from retinue.core.spelling import did_you_mean
from retinue.core.tool import PROJECT
from retinue.errors import BadDefinition
from retinue.ports.code import digest_of
from retinue.ports.models import ToolSpec
from retinue.ports.threads import Threads, ended_itself
from retinue.ports.tools import Check, ToolContext
from retinue.tools.docstring import read_docstring
from retinue.tools.results import result_of
from retinue.tools.signature import Signature
from retinue.tools.threads import ThreadContext

P = ParamSpec("P")
R = TypeVar("R")
Kind = Literal["write", "read", "idempotent"]
_name = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class FunctionTool(Generic[P, R]):
    """A function and what is declared of it. Called like the function, it is the function."""

    origin = PROJECT
    __name__: str

    def __init__(
        self,
        function: Callable[P, R],
        *,
        spec: ToolSpec,
        signature: Signature,
        effect: Effect = Effect.WRITE,
        timeout: float | None = None,
        check: Check | None = None,
        digest: str = "",
        threads: Threads | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.spec = spec
        self.effect = effect
        self.timeout = timeout
        self.check = check
        self.digest = digest
        self.stops = inspect.iscoroutinefunction(function)
        self._signature = signature
        self._threads = threads

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def name(self) -> str:
        return self.spec.name

    def within(self, threads: Threads) -> FunctionTool[P, R]:
        """The same tool; if it blocks, it does so among these threads."""
        return FunctionTool(
            self.function,
            spec=self.spec,
            signature=self._signature,
            effect=self.effect,
            timeout=self.timeout,
            check=self.check,
            digest=self.digest,
            threads=threads,
        )

    async def call(self, arguments: Mapping[str, object], context: ToolContext) -> object:
        given = self._signature.read(arguments)
        result = await (self._call_here(given, context) if self.stops else self._call_in_thread(given, context))
        return result_of(self.name, result)

    async def _call_here(self, given: dict[str, Any], context: ToolContext) -> object:
        function: Callable[..., Any] = self.function
        try:
            return await function(**given, **self._context(context))
        except SystemExit as error:  # it would end the process
            raise ended_itself(error) from None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise ended_itself(error) from None  # nobody else cancelled it

    async def _call_in_thread(self, given: dict[str, Any], context: ToolContext) -> object:
        function: Callable[..., Any] = self.function
        inside = ThreadContext(context)
        threads = self._threads or Threads()
        try:
            result = await threads.run(f"tool {self.name}", partial(function, **given, **self._context(inside)))
        finally:
            inside.over = True
        return await result if inspect.isawaitable(result) else result

    def _context(self, context: ToolContext) -> dict[str, ToolContext]:
        return {self._signature.context: context} if self._signature.context else {}


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    effect: Kind | Effect = "write",
    timeout: float | None = None,
    check: Check | None = None,
    version: str | None = None,
    description: str | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    effect: Kind | Effect = "write",
    timeout: float | None = None,
    check: Check | None = None,
    version: str | None = None,
    description: str | None = None,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a function a tool. Its parameters' types become the schema, its docstring the description.

    `effect` says what calling it again would do: `write` (the default) is never repeated on a guess, `read` and
    `idempotent` are after a crash. `check` asks the outside world, by idempotency key, whether an interrupted
    write took effect. `timeout` is in seconds. `version` stands for the code instead of its digest.
    """

    def declare(function: Callable[P, R]) -> FunctionTool[P, R]:
        called = name if name is not None else getattr(function, "__name__", "")
        what = f"Tool {called}".rstrip()
        _check_function(what, function)
        if not _name.fullmatch(called):
            raise BadDefinition(what=what, problem="a tool's name is 1 to 64 letters, digits and _ . -: say name=…")
        said = read_docstring(function.__doc__)
        signature = Signature(what, function, said.parameters)
        text = said.text if description is None else description
        return FunctionTool(
            function,
            spec=ToolSpec(name=called, description=text, schema=signature.schema),
            signature=signature,
            effect=_effect(what, effect),
            timeout=_timeout(what, timeout),
            check=_check(what, check),
            digest=version or _code_digest(function),
        )

    return declare if function is None else declare(function)


def _check_function(what: str, function: object) -> None:
    if isinstance(function, FunctionTool):
        raise BadDefinition(what=what, problem="it is a tool already.")
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise BadDefinition(what=what, problem=f"@tool is for functions, not for a {type(function).__name__}.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadDefinition(what=what, problem="it yields: a tool returns one result.")


def _effect(what: str, effect: str) -> Effect:
    try:
        return Effect(effect)
    except ValueError:
        problem = f"there is no effect {effect!r}. {did_you_mean(str(effect), Effect)}"
        raise BadDefinition(what=what, problem=problem) from None


def _timeout(what: str, timeout: object) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise BadDefinition(what=what, problem=f"timeout is a number of seconds above 0, not {timeout!r}.")
    return float(timeout)


def _check(what: str, check: Check | None) -> Check | None:
    if check is not None and not inspect.iscoroutinefunction(check):
        raise BadDefinition(what=what, problem="check is an async function that is given the idempotency key.")
    return check


def _code_digest(function: Callable[..., Any]) -> str:
    """Of the module that the function is written in; nothing for what was typed in by hand."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename) if code else None
    return digest_of(str(path)) if path and path.suffix == ".py" and path.is_file() else ""
