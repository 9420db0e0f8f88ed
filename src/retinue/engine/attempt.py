"""One claim of a run: from its journal to its next rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from retinue.core import events as e
from retinue.core.digest import digest_of
from retinue.core.outcome import Failure, Outcome, Reason, Status, Waits
from retinue.core.run import RunState, closing, fold, interruption
from retinue.core.target import Target
from retinue.core.thread import answer_parts
from retinue.engine.codec import Codec
from retinue.engine.context import RunContext, failure_of
from retinue.engine.gate import Gate
from retinue.engine.hub import Hub
from retinue.engine.journal import Journal
from retinue.engine.past import Past, read_past, read_state
from retinue.engine.runner import EVENTS, Runner, Runners
from retinue.engine.speech import Speech
from retinue.engine.submit import Submitter
from retinue.errors import (
    BadInput,
    ChildRefused,
    Fenced,
    FileMissing,
    IllegalEvent,
    Lost,
    NewerEvent,
    Parked,
    ParkedSwallowed,
    Released,
    RuleBroken,
    RunError,
    StoreError,
    UnknownRun,
    Unwind,
)
from retinue.ports.clock import Clock, Timer
from retinue.ports.files import Attachments, Files
from retinue.ports.store import Append, Claimed, LetGo, SignalRow, Store
from retinue.ports.threads import Threads
from retinue.ports.tools import Workspaces

log = logging.getLogger("retinue")

MOST_CRASHES = 3
CHILDREN_IN_MEMORY = 30.0
GRACE_SECONDS = 5.0
LEAVING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Services:
    """What every attempt in a process shares."""

    store: Store
    hub: Hub
    codec: Codec
    clock: Clock
    runners: Runners
    submitter: Submitter
    files: Files
    attachments: Callable[[], Attachments]
    workspaces: Workspaces
    threads: Threads = field(default_factory=Threads)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the code is stopped from outside."""

    outcome: Outcome


