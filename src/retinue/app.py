"""The one place that wires: a database URL in, a running Retinue out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from retinue.core.approval import APPROVED, DENIED, Approval
from retinue.core.outcome import Outcome
from retinue.core.secrets import Secrets
from retinue.core.spelling import did_you_mean
from retinue.engine.attempt import Services
from retinue.engine.codec import Codec
from retinue.engine.follow import Followed
from retinue.engine.hub import Hub
from retinue.engine.runner import Runner
from retinue.engine.submit import Request, Submitter, durability_of
from retinue.engine.worker import LEASE_SECONDS, Worker
from retinue.errors import BadInput
from retinue.files.attach import RunAttachments
from retinue.models.names import Listed as ListedModel
from retinue.models.names import ModelNames
from retinue.ports.clock import Clock, SystemClock
from retinue.ports.files import Files
from retinue.ports.models import Model
from retinue.ports.store import RunRow, TicketRow
from retinue.runners.function import target_of
from retinue.service import OnBusy, Say, Service
from retinue.service.threads import parts_of
from retinue.settings import Settings, TheProject
from retinue.store.sql import open_store, schema_found
from retinue.store.writer import Checkpoint
from retinue.tools.builtin.workspace import Workspaces
from retinue.wiring import (
    DEFAULT_FOLDER,
    agents_of,
    bus_of,
    files_of,
    graphs_of,
    installed_runners,
    runners_of,
    servers_of,
    tools_of,
    workspaces_of,
)

if TYPE_CHECKING:
    from retinue.files.context import Gathered
    from retinue.models.pull import Installed
    from retinue.project.graphs import Graph
    from retinue.project.python import Agent

__all__ = ["ListedModel", "Retinue", "Run", "RunOptions", "run_sync"]
DEFAULT_URL = f"sqlite:///{(DEFAULT_FOLDER / 'retinue.db').as_posix()}"


class RunOptions(TypedDict, total=False):
    """How something is run. Times are milliseconds since 1970."""

    owner: str
    idempotency_key: str | None
    priority: int
    start_at: int | None
    expires_at: int | None
    max_minutes: float | None
    max_cost_usd: float | None
    durability: str | None
    thread: str | None
    parent: str | None
    on_busy: str
    at_node: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """A run, to look at and to talk to."""

    id: str
    _service: Service

    async def row(self) -> RunRow:
        """Where it stands now."""
        return await self._service.run(self.id)

    def follow(self, after: int = 0, *, tree: bool = False) -> AsyncIterator[Followed]:
        """Its events after a seq, then live ones and deltas, until it has ended; with `tree` its whole tree's."""
        return self._service.follow(self.id, after, tree=tree)

    async def outcome(self) -> Outcome:
        """Wait until it has ended; give how."""
        return await self._service.outcome(self.id)

    async def cancel(self, message: str = "") -> None:
        await self._service.cancel(self.id, message=message)

    async def pause(self) -> None:
        await self._service.pause(self.id)

    async def resume(self) -> None:
        await self._service.resume(self.id)

    async def steer(self, text: str) -> None:
        await self._service.steer(self.id, text)

    async def tickets(self) -> list[TicketRow]:
        """What it, and all below it, wait for people to decide or answer."""
        return await self._service.tickets(root_id=(await self.row()).root_id)

    async def retry(self, *, fresh: bool = False, node: str | None = None, idempotency_key: str | None = None) -> Run:
        """A new run that goes on where this one failed; with `fresh`, from nothing; with `node`, at that of a graph."""
        retried = await self._service.retry(self.id, fresh=fresh, node=node, idempotency_key=idempotency_key)
        return Run(retried, self._service)

    async def fork(self, at: int, *, idempotency_key: str | None = None) -> Run:
        """A new run whose past is what this one had recorded up to a seq."""
        return Run(await self._service.fork(self.id, at, idempotency_key=idempotency_key), self._service)


