"""What a runner is given: the run, and durable operations on it.

Every operation has a call id. One that is recorded is not done again: its result, or its error, is given as it
was. One that a crash interrupted is decided by its effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any
from weakref import WeakSet

import msgspec

from retinue.core import events as e
from retinue.core.budget import MICROS
from retinue.core.delta import OpenTurn, Progress
from retinue.core.messages import Message
from retinue.core.outcome import Effect, Failure, Outcome, Status, Usage, Waits
from retinue.core.run import Call, Child, RunState, Ticket
from retinue.core.schema import wrong_schema
from retinue.core.thread import ThreadMessage, files_shown, turns
from retinue.engine.alarm import Alarm, time_limit
from retinue.engine.codec import Codec
from retinue.engine.description import Capabilities
from retinue.engine.gate import Gate
from retinue.engine.hub import Hub
from retinue.engine.journal import Journal
from retinue.engine.past import Past, outcome_of, read_outcome, read_state, read_whole
from retinue.engine.prompt import Prompt, branch_of, opened_prompt, prompt_of
from retinue.engine.speech import Speech
from retinue.engine.submit import Request, Submitter
from retinue.errors import (
    ChildFailed,
    NestedStep,
    NotStorable,
    OutcomeUnknown,
    ReplayMismatch,
    RuleBroken,
    RunEnded,
    StepFailed,
    TicketRefused,
    Unwind,
)
from retinue.ids import new_id
from retinue.ports.clock import Clock
from retinue.ports.files import Attachments, Files
from retinue.ports.models import Takes
from retinue.ports.store import Cancel, Reserve, RunRow, Signal, Store, Submit
from retinue.ports.threads import Threads
from retinue.ports.tools import Check

AT_ONCE = 500
SLOWED_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a step may know of itself."""

    run_id: str
    call_id: str
    idempotency_key: str
    try_: int


_current_call: ContextVar[CallContext | None] = ContextVar("retinue_call", default=None)


def current_call() -> CallContext:
    """The step that this code runs in, with its idempotency key."""
    call = _current_call.get()
    if call is None:
        raise LookupError("current_call() is there only inside a step")
    return call


@dataclass(frozen=True, slots=True)
class ChildHandle:
    """A child that runs beside its parent."""

    run_id: str
    call_id: str
    _context: RunContext

    async def outcome(self) -> Outcome:
        """Wait for the child; give how it ended."""
        return await self._context.child_outcome(self.call_id)