class Attempt:
    """Holds a run until it ends, parks, is let go or is lost. `slot` is told when the run gives its slot back and
    takes it again."""

    def __init__(
        self, services: Services, claimed: Claimed, slot: Callable[[int], None], *, only_to_end: bool = False
    ) -> None:
        self._services, self._claimed, self._slot, self._only_to_end = services, claimed, slot, only_to_end
        self.row = claimed.row
        self.rest = "lost"
        self._has_slot = True
        self._signals_seen = self._seen_by_code = 0
        self._woken = asyncio.Event()
        self._stop: Stop | None = None
        self._code_stopped = self._overdue = False
        self._look_at_children = False
        self._releasing = False
        self._paused = False
        self._task: asyncio.Task[Outcome] | None = None
        self._timers: dict[str, Timer] = {}
        self._works = self._keeps_time = False
        self._active_before = 0
        self._active_since: int | None = None

    async def execute(self) -> None:
        """Run it to its next rest. Whatever happens, nothing but cancellation comes out."""
        hub, run_id = self._services.hub, self.row.id
        hub.live(run_id, self)
        try:
            await self._go()
        except Lost:
            await self._lost()
        except StoreError as error:
            log.warning("run %s, attempt %s: dropped: %s", run_id, self.row.attempt, error)
        finally:
            hub.rest(run_id, self)
            for name in list(self._timers):
                self._drop_timer(name)
            self._come_apart()

    def _come_apart(self) -> None:
        """Its parts know it and each other. Apart they are freed at once, and not by a collection that looks at
        everything else in the process too."""
        self._task = None
        self.__dict__.pop("_context", None)
        gate: Gate | None = self.__dict__.pop("_gate", None)
        if gate and gate.leaving:
            gate.leaving.__traceback__ = None  # its frames hold all of it

    async def _lost(self) -> None:
        error = self._journal.error
        if isinstance(error, ChildRefused):
            await self._let_go()  # it was cancelled meanwhile: whoever claims it next ends it
        log.info("run %s, attempt %s: dropped: %s", self.row.id, self.row.attempt, error)

    def release(self) -> None:
        """Leave the run at the next safe point, for another worker."""
        self._releasing = True
        self._woken.set()

    def lost(self) -> None:
        """The database says that somebody else has the run."""
        if self._task:  # before that, its first write will be refused
            self._journal.lose(Fenced(run_id=self.row.id, attempt=self.row.attempt))

    def signalled(self) -> None:
        self._woken.set()

    def child_parked(self) -> None:
        self._look_at_children = True
        self._woken.set()

    def has_seen(self, signal: int) -> bool:
        return self._signals_seen >= signal

    # The whole

    async def _go(self) -> None:
        try:
            past = await self._read_past()
            state = await self._read(past)
        except (FileMissing, IllegalEvent, UnknownRun, msgspec.ValidationError) as error:
            await self._give_up(error)
            return
        except NewerEvent as error:
            await self._leave_to_newer(error)
            return
        if state.attempt > self.row.attempt or state.terminal:
            return  # somebody else has claimed it since
        self._journal = Journal(self._services.store, self._services.codec, self._services.clock, self.row, state)
        self._journal.on_error = self._woken.set
        self._state = state
        self._signals_seen, self._active_before = state.signals_seen, state.active_ms
        speech = self._speech = Speech(self._services.store, self._services.hub, self._services.clock, self.row)
        self._gate = Gate(self._idle, self._busy, self._leave)
        self._context = RunContext(
            row=self.row,
            state=state,
            past=past,
            journal=self._journal,
            gate=self._gate,
            speech=speech,
            clock=self._services.clock,
            submitter=self._services.submitter,
            store=self._services.store,
            codec=self._services.codec,
            hub=self._services.hub,
            files=self._services.files,
            attachments=self._services.attachments,
            threads=self._services.threads,
            deadline=self._deadline,
            active_ms=self._active_ms,
            on_ticket=self._tick,
            on_broken=self._let_end,
        )
        abandon = False
        try:
            await self._remember_pause()
            if self.row.signal_seq > self._signals_seen:
                await self._take_signals()
            await self._until_rest(state)
        except asyncio.CancelledError:
            abandon = True
            raise
        finally:
            await speech.end(abandon=abandon)
            await self._journal.close(abandon=abandon)

    async def _read(self, past: Past) -> RunState:
        before = past.states[0] if past.states and self._continues() else None
        if self._claimed.events is None:
            return await read_state(self._services.store, self._services.codec, self.row.id, past=before)
        return fold(self.row.id, [await self._services.codec.used(event) for event in self._claimed.events], before)

    async def _read_past(self) -> Past:
        if self.row.source_run_id is None:
            return Past(())
        return await read_past(self._services.store, self._services.codec, self.row, continued=self._continues())

    def _continues(self) -> bool:
        """Whether its platform goes on from what another run had said and heard."""
        try:
            return self._services.runners.of(Target.parse(self.row.target)).capabilities.continues
        except BadInput:  # nobody here can run it; it may be claimed to be ended
            return False

    async def _give_up(self, error: Exception) -> None:
        """End a run whose journal cannot be read: nobody else could read it either."""
        row = await self._services.store.run(self.row.id)
        if row is None or row.attempt != self.row.attempt:
            return
        outcome = Outcome.failed(Reason.INTERNAL, type(error).__name__, f"its journal cannot be read: {error}")
        finished = e.RunFinished(status=outcome.status, reason=outcome.reason, error=outcome.error)
        draft = self._services.codec.encode(finished)
        await self._services.store.append(
            Append(run_id=row.id, attempt=row.attempt, last_seq=row.last_seq, drafts=(draft,), cancel_children=True)
        )

    async def _leave_to_newer(self, error: NewerEvent) -> None:
        """A newer release has worked on it too: from now on it is for who knows that event."""
        log.warning("run %s is left to a newer release: %s", self.row.id, error)
        stored, worker_id = await self._services.store.requirement(self.row.requires), self.row.worker_id
        assert worker_id
        wants: dict[str, object] = msgspec.json.decode(stored) if stored else {}
        wants[EVENTS] = sorted({*msgspec.convert(wants.get(EVENTS, ()), tuple[str, ...]), error.type})
        await self._services.store.let_go(
            LetGo(
                worker_id=worker_id,
                run_ids=(self.row.id,),
                requires=digest_of(wants),
                requirement=msgspec.json.encode(wants).decode(),
            )
        )
        self.rest = "let go"

    async def _until_rest(self, state: RunState) -> None:
        assert state.queued
        if refused := self._refusal():
            await self._finish(refused)
            return
        if self._only_to_end:  # whoever wanted it ended was wrong about it, or about the time
            await self._let_go()
            return
        await self._close_broken_turn(state)
        try:
            runner = self._runner(state)
        except BadInput as error:
            await self._finish(_failed(Reason.INVALID, error))
            return
        if changed := await self._changed_code(state, runner):
            await self._finish(changed)
            return
        if answer := await self._given_again(state.queued):
            await self._finish(answer)
            return
        self._keeps_time = runner.capabilities.keeps_time
        self._set_deadlines()
        while not await (self._park() if self._paused else self._once(runner)):
            self._gate.reset()

    async def _given_again(self, queued: e.RunQueued) -> Outcome | None:
        """What a run of the same definition, with the same code and input, came to; where whoever asks is content."""
        if queued.cache is None or self.row.source_run_id is not None:
            return None
        key = digest_of([self._state.definition, queued.target, queued.model, queued.input])
        self._context.answer_key = key
        if self._state.begun or not queued.cache:
            return None
        return await self._context.answered_before(key, queued.cache)

    def _refusal(self) -> Outcome | None:
        """Why the run ends before its code runs, if it does."""
        if self._stop:
            return self._stop.outcome
        if self.row.cancelled:  # the signal may have been taken by an attempt that crashed
            return Outcome(status=Status.CANCELLED, reason=Reason.CANCELLED, error=_said_by({}))
        if self.row.crashes > MOST_CRASHES:
            message = f"its worker died {self.row.crashes} times; retry it when the cause is found"
            return Outcome.failed(Reason.LOST, "lost", message)
        if self.row.expires_at is not None and self.row.expires_at <= self._services.clock.now_ms():
            return _timed_out("it expired")
        return None

    async def _close_broken_turn(self, state: RunState) -> None:
        """A crash broke an answer off: what readers saw of it is recorded, and the turn is asked again."""
        if state.turn_open and not state.broken_off:
            said = await self._services.store.open_turn(self.row.id)
            if said and (said.turn, said.try_) != (state.turn, state.try_):
                said = None
            text, thinking = (said.text(), said.text("thinking")) if said else ("", "")
            self._journal.note(interruption(state, "crash", text, thinking))

    def _runner(self, state: RunState) -> Runner:
        assert state.queued
        return self._services.runners.of(Target.parse(state.queued.target))

    async def _changed_code(self, state: RunState, runner: Runner) -> Outcome | None:
        """A run keeps the definition that it started with, and its code, unless the definition says otherwise."""
        assert state.queued
        try:
            described = runner.describe(Target.parse(state.queued.target, state.queued.model))
        except BadInput as error:
            return _failed(Reason.INVALID, error)
        self._context.definition = described.definition
        now = digest_of(described.definition)
        if now == state.definition:
            return None
        if state.begun and (pinned := await self._pinned(state)) and pinned.get("code", "") == described.code:
            self._context.definition = pinned
            return None
        if described.on_change == "finish" or not state.begun:
            message = (
                f"the code changed since the run was {'begun' if state.begun else 'queued'}; it goes on with {now}"
            )
            self._journal.note(e.Warned(code="code_changed", message=message, definition=now))
            return None
        message = (
            f"the code of {state.queued.target} changed while the run was under way "
            f"(begun with {state.definition}, now {now}). Retry the run, or declare on_change='finish'."
        )
        return Outcome.failed(Reason.INVALID, "CodeChanged", message)

    async def _pinned(self, state: RunState) -> Mapping[str, object] | None:
        """The definition that the run started with."""
        digest = state.definition
        if digest is None:
            return None
        stored = await self._journal.outlast(lambda _: self._services.store.definition(digest))
        return None if stored is None else msgspec.json.decode(stored, type=dict[str, object])

    # Once through the code

    async def _once(self, runner: Runner) -> bool:
        """Run the code from the top. True when the run rests; False when a signal came just as it would have parked."""
        self._busy()
        self._hold_or_go_on()  # before the code begins: what was said just now may have changed it
        self._task = asyncio.create_task(runner.run(self._context))
        try:
            await self._attend(self._task)
            outcome = await self._left(self._task)
        finally:
            self._idle(give_back=False)
            self._drop_timer("leaving")
            if not self._task.done():
                self._task.cancel()
            elif not self._task.cancelled():
                self._task.exception()  # looked at, so that nobody complains
            await self._end_stragglers()
        if self._stop and isinstance(outcome, Parked | Released):
            outcome = self._stop.outcome  # it was told while its code was being left
        match outcome:
            case Outcome():
                await self._finish(outcome)
                if self._stop:
                    await self._clean_up(runner)
                return True
            case Parked():
                return await self._park()
            case Released():
                await self._let_go()
                return True
            case _:
                raise outcome

    async def _attend(self, task: asyncio.Task[Outcome]) -> None:
        """Serve signals while the code runs."""
        task.add_done_callback(lambda _: self._woken.set())
        while not task.done():
            if self._woken.is_set():
                await self._serve()
                if (self._stop or self._journal.error or self._overdue) and not task.done():
                    await self._stop_code(task)
                    return
            await self._woken.wait()

    async def _serve(self) -> None:
        self._woken.clear()
        await self._take_signals()
        self._hold_or_go_on()
        if self._look_at_children and self._gate.idle:
            self._look_at_children = False
            rows = await self._services.store.children(self.row.id)
            if not any(row.status in (Status.QUEUED, Status.RUNNING) for row in rows):
                self._gate.park_now()
        self._gate.stir()

    def _hold_or_go_on(self) -> None:
        if self._paused:
            self._hold(Parked())
        elif self._releasing:
            self._hold(Released())
        else:
            self._hold(None)

    def _hold(self, kind: Unwind | None) -> None:
        """Let nothing new begin, and leave the code when what is under way has ended; with None, go on."""
        self._context.held = kind is not None
        self._gate.hold(kind)

    async def _stop_code(self, task: asyncio.Task[Outcome]) -> None:
        self._code_stopped = True
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=GRACE_SECONDS)
        if not done:
            log.warning("run %s: its code ignores that it was stopped and is abandoned", self.row.id)
            self._gate.unwind(Lost())

    async def _left(self, task: asyncio.Task[Outcome]) -> Outcome | BaseException:
        """How the code was left: with an outcome, parked, or with an error that is the engine's."""
        if self._journal.error:
            return Lost()
        if self._stop and self._code_stopped:
            return self._stop.outcome
        if broken := self._context.broken or self._gate.swallowed:
            return _failed(Reason.INVALID, broken)
        if self._overdue:
            return self._not_left()
        try:
            outcome = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current and current.cancelling():
                raise
            return Outcome.failed(Reason.TOOL_ERROR, "CancelledError", "the code cancelled itself")
        except Unwind as unwind:
            return unwind
        except BaseExceptionGroup as group:  # a task group wraps what left it
            unwinds, others = group.split(Unwind)
            if unwinds and others is None and self._gate.leaving:
                return self._gate.leaving
            outcome = _failed(Reason.INTERNAL, others or group)
        except (RuleBroken, BadInput) as error:
            outcome = _failed(Reason.INVALID, error)
        except RunError as error:
            outcome = _failed(Reason.TOOL_ERROR, error)
        except Exception as error:
            log.exception("run %s: the runner failed", self.row.id)
            outcome = _failed(Reason.INTERNAL, error)
        except BaseException as error:  # code raises what it likes; only what is about this task goes on
            if not task.done() or task.exception() is not error:
                raise
            outcome = _failed(Reason.TOOL_ERROR, error)
        if self._gate.leaving:
            return _failed(Reason.INVALID, ParkedSwallowed(where="the code ended instead"))
        return outcome

    def _not_left(self) -> Outcome | BaseException:
        """The code was left, and did not end."""
        if isinstance(self._gate.leaving, Released):
            return self._gate.leaving
        return _failed(Reason.INVALID, ParkedSwallowed(where=f"it had not ended {LEAVING_SECONDS:g} s later"))

    async def _end_stragglers(self) -> None:
        """Tasks that the code started and left behind go with it."""
        stragglers = self._gate.stragglers()
        for task in stragglers:
            task.cancel()
        if stragglers:
            await asyncio.wait(stragglers, timeout=GRACE_SECONDS)

    # Rests

    async def _park(self) -> bool:
        pausing = self._paused
        waiting = e.RunWaiting(
            reasons=(Waits.PAUSED,) if pausing else self._gate.left_for,
            until=None if pausing else self._gate.left_until,
            active_ms=self._active_ms(),
            signal=self._last_taken() if pausing else None,
        )
        # What came after the code was left is taken and not seen by it: the run must not park on that.
        if await self._journal.park(waiting, self._signals_seen if pausing else self._seen_by_code):
            self.rest = Status.WAITING.value
            self._services.hub.parked(self.row.parent_id)
            if waiting.until is not None:
                self._services.hub.due(waiting.until - self._services.clock.now_ms())
            return True
        await self._take_signals()
        if self._stop:
            await self._finish(self._stop.outcome)
        return self._stop is not None

    async def _finish(self, outcome: Outcome) -> None:
        cause = outcome.error.message if outcome.error else outcome.reason.value
        said = self._speech.said() if self._state.turn_open else None
        text, thinking = (said.text(), said.text("thinking")) if said else ("", "")
        lost = self._context.lost(said) if said else None
        try:
            self._journal.note(*closing(self._state, cause, text, thinking, lost))
            await self._end(outcome, text)
        except BadInput as error:  # something of it cannot be stored
            self._journal.note(*closing(self._state, cause))
            await self._end(_failed(Reason.INVALID, error))

    async def _end(self, outcome: Outcome, text: str = "") -> None:
        """End the run. All that was said to it until then is in its journal."""
        while not await self._ends(outcome, text):
            await self._take_signals()

    async def _ends(self, outcome: Outcome, text: str) -> bool:
        state = self._state
        finished = e.RunFinished(
            status=outcome.status,
            reason=outcome.reason,
            output=outcome.output,
            recovered=outcome.recovered,
            partial=outcome.partial or text or None,
            error=outcome.error,
            usage=state.usage,
            unread=tuple(state.hints),
            answer_of=outcome.answer_of,
            answer_key=self._answer_key(outcome),
            active_ms=self._active_ms(),
            signal=self._last_taken(),
        )
        answer = None
        if self.row.message_id:
            answer = self._services.codec.encode_parts(answer_parts(finished.output, finished.partial))
        self.rest = outcome.status.value
        return await self._journal.finish(
            finished,
            signal_seen=self._signals_seen,
            cancel_children=bool(state.open_children) and not self._context.detached,
            answer=answer,
        )

    def _answer_key(self, outcome: Outcome) -> str | None:
        """Only what was reached by itself is given again: not what a limit, a person or an earlier answer came to."""
        own = outcome.reason is Reason.GOAL and outcome.answer_of is None and not self._state.steered
        return self._context.answer_key if own else None

    async def _let_go(self) -> None:
        if not self._journal.error:
            await self._journal.sync()
        worker_id = self.row.worker_id
        assert worker_id
        await self._services.store.let_go(LetGo(worker_id=worker_id, run_ids=(self.row.id,)))
        self.rest = "let go"

    async def _clean_up(self, runner: Runner) -> None:
        try:
            await runner.cancel(self._context)
        except Exception:
            log.exception("run %s: cleaning up elsewhere failed", self.row.id)

    # Signals

    async def _take_signals(self) -> None:
        """Take what was said to the run, in order. What changes it is recorded with the signal's number."""
        store, seen = self._services.store, self._signals_seen
        for signal in await self._journal.outlast(lambda _: store.signals(self.row.id, seen)):
            self._signals_seen = signal.n
            for data in self._heed(signal):
                self._journal.note(data)
        self._tick()

    async def _remember_pause(self) -> None:
        """A pause that an earlier attempt has taken still holds, whatever that attempt came to."""
        store, seen = self._services.store, self._signals_seen
        if seen:
            self._paused = await self._journal.outlast(lambda _: store.paused(self.row.id, seen))

    def _last_taken(self) -> int | None:
        """The number of the last signal, unless an event that it caused has recorded it already."""
        return self._signals_seen if self._signals_seen > self._state.signals_seen else None

    def _heed(self, signal: SignalRow) -> list[e.EventData]:
        said = msgspec.json.decode(signal.data)
        state = self._state
        match signal.kind:
            case "cancel":
                outcome = Outcome(status=Status.CANCELLED, reason=Reason.CANCELLED, error=_said_by(said))
                self._stop = self._stop or Stop(outcome)
            case "pause":
                self._paused = True
            case "resume":
                self._paused = False
            case "steer" if not (key := said.get("key", "")) or key not in state.hint_keys:
                text, by = said["text"], said.get("by", "")
                return [e.SteerReceived(text=text, by=by, key=key, turn=state.turn + 1, signal=signal.n)]
            case "child" if said["call_id"] in state.open_children:
                return [
                    e.ChildFinished(
                        call_id=said["call_id"],
                        run_id=said["run_id"],
                        status=Status(said["status"]),
                        reason=Reason(said["reason"]),
                        recovered=said["recovered"],
                        signal=signal.n,
                    )
                ]
            case "answer" | "expire" if said["ticket_id"] in state.open_tickets:
                return [
                    e.TicketClosed(
                        ticket_id=said["ticket_id"],
                        decision=said.get("decision", "expired"),
                        value=said.get("value"),
                        message=said.get("message", ""),
                        by=said.get("by", ""),
                        signal=signal.n,
                    )
                ]
            case "child" | "answer" | "expire":
                return [_ignored(signal, "it came too late to matter")]
            case _:
                return [_ignored(signal, "it is not known here; did a newer Retinue send it?")]
        return []

    # Time

    def _set_deadlines(self) -> None:
        if self.row.expires_at is not None:
            seconds = (self.row.expires_at - self._services.clock.now_ms()) / 1000
            self._set_timer("expiry", seconds, lambda: self._strike("it expired"))

    def _strike(self, why: str) -> None:
        self._stop = self._stop or Stop(_timed_out(why))
        self._woken.set()

    def _set_timer(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        self._drop_timer(name)
        self._timers[name] = self._services.clock.call_later(max(0.0, seconds), callback)

    def _drop_timer(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def _busy(self) -> None:
        """The code works: it holds a slot and its clock runs."""
        if not self._has_slot:
            self._has_slot = True
            self._slot(-1)
        self._drop_timer("memory")
        self._works = True
        self._tick()

    def _tick(self) -> None:
        """The clock runs while the code works and no person is asked."""
        if not self._works or self._state.open_tickets:
            self._active_before, self._active_since = self._active_ms(), None
            self._drop_timer("active")
        elif self._active_since is None:
            self._active_since = self._services.clock.now_ms()
            queued = self._state.queued
            assert queued
            if queued.max_minutes is not None:
                left = queued.max_minutes * 60 - self._active_before / 1000
                self._set_timer("active", left, lambda: self._time_is_up(f"it ran for {queued.max_minutes:g} minutes"))

    def _time_is_up(self, why: str) -> None:
        if self._keeps_time:
            self._context.time_is_up.ring()
        else:
            self._strike(why)

    def _idle(self, *, give_back: bool = True) -> None:
        """The code waits: another run may have its slot, and its clock stands."""
        self._works = False
        self._tick()
        if give_back and self._has_slot:
            self._has_slot = False
            self._slot(+1)
            self._set_timer("memory", CHILDREN_IN_MEMORY, self._gate.park_now)

    def _active_ms(self) -> int:
        if self._active_since is None:
            return self._active_before
        return self._active_before + max(0, self._services.clock.now_ms() - self._active_since)

    def _deadline(self) -> int | None:
        """When it will be stopped, if it goes on without waiting."""
        queued, ends = self._state.queued, []
        if self.row.expires_at is not None:
            ends.append(self.row.expires_at)
        if queued and queued.max_minutes is not None:
            left = int(queued.max_minutes * 60_000) - self._active_ms()
            ends.append(self._services.clock.now_ms() + left)
        return min(ends, default=None)

    def _leave(self) -> None:
        """The code is being left: it sees no more signals."""
        self._seen_by_code = self._signals_seen
        self._let_end()

    def _let_end(self) -> None:
        """The code has no more to do than to tidy up. What takes longer than that may never end."""
        if "leaving" not in self._timers:
            self._set_timer("leaving", LEAVING_SECONDS, self._stop_leaving)

    def _stop_leaving(self) -> None:
        self._overdue = True
        self._woken.set()

    def give_slot_back(self) -> None:
        """The attempt is over."""
        if self._has_slot:
            self._has_slot = False
            self._slot(+1)


def _failed(reason: Reason, error: BaseException) -> Outcome:
    return Outcome(status=Status.FAILED, reason=reason, error=failure_of(error))


def _ignored(signal: SignalRow, why: str) -> e.Warned:
    return e.Warned(code="signal_ignored", message=f"the signal {signal.kind} was ignored: {why}", signal=signal.n)


def _timed_out(why: str) -> Outcome:
    return Outcome(status=Status.TIMED_OUT, reason=Reason.TIMEOUT, error=Failure(kind="timeout", message=why))


def _said_by(said: dict[str, str]) -> Failure:
    return Failure(kind="cancelled", message=said.get("message") or "cancelled")
