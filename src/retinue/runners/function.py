"""Durable functions: `async def f(ctx, input)`, replayed from the top, each step done once."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from retinue.core.outcome import Durability, Effect, Outcome, Reason, Status
from retinue.core.target import Target
from retinue.engine.context import ChildHandle, RunContext, failure_of
from retinue.engine.description import Capabilities, Description
from retinue.engine.submit import Request, durability_of
from retinue.errors import BadInput, BadTarget, RuleBroken, UnknownTarget
from retinue.ports.tools import Check

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
OPTIONS = "__retinue__"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """What a durable function declares of itself."""

    version: str | None = None
    on_change: str = "fail"
    max_minutes: float | None = None
    durability: Durability | None = None


def durable(
    *,
    version: str | None = None,
    on_change: str = "fail",
    max_minutes: float | None = None,
    durability: str | None = None,
) -> Callable[[F], F]:
    """Declare what happens when the function's code changes under a run, and how long it may be active.

    `version` stands for the code instead of its digest; `on_change` is `fail`, `finish` (with the new code)
    or `wait` (for a worker that has the old code).
    """
    if on_change not in ("fail", "finish", "wait"):
        raise BadInput(problem=f"on_change is fail, finish or wait, not {on_change!r}.")
    demanded = durability_of(durability)
    options = FunctionOptions(version=version, on_change=on_change, max_minutes=max_minutes, durability=demanded)

    def declare(function: F) -> F:
        setattr(function, OPTIONS, options)
        return function

    return declare


class FunctionContext:
    """What a durable function is given as `ctx`."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._count: Counter[str] = Counter()
        self._under_way: set[str] = set()
        self.run_id = context.run.id
        self.owner = context.run.owner

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *arguments: Any,
        effect: str = "write",
        key: str | None = None,
        check: Check | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Do something once and remember its result.

        `effect` says what a repetition would do: `read` and `idempotent` steps are repeated after a crash, a `write`
        is not: its `check` (given the idempotency key; gives `Done(result)`, or None when it did not happen)
        decides, and without one `OutcomeUnknown` is raised. Parallel steps of one name need `key`.
        """
        await self._context.breathe()
        if effect not in set(Effect):
            raise self._broken(f"Step {name}: effect is read, idempotent or write, not {effect!r}.")
        with self._alone(name, key):
            return await self._context.call(
                self._call_id(name, key),
                function,
                arguments,
                options,
                name=name,
                effect=Effect(effect),
                check=check,
                timeout=timeout,
            )

    async def sleep(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Wait for a time. The run is parked: it costs nothing meanwhile, and a restart does not matter."""
        await self._context.breathe()
        total = seconds + 60 * minutes + 3600 * hours + 86400 * days
        if total < 0:
            raise self._broken(f"ctx.sleep cannot wait for {total} seconds.")
        await self._context.sleep(self._call_id("sleep", None), total)

    async def wait(
        self,
        name: str,
        schema: dict[str, object] | None = None,
        *,
        key: str | None = None,
        title: str = "",
        expires_in: float | None = None,
    ) -> Any:
        """Ask a person: open an `input` ticket, park, give the answer. Refused or expired, it raises TicketRefused."""
        await self._context.breathe()
        return await self._context.ask(
            self._call_id(name, key), title=title or name, schema=schema, expires_in=expires_in
        )

    async def child(
        self, target: str | Callable[..., Any], input: Any = None, *, key: str | None = None, priority: int = 0
    ) -> Any:
        """Run something else as a child and give its output; ChildFailed when it does not complete."""
        await self._context.breathe()
        request = Request(target=target_of(target), input=input, priority=priority)
        return await self._context.child(self._call_id(f"child:{request.target}", key), request)

    async def start(
        self, target: str | Callable[..., Any], input: Any = None, *, key: str | None = None, priority: int = 0
    ) -> ChildHandle:
        """Start a child that runs beside this function. The run ends only when its children have ended."""
        await self._context.breathe()
        request = Request(target=target_of(target), input=input, priority=priority)
        return await self._context.start_child(self._call_id(f"child:{request.target}", key), request, background=True)

    def _call_id(self, name: str, key: str | None) -> str:
        """A call is known by its name and occurrence, or by its key."""
        if not name or "#" in name:
            raise self._broken(f"{name!r} is no name for a step: it must not be empty or contain '#'.")
        if key is not None:
            return f"{name}#[{key}]"  # not to be taken for an occurrence
        self._count[name] += 1
        occurrence = self._count[name]
        return name if occurrence == 1 else f"{name}#{occurrence}"

    @contextmanager
    def _alone(self, name: str, key: str | None) -> Iterator[None]:
        """Which of several parallel steps is which must not depend on how fast they are."""
        if key is not None:
            yield
            return
        if name in self._under_way:
            raise self._broken(f"Two steps named {name} run at once: give each its own key=.")
        self._under_way.add(name)
        try:
            yield
        finally:
            self._under_way.discard(name)

    def _broken(self, problem: str) -> RuleBroken:
        return self._context.breaks(RuleBroken(problem=problem))


