"""A request to run something, made into rows: checked, described, pinned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec

from retinue.core import events as e
from retinue.core.budget import MICROS
from retinue.core.digest import digest_of
from retinue.core.messages import Message
from retinue.core.outcome import Durability
from retinue.core.policy import Policy
from retinue.core.schema import wrong_schema
from retinue.core.spelling import did_you_mean
from retinue.core.target import Target
from retinue.core.tool import FINISH
from retinue.engine.codec import Codec
from retinue.engine.description import Capabilities, Describer, Describers, Description
from retinue.errors import BadInput, NotSupported
from retinue.ids import new_id
from retinue.ports.store import NewRun, RunRow, Submit


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants to be run."""

    target: str
    input: object = None
    owner: str = ""
    idempotency_key: str | None = None
    priority: int = 0
    start_at: int | None = None
    expires_at: int | None = None
    max_minutes: float | None = None
    durability: Durability | None = None
    max_cost_usd: float | None = None
    thread_id: str | None = None
    message_id: str | None = None
    source_run_id: str | None = None
    source_seq: int | None = None
    continues: bool = False
    """The input is what is said next to what the source has said and heard."""
    seed: tuple[Message, ...] = ()
    """What is said to it before it begins, in the place of its input."""
    policy: Policy | None = None
    """What whoever calls it may do itself: it may do no more."""
    at_node: str | None = None
    """The node that a graph is started at."""
    again_at: str | None = None
    """The node of the source that is run again, with all that depends on it."""
    model: str | None = None
    """Who answers, in the place of the model that the target names."""
    cache: float | None = None
    """How many seconds old an answer to the same may be that is given again instead of running anything. With 0 none
    is, and this one may be in its turn."""
    client_tools: tuple[dict[str, object], ...] = ()
    """Tools that whoever asks has, each with `name`, `description` and `schema`: the run waits for their results."""


