"""Runs: submit them, look at them, talk to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import msgspec

from retinue.core.approval import ANSWERED, APPROVED, DENIED, Approval
from retinue.core.budget import MICROS
from retinue.core.events import Event, RunQueued, encode_json
from retinue.core.graph.definition import GraphDefinition
from retinue.core.graph.progress import Progress
from retinue.core.outcome import Outcome, Status, Waits
from retinue.core.target import Target
from retinue.engine.answers import wrong_answer
from retinue.engine.attempt import Services
from retinue.engine.explain import Explanation, Journal, WorkerView, explain, read_journal, views_of_workers
from retinue.engine.follow import Followed, Follower
from retinue.engine.past import outcome_of, read_outcome
from retinue.engine.purge import clear
from retinue.engine.submit import Request, store_large
from retinue.engine.worker import Worker
from retinue.errors import BadInput, NotSupported, TicketEnded, UnknownRun, UnknownTicket
from retinue.ports.store import Cancel, Prune, Pruned, Recorded, RunRow, Signal, Stats, Submit, TicketRow
from retinue.service.graphs import check_after, graph_of
from retinue.service.ids import id_like
from retinue.service.models import ModelSeen, models_seen
from retinue.service.threads import Threads

TREES_AT_ONCE = 25


class Service:
    """Submit, look at, and talk to runs."""

    def __init__(self, services: Services, worker: Worker) -> None:
        self._services, self._store, self._worker = services, services.store, worker
        self._follower = Follower(services.store, services.hub, services.codec)
        self._registered = False
        self.threads = Threads(services, worker, self._end_idle)

    # Submitting

    async def submit(self, request: Request) -> str:
        """Store a queued run; it is on disk when its id is given. The same key and request give the same run."""
        return await self._store.submit(await self._prepare(request))

    async def _prepare(self, request: Request) -> Submit:
        write = self._services.submitter.prepare(request)
        self._worker.can_load(write.run.requires)
        return await store_large(self._services.codec, write)

    async def retry(
        self, run_id: str, *, fresh: bool = False, node: str | None = None, idempotency_key: str | None = None
    ) -> str:
        """A new run that reuses every recorded success of an ended one; with `fresh`, nothing; with `node`, all but
        that node of a graph and what depends on it."""
        row = await self.run(run_id)
        if not row.status.terminal:
            raise BadInput(problem=f"Run {run_id} is {row.status}: only a run that has ended can be retried.")
        if fresh and node:
            raise BadInput(
                problem="With `fresh` everything is run again; with a node, only that and what depends on it."
            )
        return await self._again(row, 0 if fresh else row.last_seq, idempotency_key, node)

    async def fork(self, run_id: str, at: int, *, idempotency_key: str | None = None) -> str:
        """A new run that has what another had recorded up to a seq as its past."""
        row = await self.run(run_id)
        if not 1 <= at <= row.last_seq:
            raise BadInput(problem=f"Run {run_id} has the events 1 to {row.last_seq}; it cannot be forked at {at}.")
        return await self._again(row, at, idempotency_key)

    async def _again(self, row: RunRow, seq: int, idempotency_key: str | None, node: str | None = None) -> str:
        first = (await self._store.events(row.id, 0, 1))[0]
        queued = (await self._services.codec.used(first)).data
        assert isinstance(queued, RunQueued)
        if node and queued.at_node:
            check_after((await self.graph(row.id))[0], queued.at_node, node)
        as_before = queued.continues and seq == 0  # nothing of this run, but what it was to go on from
        request = Request(
            target=row.target,
            input=queued.input,
            owner=row.owner,
            priority=row.priority,
            max_minutes=queued.max_minutes,
            max_cost_usd=None if row.purse_limit is None else row.purse_limit / MICROS,
            source_run_id=queued.source_run_id if as_before else row.id,
            source_seq=queued.source_seq if as_before else seq,
            continues=as_before,
            client_tools=queued.client_tools,
            at_node=queued.at_node,
            again_at=node,
            model=queued.model,
            idempotency_key=idempotency_key,
        )
        return await (self.threads.again(row, request) if row.message_id else self.submit(request))

    # Looking

    async def run(self, run_id: str) -> RunRow:
        row = await self._store.run(run_id)
        if row is None:
            raise UnknownRun(run_id=run_id)
        return row

    async def runs(
        self, *, status: str | None = None, owner: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[RunRow]:
        return await self._store.runs(status=status, owner=owner, before=before, limit=limit)

    async def named(self, text: str) -> RunRow:
        """A run by its id, or by the beginning or the end of it."""
        return await self._store.run(text) or await self.run(await id_like(self._store, "runs", "run", text))

    async def ticket(self, text: str) -> TicketRow:
        """A ticket by its id, or by the beginning or the end of it."""
        ticket = await self._store.ticket(text)
        ticket = ticket or await self._store.ticket(await id_like(self._store, "tickets", "tkt", text))
        if ticket is None:
            raise UnknownTicket(ticket_id=text)
        return await self._shown(ticket)

    async def _shown(self, ticket: TicketRow) -> TicketRow:
        """With what is asked as people may see it, also when it is large."""
        return replace(ticket, data=(await self._services.codec.shown_data(ticket.data)).decode())

    async def explain(self, run_id: str) -> Explanation:
        """Why a run is where it is."""
        return await explain(self._store, self._services.codec, await self.run(run_id))

    async def journal(self, run_id: str) -> Journal:
        """What a run's events say together."""
        return await read_journal(self._store, self._services.codec, run_id)

    async def graph(self, run_id: str) -> tuple[GraphDefinition, dict[str, Progress]]:
        """The graph that a run runs, with the nodes that were added to it, and how far all are."""
        return await graph_of(self._store, self._services.codec, await self.run(run_id))

    async def tree_events(self, run_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """A page of the journal of a whole tree."""
        stored = await self._store.tree_events((await self.run(run_id)).root_id, after, limit)
        return [await self._services.codec.shown(one) for one in stored]

    async def workers(self) -> list[WorkerView]:
        """All workers that have not left in good order."""
        return await views_of_workers(self._store, await self.now())

    async def now(self) -> int:
        """The time, as the database has it."""
        return await self._store.now()

    async def models_seen(self, runs: int = 200) -> list[ModelSeen]:
        """How models did in the last runs."""
        return await models_seen(self._store, self._services.codec, runs)

    async def stats(self) -> Stats:
        return await self._store.stats()

    async def tree(self, run_id: str) -> list[RunRow]:
        """The runs of the tree that a run is in."""
        return await self._store.tree((await self.run(run_id)).root_id)

    def follow(self, run_id: str, after: int = 0, *, tree: bool = False) -> AsyncIterator[Followed]:
        """The events after a place, then live ones and deltas, until the run has ended."""
        return self._follower.follow(run_id, after, tree=tree)

    async def events(self, run_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """A page of the journal."""
        await self.run(run_id)
        return [await self._services.codec.shown(stored) for stored in await self._store.events(run_id, after, limit)]

    async def outcome(self, run_id: str) -> Outcome:
        """Wait until a run has ended; give how."""
        with self._services.hub.ending(run_id) as ended:
            if not (await self.run(run_id)).status.terminal:
                self._services.hub.is_stored(run_id)
                await ended
            return await self._outcome(run_id, ended)

    async def run_to_end(self, request: Request) -> Outcome:
        """Submit and wait."""
        write = await self._prepare(request)
        with self._services.hub.ending(write.run.id) as ended:
            run_id = await self._store.submit(write)
            if run_id == write.run.id:
                await ended
                return await self._outcome(run_id, ended)
        return await self.outcome(run_id)  # there was a run with the same key

    async def _outcome(self, run_id: str, ended: asyncio.Future[Recorded | None]) -> Outcome:
        if ended.done() and (last := ended.result()):
            return outcome_of(await self._services.codec.used(last))
        return await read_outcome(self._store, self._services.codec, run_id)

    # Keeping house

    async def prunable(self, before: int) -> list[RunRow]:
        """The roots of the trees that `prune` would delete."""
        return [row for root_id in await self._store.prunable(before) if (row := await self._store.run(root_id))]

    async def prune(self, before: int) -> AsyncIterator[Pruned]:
        """Delete the trees that ended before a time, some at once; give what each batch took away."""
        roots = await self._store.prunable(before)
        for start in range(0, len(roots), TREES_AT_ONCE):
            batch = tuple(roots[start : start + TREES_AT_ONCE])
            pruned = await self._store.prune(Prune(root_ids=batch, before=before))
            await clear(self._services.codec, self._services.workspaces, pruned)
            yield pruned

    # Talking to a run

    async def cancel(self, run_id: str, *, message: str = "", by: str = "") -> None:
        """Stop a run and all that runs below it. What runs is told; what does not run is ended here, deepest first."""
        data = encode_json({"message": message, "by": by}, "The message").decode()
        await self._end_idle(await self._store.cancel(Cancel(run_id=run_id, data=data)))

    async def _end_idle(self, reached: Mapping[str, Status]) -> None:
        for below, status in sorted(reached.items(), reverse=True):
            if status is not Status.RUNNING:
                await self._end(below)

    async def _end(self, run_id: str) -> None:
        """End a run that no worker holds. The claim for that has a lease, in case this process dies in between."""
        if not self._registered:
            await self._worker.renew()
            self._registered = True
        await self._worker.end(run_id)

    async def pause(self, run_id: str) -> None:
        """Let what is under way end, start nothing more, and wait for `resume`."""
        await self._say(run_id, "pause", {})

    async def resume(self, run_id: str) -> None:
        """Go on after a pause."""
        await self._say(run_id, "resume", {}, wakes_paused=True)

    async def steer(self, run_id: str, text: str, *, by: str = "") -> None:
        """Give a run a hint, for its next turn."""
        row = await self.run(run_id)
        stored = await self._store.definition(row.definition) if row.definition else None
        definition = msgspec.json.decode(stored, type=dict[str, object]) if stored else {}
        runner = self._services.runners.of_stored(Target.parse(row.target), definition)
        if not runner.capabilities.steer:
            raise NotSupported(target=row.target, platform=runner.platform, ability="be steered")
        await self._say(run_id, "steer", {"text": text, "by": by})

    async def tickets(self, *, root_id: str | None = None, status: str | None = "open") -> list[TicketRow]:
        return [await self._shown(ticket) for ticket in await self._store.tickets(root_id=root_id, status=status)]

    async def answer(
        self, ticket_id: str, value: object = None, *, decision: str = "answered", message: str = "", by: str = ""
    ) -> None:
        """Close a ticket: `answered` and `approved` give its run the value, `denied` refuses.

        An approval takes no answer; the value that goes with a decision about it is `core.approval.Approval`.
        """
        if decision not in (ANSWERED, APPROVED, DENIED):
            raise BadInput(problem=f"A decision is answered, approved or denied, not {decision!r}.")
        ticket = await self._store.ticket(ticket_id)
        if ticket is None:
            raise UnknownTicket(ticket_id=ticket_id)
        if ticket.status != "open":
            raise TicketEnded(ticket_id=ticket_id, decision=ticket.end)
        value = msgspec.json.decode(encode_json(value, "The answer"))
        _check(await self._shown(ticket), decision, value)
        said = {"ticket_id": ticket_id, "decision": decision, "value": value, "message": message, "by": by}
        await self._say(ticket.run_id, "answer", said, ticket_id=ticket_id)

    async def _say(
        self,
        run_id: str,
        kind: str,
        data: dict[str, object],
        *,
        ticket_id: str | None = None,
        wakes_paused: bool = False,
    ) -> None:
        encoded = encode_json(data, f"The {kind}").decode()
        await self._store.signal(
            Signal(run_id=run_id, kind=kind, data=encoded, ticket_id=ticket_id, wakes_paused=wakes_paused)
        )


def _check(ticket: TicketRow, decision: str, value: object) -> None:
    """A decision is one that can be made about this ticket; an answer, or other arguments, fit its schema."""
    if ticket.kind == Waits.APPROVAL:
        if decision == ANSWERED:
            raise BadInput(problem=f"{ticket.id} asks for a decision, not an answer: approve or deny it.")
        try:
            said = Approval.of(value)
        except ValueError as error:
            raise BadInput(problem=f"The decision about {ticket.id} makes no sense: {error}.") from None
        if decision == APPROVED and said.arguments is not None:
            _check_schema(ticket, said.arguments, f"Other arguments for {ticket.id} do")
    elif decision != DENIED:
        _check_schema(ticket, value, f"The answer to {ticket.id} does")


def _check_schema(ticket: TicketRow, value: object, what: str) -> None:
    schema = msgspec.json.decode(ticket.data).get("schema")
    if schema and (wrong := wrong_answer(schema, value)):
        raise BadInput(problem=f"{what} not fit its schema: {wrong}.")