class Retinue:
    """Store, engine and worker in this process. Made by `Retinue.open`."""

    def __init__(
        self, service: Service, worker: Worker, services: Services, models: ModelNames, settings: Settings
    ) -> None:
        self.service, self.worker, self.services, self.models = service, worker, services, models
        self.settings = settings

    @property
    def default_target(self) -> str:
        """Who answers where nobody is named: the project's model, else one that needs no key."""
        return f"model:{self.settings.model or 'test'}"

    @staticmethod
    @asynccontextmanager
    async def open(
        url: str | None = None,
        *,
        worker: bool = True,
        concurrency: int = 100,
        owner_limit: int | None = None,
        secrets: Mapping[str, str] | None = None,
        models: Mapping[str, Model] | None = None,
        runners: Iterable[Runner] = (),
        settings: Settings | None = None,
        agents: Iterable[Agent] = (),
        graphs: Iterable[Graph] = (),
        project: TheProject | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
        grace: float = 10.0,
        lease: float = LEASE_SECONDS,
        checkpoint: Checkpoint | None = None,
    ) -> AsyncIterator[Retinue]:
        """Open a database (SQLite in `.retinue/` unless named) and start a worker on it.

        `agents` and `graphs` are those that are declared in Python; `project` is a folder's, with all that it declares
        (`retinue.settings.read_project` reads one). `settings` is what `retinue.toml` would say.
        `owner_limit` is how many runs of one owner run at once; `secrets` are kept out of the journal;
        `grace` is how long a stop waits for steps that are under way; `lease` how many seconds a worker that says
        nothing is held to be alive.
        """
        clock, settings = clock or SystemClock(), settings or (project.settings if project else Settings())
        url = url or settings.database_url or default_url()
        if url == DEFAULT_URL:
            await asyncio.to_thread(DEFAULT_FOLDER.mkdir, exist_ok=True)
        async with AsyncExitStack() as closing:  # each is closed, however the others close
            store = await open_store(url, clock, checkpoint)
            closing.push_async_callback(store.close)
            clock = store.clock
            hub = Hub(store, clock)
            closing.push_async_callback(hub.close)
            if bus := bus_of(url, store, hub):
                closing.push_async_callback(bus.close)
            files = files or files_of(url, settings.files)
            known_secrets = {**settings.secrets, **(secrets or {})}
            codec = Codec(Secrets(known_secrets), files)
            names = ModelNames(models, settings, clock)
            closing.push_async_callback(names.close)
            workspaces = Workspaces(closing.enter_context(workspaces_of(url)))
            all_agents = agents_of(project, agents)
            all_graphs = graphs_of(project, graphs, all_agents)
            servers = servers_of(project, known_secrets, clock)
            closing.push_async_callback(servers.close)
            tools = tools_of(all_agents, project, workspaces, servers, settings.files)
            known = runners_of(names, all_agents, all_graphs, tools, settings)
            for runner in (*installed_runners(), *runners):
                known.add(runner)
            services = Services(
                store,
                hub,
                codec,
                clock,
                known,
                Submitter(known, codec),
                files,
                lambda: RunAttachments(files, settings.files),
                workspaces,
            )
            a_worker = Worker(services, concurrency=concurrency, owner_limit=owner_limit, lease=lease)
            closing.push_async_callback(a_worker.let_go)
            app = Retinue(Service(services, a_worker), a_worker, services, names, settings)
            if worker:
                await closing.enter_async_context(app.working(grace=grace))
            yield app

    @asynccontextmanager
    async def working(self, *, root_id: str | None = None, grace: float = 10.0) -> AsyncIterator[None]:
        """Work in this process; with `root_id`, on that tree only."""
        failed: Exception | None = None
        self.worker.begin()
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(self.worker.run(root_id))
            try:
                yield
            except Exception as error:  # raised below as it is: the group would wrap it
                failed = error
            finally:
                await self.worker.stop(grace)
                working.cancel()
        if failed:
            raise failed

    async def submit(
        self, target: str | Callable[..., Awaitable[Any]], input: object = None, **options: Unpack[RunOptions]
    ) -> Run:
        """Store a queued run; it is on disk when this returns. `target` is a name, or a durable function itself.

        A function is in a thread only when one is named; every other target answers in one, in a new one unless named.
        """
        request = _request(target, input, options)
        if not _in_thread(request.target, options):
            return Run(await self.service.submit(request), self.service)
        said = await self.service.threads.say(_say(request, input, options))
        return Run(said.answers[0].run_id, self.service)

    async def run(
        self, target: str | Callable[..., Awaitable[Any]], input: object = None, **options: Unpack[RunOptions]
    ) -> Outcome:
        """Submit and wait."""
        request = _request(target, input, options)
        if not _in_thread(request.target, options):
            return await self.service.run_to_end(request)
        return await (await self.submit(target, input, **options)).outcome()

    async def attach(
        self, *sources: str, owner: str = "", include: Sequence[str] = (), exclude: Sequence[str] = ()
    ) -> Gathered:
        """Read files, folders, archives and URLs, and store each once: as parts of what is said next, and notes on what
        was left out. Paths are read as this process can: for what others name, use `service.threads.upload`."""
        from retinue.files.context import gather  # who attaches nothing need not load it

        gathered = await gather(sources, self.services.files, self.settings.files, include=include, exclude=exclude)
        for stored in gathered.stored:
            await self.service.threads.own(stored.uri, stored.size, owner=owner)
        return gathered

    def get(self, run_id: str) -> Run:
        """A run by its id."""
        return Run(run_id, self.service)

    async def tickets(self) -> list[TicketRow]:
        """All that people are asked now."""
        return await self.service.tickets()

    async def answer(self, ticket_id: str, value: object = None, *, message: str = "") -> None:
        await self.service.answer(ticket_id, value, message=message)

    async def approve(
        self,
        ticket_id: str,
        *,
        arguments: Mapping[str, object] | None = None,
        remember: bool = False,
        message: str = "",
    ) -> None:
        """Let a call be made, with other `arguments` if need be; with `remember`, until the run has ended."""
        said = Approval(arguments=None if arguments is None else dict(arguments), remember=remember)
        await self.service.answer(ticket_id, said.value, decision=APPROVED, message=message)

    async def deny(self, ticket_id: str, *, remember: bool = False, message: str = "") -> None:
        """Refuse a call, or to answer a question; the run is told why."""
        await self.service.answer(ticket_id, Approval(remember=remember).value, decision=DENIED, message=message)