class FunctionRunner:
    """Runs `function:MODULE:NAME`."""

    platform = "function"
    capabilities = Capabilities(durability=Durability.EFFECTS, tickets=True)

    def __init__(self) -> None:
        self._loaded: dict[str, tuple[Callable[..., Awaitable[Any]], Description]] = {}

    def describe(self, target: Target) -> Description:
        return self._load(target)[1]

    def _load(self, target: Target) -> tuple[Callable[..., Awaitable[Any]], Description]:
        if target.name not in self._loaded:
            function = load(target)
            self._loaded[target.name] = function, self._describe(target, function)
        return self._loaded[target.name]

    def _describe(self, target: Target, function: object) -> Description:
        options = options_of(function)
        module = target.name.partition(":")[0]
        code = options.version or code_digest(module)
        requires = {"platform": "function", "function": target.name}
        if options.on_change == "wait":
            requires["code"] = code
        return Description(
            definition={"function": target.name, "code": code, "on_change": options.on_change},
            requires=requires,
            code=code,
            max_minutes=options.max_minutes,
            on_change=options.on_change,
            durability=options.durability,
        )

    def can_load(self, requires: Mapping[str, object]) -> bool:
        try:
            described = self.describe(Target("function", str(requires.get("function"))))
        except BadInput:
            return False
        return described.requires == requires

    async def run(self, ctx: RunContext) -> Outcome:
        function, _ = self._load(Target.parse(ctx.run.target))
        try:
            output = await function(FunctionContext(ctx), ctx.input)
        except (Exception, SystemExit) as error:
            return Outcome(status=Status.FAILED, reason=Reason.TOOL_ERROR, error=failure_of(error))
        await ctx.children_end()
        return Outcome.completed(output)

    async def cancel(self, ctx: RunContext) -> None:
        """A function has nothing elsewhere."""


def target_of(target: str | Callable[..., Any]) -> str:
    """A target's name, also from the function itself."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__qualname__", "")
    if not name or "<" in name:
        raise BadTarget(target=repr(target), problem="a durable function is defined at the top of a module.")
    return f"function:{target.__module__}:{name}"


def load(target: Target) -> Callable[..., Awaitable[Any]]:
    """Find the function that a target names."""
    module_name, _, name = target.name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownTarget(
            target=target, problem=f"there is no module {error.name}. Is its folder on the path?"
        ) from None
    except (Exception, SystemExit) as error:
        raise BadTarget(
            target=target, problem=f"importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            near = ", ".join(
                sorted(n for n, f in vars(sys.modules[module_name]).items() if inspect.iscoroutinefunction(f))
            )
            raise UnknownTarget(
                target=target, problem=f"{module_name} has no {name}. It has: {near or 'no async function'}."
            )
    if not inspect.iscoroutinefunction(found):
        raise BadTarget(target=target, problem="it is not an async function. Write it as `async def f(ctx, input)`.")
    try:
        inspect.signature(found).bind(None, None)
    except TypeError:
        raise BadTarget(target=target, problem="it must take two arguments: `async def f(ctx, input)`.") from None
    return found  # type: ignore[no-any-return]


def options_of(function: object) -> FunctionOptions:
    options = getattr(function, OPTIONS, None)
    return options if isinstance(options, FunctionOptions) else FunctionOptions()


def code_digest(module_name: str) -> str:
    """The digest of a module's syntax tree: comments and layout do not matter."""
    path = getattr(sys.modules.get(module_name), "__file__", None)
    if not path or not path.endswith(".py"):
        return ""
    return _digest_of(path)


@cache
def _digest_of(path: str) -> str:
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:32]