def durability_of(text: str | None) -> Durability | None:
    """What is demanded, in its words."""
    if text is None:
        return None
    if text not in set(Durability):
        raise BadInput(problem=f"durability is effects or restart, not {text!r}.")
    return Durability(text)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A description as it is stored: content, and digest of the content."""

    definition: str
    definition_digest: str
    requires: str
    requires_digest: str


@lru_cache(maxsize=1024)
def _pin(described: Description) -> Pinned:
    definition, requires = described.definition, described.requires
    return Pinned(
        msgspec.json.encode(definition).decode(),
        digest_of(definition),
        msgspec.json.encode(requires).decode(),
        digest_of(requires),
    )


class Submitter:
    """Makes a request into a run that can be stored; refuses what cannot run before anything is."""

    def __init__(self, runners: Describers, codec: Codec) -> None:
        self._runners, self._codec = runners, codec

    def prepare(self, request: Request) -> Submit:
        """A run of its own."""
        run_id = new_id("run")
        return self._build(request, run_id=run_id, root_id=run_id)

    def capabilities_of(self, target: str) -> Capabilities:
        """What the platform of a target can do."""
        return self._runners.of(Target.parse(target)).capabilities

    def prepare_child(self, request: Request, parent: RunRow, call_id: str) -> Submit:
        """A run below another, which lends it its owner and priority."""
        return self._build(request, run_id=new_id("run"), root_id=parent.root_id, parent=parent, call_id=call_id)

    def _build(
        self, request: Request, *, run_id: str, root_id: str, parent: RunRow | None = None, call_id: str | None = None
    ) -> Submit:
        _check(request)
        target = Target.parse(request.target, request.model)
        runner = self._runners.of(target)
        if request.model is not None and not runner.capabilities.takes_model:
            raise NotSupported(target=request.target, platform=runner.platform, ability="be told which model answers")
        described = runner.describe(target)
        _check_node(request, described, runner)
        given = request.input if request.at_node else described.accept(request.input)
        durability = _durability(request, described, runner.capabilities.durability, runner.platform)
        max_minutes = request.max_minutes if request.max_minutes is not None else described.max_minutes
        _check_limit("max_minutes", max_minutes)
        _check_limit("max_cost_usd", request.max_cost_usd)
        pinned = _pin(described)
        queued = e.RunQueued(
            target=str(target),
            input=given,
            owner=request.owner,
            definition=pinned.definition_digest,
            durability=durability,
            max_minutes=max_minutes,
            expires_at=request.expires_at,
            parent_id=parent.id if parent else None,
            call_id=call_id,
            thread_id=request.thread_id,
            message_id=request.message_id,
            source_run_id=request.source_run_id,
            source_seq=request.source_seq,
            continues=request.continues,
            client_tools=_client_tools(request, runner),
            seed=request.seed,
            policy=request.policy,
            at_node=request.at_node,
            again_at=request.again_at,
            cache=request.cache,
            model=request.model,
        )
        encoded = self._codec.encode(queued)
        run = NewRun(
            id=run_id,
            root_id=root_id,
            parent_id=parent.id if parent else None,
            call_id=call_id,
            depth=parent.depth + 1 if parent else 0,
            owner=parent.owner if parent else request.owner,
            thread_id=request.thread_id,
            message_id=request.message_id,
            target=str(target),
            definition=pinned.definition_digest,
            requires=pinned.requires_digest,
            durability=durability.value,
            priority=request.priority or (parent.priority if parent else 0),
            due_at=request.start_at,
            expires_at=request.expires_at,
            source_run_id=request.source_run_id,
            source_seq=request.source_seq,
            idempotency_key=request.idempotency_key,
            request_digest=self._digest(queued) if request.idempotency_key else None,
            purse_limit=_purse_limit(request, described, parent),
            queued=encoded,
        )
        return Submit(run=run, requirement=pinned.requires, definition=pinned.definition)

    def _digest(self, queued: e.RunQueued) -> str:
        """What is asked for, the same each time it is asked: the message that it will fill is a new one each time."""
        return digest_of([queued.target, self._codec.encode(replace(queued, message_id=None)).encoded])


def _check_node(request: Request, described: Description, runner: Describer) -> None:
    """A graph is started at a node that it has."""
    nodes = [node for node in (request.at_node, request.again_at) if node is not None]
    if not nodes:
        return
    if not runner.capabilities.starts_inside:
        raise NotSupported(target=request.target, platform=runner.platform, ability="be started at a node")
    for node in nodes:
        if node not in described.nodes:
            near = did_you_mean(node, described.nodes)
            raise BadInput(problem=f"{request.target} has no node {node}. {near}")


def _check(request: Request) -> None:
    """What a column cannot hold, one database would refuse and the other one keep."""
    _check_text("owner", request.owner)
    if request.idempotency_key is not None:
        _check_text("idempotency_key", request.idempotency_key)
    _check_whole("priority", request.priority, 2**31)
    for name, time in (("start_at", request.start_at), ("expires_at", request.expires_at)):
        if time is not None:
            _check_whole(f"{name}, in milliseconds since 1970,", time, 2**53)


def _check_text(name: str, value: object) -> None:
    try:
        fits = isinstance(value, str) and b"\0" not in value.encode()
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise BadInput(problem=f"{name} must be text that can be stored, not {value!r}.")


def _check_whole(name: str, value: object, most: int) -> None:
    if type(value) is not int or abs(value) >= most:
        raise BadInput(problem=f"{name} must be a whole number below {most}, not {value!r}.")


def _check_limit(name: str, value: object) -> None:
    if value is not None and not (isinstance(value, int | float) and 0 < value < float("inf")):
        raise BadInput(problem=f"{name} must be more than 0, not {value!r}.")


def _purse_limit(request: Request, described: Description, parent: RunRow | None) -> int | None:
    """One purse for a tree: a run below has its root's."""
    if parent:
        return parent.purse_limit
    limits = [limit for limit in (request.max_cost_usd, described.max_cost_usd) if limit is not None]
    return round(min(limits) * MICROS) if limits else None


def _client_tools(request: Request, runner: Describer) -> tuple[dict[str, object], ...]:
    """Each has a name of its own and a schema that is one; or the request is refused."""
    if request.client_tools and not runner.capabilities.client_tools:
        raise NotSupported(target=request.target, platform=runner.platform, ability="call tools of its client")
    names: set[object] = set()
    for tool in request.client_tools:
        name = tool.get("name")
        if not isinstance(name, str) or not name or name in names or name == FINISH:
            raise BadInput(problem=f"A client tool needs a name of its own, not {name!r}.")
        if wrong := wrong_schema(tool.get("schema", {})):
            raise BadInput(problem=f"The schema of the client tool {name} is no JSON schema: {wrong}")
        names.add(name)
    return request.client_tools


async def store_large(codec: Codec, submit: Submit) -> Submit:
    """The same, with an input that is too large for a journal in a file."""
    draft, file = await codec.store_large(submit.run.queued)
    return replace(submit, run=replace(submit.run, queued=draft), files=(file,)) if file else submit


def _durability(request: Request, described: Description, given: Durability, platform: str) -> Durability:
    """What the run is promised. Nothing is downgraded: who demands more than the platform gives is refused."""
    wanted = request.durability or described.durability
    if wanted is Durability.EFFECTS and given is Durability.RESTART:
        raise NotSupported(target=request.target, platform=platform, ability="promise durability: effects")
    return given