def run_sync(
    target: str | Callable[..., Awaitable[Any]],
    input: object = None,
    *,
    url: str | None = None,
    **options: Unpack[RunOptions],
) -> Outcome:
    """Run something to its end, for scripts."""

    async def run() -> Outcome:
        async with Retinue.open(url) as app:
            return await app.run(target, input, **options)

    return asyncio.run(run())


def _request(target: str | Callable[..., Awaitable[Any]], input: object, options: RunOptions) -> Request:
    if unknown := sorted(options.keys() - RunOptions.__annotations__.keys()):
        raise BadInput(
            problem=f"there is no option {unknown[0]}. {did_you_mean(unknown[0], RunOptions.__annotations__)}"
        )
    durability = options.get("durability")
    return Request(
        target=target_of(target),
        input=input,
        owner=options.get("owner", ""),
        idempotency_key=options.get("idempotency_key"),
        priority=options.get("priority", 0),
        start_at=options.get("start_at"),
        expires_at=options.get("expires_at"),
        max_minutes=options.get("max_minutes"),
        max_cost_usd=options.get("max_cost_usd"),
        durability=durability_of(durability),
        at_node=options.get("at_node"),
        model=options.get("model"),
    )


def _in_thread(target: str, options: RunOptions) -> bool:
    named = options.get("thread") is not None or options.get("parent") is not None
    return named or not target.startswith("function:")


def _say(request: Request, input: object, options: RunOptions) -> Say:
    on_busy = options.get("on_busy", OnBusy.QUEUE.value)
    if on_busy not in set(OnBusy):
        raise BadInput(problem=f"on_busy is one of {', '.join(OnBusy)}, not {on_busy!r}.")
    return Say(
        targets=(request.target,),
        parts=parts_of(input),
        thread_id=options.get("thread"),
        parent_id=options.get("parent"),
        on_busy=OnBusy(on_busy),
        request=request,
    )


def pull_model(name: str, progress: Callable[[int, int | None], None]) -> Path:
    """Fetch a model that runs on this machine, unless it is here; give its path. Blocks."""
    from retinue.models.pull import pull  # only who fetches one waits for what that needs

    return pull(name, progress)


def installed_models() -> list[Installed]:
    """The local models that are here."""
    from retinue.models.pull import installed

    return installed()


async def look_at(url: str) -> tuple[str | None, str]:
    """The schema of a database (None if there is none yet) and that of this release. Creates and changes nothing."""
    return await asyncio.to_thread(schema_found, url)


def default_url() -> str:
    """The database that is used when none is named."""
    return os.environ.get("RETINUE_DATABASE_URL") or os.environ.get("DATABASE_URL") or DEFAULT_URL