class RunContext:
    """One attempt at a run, as its runner sees it."""

    def __init__(
        self,
        *,
        row: RunRow,
        state: RunState,
        past: Past,
        journal: Journal,
        gate: Gate,
        speech: Speech,
        clock: Clock,
        submitter: Submitter,
        store: Store,
        codec: Codec,
        hub: Hub,
        files: Files,
        attachments: Callable[[], Attachments],
        threads: Threads,
        deadline: Callable[[], int | None],
        active_ms: Callable[[], int],
        on_ticket: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        assert state.queued
        self.run, self.state, self.input, self.client_tools = row, state, state.queued.input, state.queued.client_tools
        self.model = state.queued.model
        self.definition: Mapping[str, object] = {}
        self.speech, self.gate, self.clock, self.files, self._attachments = speech, gate, clock, files, attachments
        self.time_is_up = Alarm()
        self.active_ms, self.past = active_ms, past
        self._journal, self._submitter, self._on_ticket = journal, submitter, on_ticket
        self._store, self._codec, self._hub, self._deadline = store, codec, hub, deadline
        self._threads, self._on_broken = threads, on_broken
        self._under_way: set[str] = set()
        self.held = False
        self.detached = False
        """Children that still run when this run ends go on."""
        self.broken: RuleBroken | None = None
        self._went_on: WeakSet[asyncio.Task[object]] = WeakSet()
        self.answer_key: str | None = None
        """Under which the answer of this run may be given again to whoever asks the same."""
        self.lost: Callable[[OpenTurn], Usage | None] = lambda said: None
        """What the answer costs that is being given, if it breaks off now; whoever asks for it knows."""

    # Recording

    async def record(self, *events: e.EventData) -> None:
        """Record events; return when they are on disk."""
        self.note(*events)
        await self._journal.sync()

    async def sync(self) -> None:
        """Return when all that was noted is on disk."""
        await self._journal.sync()

    def note(self, *events: e.EventData, files: Iterable[tuple[str, int]] = (), with_end: bool = False) -> None:
        """Record events soon, in order; `files` are stored files that they refer to, with their sizes. What is the last
        before the run ends goes to disk `with_end`: that saves a commit."""
        self._journal.note(*events, files=files, soon=not with_end)
        if any(isinstance(data, e.ModelResponded | e.TurnInterrupted | e.ModelRetried) for data in events):
            self.speech.close()

    def stream(self, text: str, kind: str = "text") -> None:
        """Let readers see what the open turn says."""
        self.speech.say(kind, text)

    def progress(self, progress: Progress) -> None:
        """Let those who watch here see how far a call is."""
        self._hub.progressed(self.run.root_id, progress)

    # What it is asked

    @cached_property
    def attachments(self) -> Attachments:
        """Opens the files of the branch, each once for this attempt."""
        return self._attachments()  # most runs have none, and it looks at folders

    @property
    def deadline(self) -> int | None:
        """When the run is stopped, by the engine's clock, if it goes on without waiting."""
        return self._deadline()

    async def pass_gate(self, what: str) -> None:
        """Go on, unless the run is held: then its code is left here."""
        while self.held:
            await self.gate.block(what, Waits.PAUSED)
        self.gate.pass_by(what)

    async def history(self) -> list[ThreadMessage]:
        """What was said on the branch before this run's answer, from the beginning on."""
        if self.run.message_id is None:
            return []
        message_id = self.run.message_id
        rows = await self._journal.outlast(lambda _: self._store.branch(message_id))
        return branch_of(rows, self._codec, message_id)[:-1]

    async def branch(self, takes: Takes, *, transcripts: bool = False) -> Prompt:
        """The branch as a model can take it; with `transcripts`, all that earlier runs of this target said and heard
        stands in the place of their answers."""
        history, target = await self.history(), self.run.target
        said = await self._with_transcripts(history, target) if transcripts else turns(history, target)
        prompt = await prompt_of(said, takes, self.attachments)
        self._warn_of(prompt)
        return prompt

    async def _with_transcripts(self, history: Iterable[ThreadMessage], target: str) -> list[Message]:
        said: list[Message] = []
        for message in history:
            whole = await self._transcript(message) if message.participant == target else []
            said += whole or turns([message], target)
        return said

    async def _transcript(self, answer: ThreadMessage) -> list[Message]:
        """What is behind an answer; nothing when its run is gone."""
        if answer.run_id is None or answer.status is not Status.COMPLETED:
            return []
        run_id = answer.run_id
        state = await self._journal.outlast(lambda _: read_whole(self._store, self._codec, run_id))
        return files_shown(state.messages) if state else []

    async def opened(self, prompt: Prompt, takes: Takes) -> Prompt:
        """The same with its files opened; what is lost on the way is a warning in the journal."""
        opened = await opened_prompt(prompt, takes, self.attachments)
        self._warn_of(opened)
        return opened

    def _warn_of(self, prompt: Prompt) -> None:
        self.note(*(data for data in prompt.warnings if (data.code, data.message) not in self.state.warned))

    # Money

    async def reserve(self, usd: float, *, keep: float = 0.0) -> bool:
        """Put money aside for a call. False when the tree's purse has not as much, or would have less than `keep`."""
        if self.run.purse_limit is None:
            return True
        await self.sync()  # what the calls before have cost is known to the purse
        write = Reserve(
            run_id=self.run.id, attempt=self.run.attempt, micros=round(usd * MICROS), keep=round(keep * MICROS)
        )
        return await self._journal.outlast(lambda _: self._store.reserve(write))

    async def money_left(self) -> float | None:
        """What the tree's purse has for this run's next call; None when there is no purse."""
        if self.run.purse_limit is None:
            return None
        await self.sync()
        root = await self._journal.outlast(lambda _: self._store.run(self.run.root_id))
        own = await self._journal.outlast(lambda _: self._store.run(self.run.id))
        assert root
        assert own
        gone = (root.purse_spent or 0) + (root.purse_held or 0) - (own.reserved or 0)
        return (self.run.purse_limit - gone) / MICROS

    # Answers of earlier runs

    async def answered_before(self, answer_key: str, seconds: float) -> Outcome | None:
        """The answer of a run of the same owner that ended under that key within so many seconds. Such a run has
        answered by itself: an answer does not become younger by being given again."""
        store, owner = self._store, self.run.owner
        since = await self._journal.outlast(lambda _: store.now()) - round(seconds * 1000)
        run_id = await self._journal.outlast(lambda _: store.answered(owner, answer_key, since))
        if run_id is None:
            return None
        last = await self._journal.outlast(lambda _: store.last_event(run_id))
        if last is None:
            return None  # pruned in this very moment
        outcome = outcome_of(await self._codec.used(last))
        return Outcome(status=outcome.status, reason=outcome.reason, output=outcome.output, answer_of=run_id)

    # Steps

    async def call(
        self,
        call_id: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...] = (),
        options: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        effect: Effect = Effect.WRITE,
        check: Check | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Call a function once, whatever happens to the process: memoised by call id."""
        with self._rules():
            if outer := _current_call.get():
                raise NestedStep(call_id=call_id, outer=outer.call_id)
            shown = _as_json(arguments, options or {}, f"The arguments of step {call_id}")
            known = self._known(call_id, shown)
            may_decide = check is not None or effect is not Effect.WRITE
            decide_again = known and known.unknown and may_decide and call_id not in self.state.calls
            if known and known.finished and not decide_again:
                self.gate.pass_by(f"step {call_id}")
                return _replay(known)
            if call_id in self._under_way:
                raise RuleBroken(problem=f"Two steps named {call_id} run at once: give each its own key=.")
        async with self.entered(call_id):
            key = known.key if known and known.key else self.key_of(call_id)
            if known and effect is Effect.WRITE and not await self._may_call_again(call_id, name, known, shown, check):
                return _replay(self.state.calls[call_id])
            before = self.state.calls.get(call_id)
            try_ = before.try_ + 1 if before else 1
            self._journal.note(
                e.ToolStarted(call_id=call_id, tool=name or call_id, arguments=shown, effect=effect, key=key, try_=try_)
            )
            if effect is Effect.WRITE:
                await self._journal.sync()
            context = CallContext(run_id=self.run.id, call_id=call_id, idempotency_key=key, try_=try_)
            finished = await self._perform(context, function, arguments, options or {}, timeout)
            self._journal.note(finished)
        return _replay(self.state.calls[call_id])

    def _known(self, call_id: str, arguments: object) -> Call | None:
        """What is recorded of the call, here or (a success, or an unknown outcome) in the past."""
        known = self.state.calls.get(call_id)
        if known is None:
            known = self.past.call(call_id)
            if known and known.finished and not known.ok and not known.unknown:
                return None  # it failed: this is the retry
        if known and known.arguments != arguments:
            raise ReplayMismatch(call_id=call_id, recorded=_short(known.arguments), called=_short(arguments))
        return known

    async def _may_call_again(
        self, call_id: str, name: str, known: Call, arguments: object, check: Check | None
    ) -> bool:
        """Whether a call that was interrupted is to be made (again). If not, its result is recorded."""
        if known.effect is not Effect.WRITE:
            return True
        finished = await decide_interrupted(call_id, known.key, check)
        if finished is None:
            return True
        if call_id not in self.state.calls:  # it was interrupted in the past: this run has it in its journal too
            started = e.ToolStarted(
                call_id=call_id, tool=name or call_id, arguments=arguments, effect=known.effect, key=known.key
            )
            self._journal.note(started)
        self._journal.note(finished)
        return False

    async def _perform(
        self,
        context: CallContext,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        timeout: float | None,
    ) -> e.ToolFinished:
        token = _current_call.set(context)
        try:
            with time_limit(self.clock, timeout):
                result = await self._invoke(f"step {context.call_id}", function, arguments, options)
        except RuleBroken as error:
            self.breaks(error)
            raise
        except BaseException as error:  # code that calls sys.exit(), or the like, must not take the worker along
            if _goes_on(error):
                raise
            failure = failure_of(error)
            if isinstance(error, TimeoutError) and timeout is not None:
                failure = Failure(kind=failure.kind, message=f"gave no result within {timeout} s")
            return e.ToolFinished(call_id=context.call_id, ok=False, error=failure)
        finally:
            _current_call.reset(token)
        return _finished(context.call_id, result)

    async def _invoke(
        self, what: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
    ) -> Any:
        """Async functions here; others in a thread, so that they do not hold up the loop."""
        if inspect.iscoroutinefunction(function):
            return await function(*arguments, **options)
        result = await self._threads.run(what, partial(function, *arguments, **options))
        return await result if inspect.isawaitable(result) else result

    def key_of(self, call_id: str) -> str:
        """The same for every try of the same call of the same run."""
        return hashlib.sha256(f"{self.run.id}/{call_id}".encode()).hexdigest()[:32]

    # Time

    async def sleep(self, call_id: str, seconds: float) -> None:
        """Wait for a time, counted from when it was first recorded; parked, it costs nothing."""
        with self._rules():
            self.gate.pass_by(call_id)
        past = self.past.call(call_id)
        if past and past.finished:
            return
        async with self.entered(call_id):
            if call_id not in self.state.calls:
                arguments = {"until": self.clock.now_ms() + int(seconds * 1000)}
                self._journal.note(
                    e.ToolStarted(call_id=call_id, tool="sleep", arguments=arguments, effect=Effect.READ)
                )
        call = self.state.calls[call_id]
        if not call.finished:
            assert isinstance(call.arguments, dict)
            until = call.arguments["until"]
            timer = self.clock.call_later(max(0, until - self.clock.now_ms()) / 1000, self.gate.stir)
            try:
                while self.clock.now_ms() < until:
                    await self.gate.block(call_id, Waits.TIMER, until)
            finally:
                timer.cancel()
            if not call.finished:
                self._journal.note(_finished(call_id, None))

    # People

    async def ask(
        self,
        call_id: str,
        *,
        kind: Waits = Waits.INPUT,
        title: str = "",
        schema: dict[str, object] | None = None,
        expires_in: float | None = None,
    ) -> object:
        """Open a ticket, wait until it is closed, give the answer."""
        with self._rules():
            self.gate.pass_by(call_id)
        ticket = self.state.ticket_of_call.get(call_id) or self.past.ticket(call_id)
        if ticket is None:
            if schema and (wrong := wrong_schema(schema)):
                raise self.breaks(RuleBroken(problem=f"The schema of {call_id} is no JSON schema: {wrong}"))
            async with self.entered(call_id):
                await self.open_tickets(self.ticket(call_id, kind, title, schema=schema, expires_in=expires_in))
        return _answer(call_id, await self.decided(call_id))

    def ticket(
        self,
        call_id: str,
        kind: Waits,
        title: str,
        *,
        tool: str = "",
        schema: dict[str, object] | None = None,
        arguments: object = None,
        expires_in: float | None = None,
    ) -> e.TicketOpened:
        """Something to ask people, which expires after so many seconds."""
        return e.TicketOpened(
            ticket_id=new_id("tkt"),
            kind=kind,
            call_id=call_id,
            title=title,
            tool=tool,
            schema=schema,
            arguments=arguments,
            expires_at=None if expires_in is None else self.clock.now_ms() + int(expires_in * 1000),
        )

    async def open_tickets(self, *opened: e.TicketOpened) -> None:
        """Ask people, all at once."""
        self._journal.note(*opened)
        self._on_ticket()
        await self._journal.sync()

    async def decided(self, call_id: str) -> Ticket:
        """The ticket of a call, once somebody has decided it or its time is over."""
        ticket = self.state.ticket_of_call.get(call_id) or self.past.ticket(call_id)
        assert ticket, "a ticket is opened before it is waited for"
        while ticket.decision is None:
            await self.gate.block(call_id, ticket.kind)
        return ticket

    # Children

    async def start_child(self, call_id: str, request: Request, *, background: bool = False) -> ChildHandle:
        """Start a child run, once."""
        with self._rules():
            self.gate.pass_by(call_id)
        child = self.child_of(call_id)
        if child is None:
            async with self.entered(call_id):
                await self.start_children([(call_id, request)], background=background)
            child = self.state.children[call_id]
        elif child.target != request.target:
            raise self.breaks(ReplayMismatch(call_id=call_id, recorded=child.target, called=request.target))
        return ChildHandle(child.run_id, call_id, self)

    def child_of(self, call_id: str) -> Child | None:
        """The child of a call: this run's, or one of the past that completed and is used as it is."""
        child = self.state.children.get(call_id)
        before = None if child else self.past.child(call_id)
        return before if before and before.status is Status.COMPLETED else child

    async def start_children(
        self,
        requests: Sequence[tuple[str, Request]],
        *,
        background: bool = False,
        fresh: bool = False,
        of: Mapping[str, int] | None = None,
    ) -> None:
        """Start children that there are not yet, all in one commit. Those that failed in the past go on where they
        failed, unless they are to be `fresh`. `of` says by call of how many items each is one.

        Raises what is wrong with a request before any is started."""
        started, submits = list[e.EventData](), list[Submit]()
        for call_id, request in requests:
            before = None if fresh else self.past.child(call_id)
            if before and before.target == request.target:
                request = replace(request, source_run_id=before.run_id)
            if request.policy is None and self.state.queued:
                request = replace(request, policy=self.state.queued.policy)
            submit = self._submitter.prepare_child(request, self.run, call_id)
            submits.append(submit)
            started.append(
                e.ChildStarted(
                    call_id=call_id,
                    run_id=submit.run.id,
                    target=submit.run.target,
                    background=background,
                    of=(of or {}).get(call_id),
                    continues=request.source_run_id if request.continues else None,
                )
            )
        if started:
            await self._journal.record(*started, children=tuple(submits))

    async def cancel_child(self, call_id: str, message: str) -> None:
        """Ask a child to stop, and all below it. It has stopped when its end is in the journal."""
        child = self.state.open_children.get(call_id)
        if child is None:
            return
        data = e.encode_json({"message": message, "by": ""}, "The message").decode()
        write = Cancel(run_id=child.run_id, data=data)

        async def tell(again: bool) -> None:
            with contextlib.suppress(RunEnded):  # its end is on the way
                await self._store.cancel(write)

        await self._journal.outlast(tell)

    async def steer_child(self, run_id: str, text: str, key: str) -> None:
        """Give a child a hint, for its next turn; once for each key."""
        data = e.encode_json({"text": text, "by": self.run.target, "key": key}, "The hint").decode()
        await self._store.signal(Signal(run_id=run_id, kind="steer", data=data))

    def capabilities_of(self, target: str) -> Capabilities:
        return self._submitter.capabilities_of(target)

    async def alive(self) -> int:
        """How many runs of the tree have not ended."""
        return await self._journal.outlast(lambda _: self._store.alive(self.run.root_id))

    async def last_seq(self, run_id: str) -> int:
        row = await self._journal.outlast(lambda _: self._store.run(run_id))
        return row.last_seq if row else 0

    async def said_by(self, run_id: str) -> str:
        """What a child that runs has said so far."""
        turn = await self._journal.outlast(lambda _: self._store.open_turn(run_id))
        if turn and (text := turn.text()):
            return text
        return (await self._journal.outlast(lambda _: read_state(self._store, self._codec, run_id))).said

    async def outcomes(self, run_ids: Sequence[str]) -> dict[str, Outcome]:
        """How runs ended, read together."""
        found: dict[str, Outcome] = {}
        for start in range(0, len(run_ids), AT_ONCE):
            found |= await self._outcomes(run_ids[start : start + AT_ONCE])
        return found

    async def _outcomes(self, run_ids: Sequence[str]) -> dict[str, Outcome]:
        rows = await self._journal.outlast(lambda _: self._store.events_of(run_ids, [e.RunFinished.type]))
        return {row.run_id: outcome_of(await self._codec.used(row)) for row in rows}

    async def child_outcome(self, call_id: str) -> Outcome:
        """Wait for a child; give how it ended."""
        await self.breathe()
        child = await self._child_end(call_id)
        return await self._journal.outlast(lambda _: read_outcome(self._store, self._codec, child.run_id))

    async def _child_end(self, call_id: str) -> Child:
        """Wait until a child has ended: a foreground one in memory for a while, then parked."""
        child = self.state.children.get(call_id) or self.past.child(call_id)
        assert child
        while not child.status.terminal:
            await self.gate.block(call_id, Waits.CHILDREN, in_memory=not child.background)
        self.gate.pass_by(call_id)
        return child

    async def child(self, call_id: str, request: Request) -> object:
        """Run a child and give its output."""
        handle = await self.start_child(call_id, request)
        outcome = await handle.outcome()
        if outcome.status is not Status.COMPLETED:
            raise ChildFailed(
                call_id=call_id,
                run_id=handle.run_id,
                status=outcome.status,
                reason=outcome.reason,
                message=outcome.error.message if outcome.error else "",
            )
        return outcome.output

    async def children_end(self) -> None:
        """Wait for all children that still run."""
        for call_id in list(self.state.open_children):
            await self._child_end(call_id)

    # The rules of durable code

    def breaks(self, error: RuleBroken) -> RuleBroken:
        """A broken rule ends the run, also when the code catches the error."""
        self.broken = self.broken or error
        self._on_broken()
        return error

    @contextlib.contextmanager
    def _rules(self) -> Iterator[None]:
        try:
            yield
        except RuleBroken as error:
            self.breaks(error)
            raise

    async def breathe(self) -> None:
        """What code calls first. Nothing that it calls gives it anything any more once it has been left or has broken a
        rule: code that catches that and tries again, for ever, must not hold up all other runs."""
        if not (self.broken or self.gate.leaving or self._journal.error):
            return
        task = asyncio.current_task()
        assert task
        if task in self._went_on:
            await self.clock.sleep(SLOWED_SECONDS)
        else:
            self._went_on.add(task)
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def entered(self, call_id: str) -> Any:
        """While an operation is under way nothing parks. One that begins while the run is held waits first."""
        while self.held:
            await self.gate.block(call_id, Waits.PAUSED)
        self.gate.enter(call_id)
        self._under_way.add(call_id)
        try:
            yield
        finally:
            self._under_way.discard(call_id)
            self.gate.leave()


def _as_json(arguments: tuple[Any, ...], options: Mapping[str, Any], what: str) -> object:
    """What a call is given, as JSON would hold it: so that a replay can be compared with the record."""
    given: object = {"args": arguments, **options} if options else list(arguments)
    try:
        return msgspec.json.decode(e.encode_json(given, what))
    except NotStorable as error:
        raise RuleBroken(problem=str(error)) from None


def _finished(call_id: str, result: object, *, checked: bool = False) -> e.ToolFinished:
    try:
        stored = msgspec.json.decode(e.encode_json(result, f"The result of step {call_id}"))
    except NotStorable as error:
        return e.ToolFinished(call_id=call_id, ok=False, error=Failure(kind="NotStorable", message=str(error)))
    return e.ToolFinished(call_id=call_id, ok=True, result=stored, checked=checked)


async def decide_interrupted(call_id: str, key: str, check: Check | None) -> e.ToolFinished | None:
    """What became of an interrupted write: its check says; without one nobody can tell. None: it did not happen."""
    if check is None:
        return _unknown(call_id, "interrupted, and nobody can tell whether it took effect")
    try:
        done = await check(key)
    except Exception as error:
        return _unknown(call_id, f"interrupted, and its check failed: {failure_of(error).message}")
    return _finished(call_id, done.result, checked=True) if done else None


def _goes_on(error: BaseException) -> bool:
    """Whether it is more than the error of one call: who calls is stopped."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0  # else something was cancelled that the call waited for
    return isinstance(error, Unwind | KeyboardInterrupt | GeneratorExit)


def failure_of(error: BaseException) -> Failure:
    """What an error of somebody's code says, in words that can be stored."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:
        message = "its message cannot be shown"
    return Failure(kind=kind, message=message.encode(errors="backslashreplace").decode() or kind)


def _unknown(call_id: str, why: str) -> e.ToolFinished:
    return e.ToolFinished(call_id=call_id, ok=False, unknown=True, error=Failure(kind="unknown", message=why))


def _replay(call: Call) -> Any:
    """What a recorded call gave: its result, or its error again."""
    if call.ok:
        return call.result
    if call.unknown:
        raise OutcomeUnknown(call_id=call.call_id, key=call.key)
    error = call.error or Failure(kind="error", message="")
    raise StepFailed(call_id=call.call_id, kind=error.kind, message=error.message)


def _answer(call_id: str, ticket: Ticket) -> object:
    if ticket.decision in ("answered", "approved"):
        return ticket.value
    raise TicketRefused(call_id=call_id, ticket_id=ticket.ticket_id, decision=ticket.decision)


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
