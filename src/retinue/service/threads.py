"""Conversations: what is said, who answers, and reading it again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from retinue.core.digest import digest_of
from retinue.core.messages import AnyPart, Data, File, Text, text_of
from retinue.core.outcome import Status
from retinue.core.thread import ThreadMessage, one_line, order, title_of
from retinue.engine.attempt import Services
from retinue.engine.prompt import thread_message
from retinue.engine.purge import purge
from retinue.engine.submit import Request, store_large
from retinue.engine.worker import Worker
from retinue.errors import BadFile, BadInput, UnknownMessage, UnknownRun, UnknownTarget, UnknownThread
from retinue.ids import new_id
from retinue.ports.store import (
    UPLOAD,
    Answer,
    Drop,
    Keep,
    MessageRow,
    NewMessage,
    OnBusy,
    Post,
    Rename,
    RunRow,
    Submit,
    ThreadRow,
)
from retinue.service.ids import id_like

ROOT = "root"
"""As a parent: beside what was said first."""
STORED = "file:sha256/"
LOOK_FOR_END = 0.1
PAGE = 500
End = Callable[[Mapping[str, Status]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """What somebody says in a thread, and who is to answer.

    Without a thread a new one begins; without a parent it goes on where something was said last. Without parts nothing
    is said: the targets answer the parent. `request` has what all their runs share; its target does not count.
    """

    targets: tuple[str, ...]
    parts: tuple[AnyPart, ...] = ()
    thread_id: str | None = None
    parent_id: str | None = None
    on_busy: OnBusy = OnBusy.QUEUE
    request: Request = field(default_factory=lambda: Request(target=""))

    @property
    def owner(self) -> str:
        return self.request.owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """A placeholder, and the run that will fill it."""

    message_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What was stored. `message_id` is None when nothing was said."""

    thread_id: str
    message_id: str | None
    answers: tuple[Answering, ...]


class Threads:
    """Say something, read it again, rename and delete. `end` ends runs that no worker holds."""

    def __init__(self, services: Services, worker: Worker, end: End) -> None:
        self._services, self._store, self._codec = services, services.store, services.codec
        self._worker, self._end = worker, end

    # Saying

    async def say(self, say: Say) -> Said:
        """Store what is said, the placeholders and their queued runs, all or nothing. Nothing waits for a model."""
        if not say.targets:
            raise UnknownTarget(target="nobody", problem="say who is to answer.")
        files = await self._files(say)
        while True:
            write = replace(await self._post_of(say), files=files)
            posted = await self._store.post(write)
            if posted:
                break  # else somebody was quicker: it goes on after what that one said
        await self._end(posted.interrupted)
        if posted.run_id != write.answers[0].submit.run.id:
            return await self._said_before(say, posted.run_id)
        return Said(
            thread_id=write.thread_id,
            message_id=write.message.id if write.message else None,
            answers=tuple(Answering(message_id=a.message.id, run_id=a.submit.run.id) for a in write.answers),
        )

    async def _post_of(self, say: Say) -> Post:
        thread_id = say.thread_id or new_id("thr")
        parent_id = await self._parent(say)
        ahead = await self._ahead(parent_id, say.thread_id or "")
        message = None
        if say.parts:
            encoded = self._codec.encode_parts(say.parts)
            author = f"user:{say.owner or 'local'}"
            message = NewMessage(id=new_id("msg"), parent_id=parent_id, participant=author, parts=encoded)
        elif parent_id is None and any(target.startswith("model:") for target in say.targets):
            raise BadInput(problem="There is nothing to answer: say something, or name the message that is meant.")
        given = input_of(say.parts or await self._parts(parent_id))
        above = message.id if message else parent_id
        answers = [await self._answer(say, target, given, thread_id, above) for target in say.targets]
        if say.request.idempotency_key:
            answers[0] = _keyed(answers[0], say, message)
        return Post(
            thread_id=thread_id,
            owner=say.owner,
            # As it is stored, without secrets.
            title=None if say.thread_id else title_of(self._codec.parts_shown(message.parts) if message else ()),
            message=message,
            answers=tuple(answers),
            ahead=() if say.on_busy is OnBusy.PARALLEL else ahead,
            on_busy=say.on_busy,
            at_end=say.thread_id is not None and not say.parent_id,
        )

    async def _parts(self, message_id: str | None) -> tuple[AnyPart, ...]:
        """What a message says by now, for who answers it."""
        row = await self._store.message(message_id) if message_id else None
        return self._codec.parts_used(row.parts) if row else ()

    async def _parent(self, say: Say) -> str | None:
        if say.thread_id is None and say.parent_id is not None:
            raise BadInput(problem=f"Message {say.parent_id} is in a thread: name that, too.")
        if say.thread_id is None or say.parent_id == ROOT:
            return None
        await self.thread(say.thread_id, owner=say.owner)
        return say.parent_id or await self._store.latest(say.thread_id)

    async def _answer(self, say: Say, target: str, given: object, thread_id: str, parent_id: str | None) -> Answer:
        placeholder = NewMessage(id=new_id("msg"), parent_id=parent_id, participant=target)
        request = replace(
            say.request,
            target=target,
            input=given,
            idempotency_key=None,
            thread_id=thread_id,
            message_id=placeholder.id,
        )
        return Answer(message=placeholder, submit=await self._prepare(request))

    async def _prepare(self, request: Request) -> Submit:
        write = self._services.submitter.prepare(request)
        self._worker.can_load(write.run.requires)
        return await store_large(self._codec, write)

    async def _ahead(self, parent_id: str | None, thread_id: str) -> tuple[str, ...]:
        """The runs that are under way on a branch, nearest first. Nothing can begin there any more: only end."""
        if parent_id is None:
            return ()
        path = _whole(await self._store.path(parent_id), parent_id, thread_id)
        live = [row for row in path if row.status and not row.status.terminal]
        return tuple(row.run_id for row in reversed(live) if row.run_id)

    async def _files(self, say: Say) -> tuple[tuple[str, int], ...]:
        """The stored files among the parts, each the owner's own. What lies elsewhere, lies inside the roots."""
        files = [part for part in say.parts if isinstance(part, File)]
        wanted = {part.uri: part for part in files if part.uri.startswith(STORED)}
        for file in files:
            await self._services.attachments().admit(file)
        if not wanted:
            return ()
        held = await self._store.holds(say.owner, list(wanted))
        for uri, part in wanted.items():
            if uri not in held:
                raise BadFile(name=part.name or "the file", problem="there is no such file. Upload it first.")
        return tuple(held.items())

    async def _said_before(self, say: Say, run_id: str) -> Said:
        """What was stored under the same idempotency key, for the same request."""
        row = await self._store.run(run_id)
        first = await self._store.message(row.message_id) if row and row.message_id else None
        if first is None:
            raise UnknownRun(run_id=run_id)  # deleted since
        replies = await self._store.replies(first.thread_id, first.parent_id)
        stored = [
            reply for reply in replies if reply.run_id and (reply.created_at, reply.id) >= (first.created_at, first.id)
        ]
        return Said(
            thread_id=first.thread_id,
            message_id=first.parent_id if say.parts else None,
            answers=tuple(Answering(message_id=m.id, run_id=m.run_id or "") for m in stored[: len(say.targets)]),
        )

    async def again(self, row: RunRow, request: Request) -> str:
        """Another run beside the one that answered: a sibling of its message. Gives its id."""
        before = await self._store.message(row.message_id or "")
        if before is None or row.thread_id is None:
            raise UnknownMessage(message_id=row.message_id or "?", thread_id=row.thread_id or "?")
        placeholder = NewMessage(id=new_id("msg"), parent_id=before.parent_id, participant=row.target)
        write = await self._prepare(replace(request, thread_id=row.thread_id, message_id=placeholder.id))
        posted = await self._store.post(
            Post(
                thread_id=row.thread_id,
                owner=row.owner,
                title=None,
                message=None,
                answers=(Answer(message=placeholder, submit=write),),
                ahead=await self._ahead(before.parent_id, row.thread_id),
            )
        )
        assert posted
        return posted.run_id

    async def regenerate(self, message_id: str, *, target: str | None = None, owner: str | None = None) -> Said:
        """Have a message answered anew, by the same target or by another, beside the answer that there is."""
        message = await self.message(message_id, owner=owner)
        if message.participant.startswith("user:"):
            raise BadInput(problem=f"Message {message_id} is no answer. Name one that an agent or a model gave.")
        thread = await self.thread(message.thread_id, owner=owner)
        return await self.say(
            Say(
                targets=(target or message.participant,),
                thread_id=thread.id,
                parent_id=message.parent_id or ROOT,
                request=Request(target="", owner=thread.owner),
            )
        )

    async def edit(
        self, message_id: str, parts: tuple[AnyPart, ...], *, targets: Sequence[str] = (), owner: str | None = None
    ) -> Said:
        """Say something else instead: a sibling of the message, answered by who answered that."""
        message = await self.message(message_id, owner=owner)
        if not message.participant.startswith("user:"):
            raise BadInput(problem=f"Message {message_id} was not said by a person. `regenerate` gives another answer.")
        answered = [reply.participant for reply in await self._replies(message) if reply.run_id]
        thread = await self.thread(message.thread_id, owner=owner)
        return await self.say(
            Say(
                targets=tuple(targets) or tuple(dict.fromkeys(answered)),
                parts=parts,
                thread_id=thread.id,
                parent_id=message.parent_id or ROOT,
                request=Request(target="", owner=thread.owner),
            )
        )

    async def _replies(self, message: ThreadMessage) -> list[MessageRow]:
        return await self._store.replies(message.thread_id, message.id)

    async def upload(self, data: bytes, media_type: str, name: str = "", *, owner: str = "") -> File:
        """Store a file, to be named in what is said later."""
        uri = await self._services.files.put(data)
        await self.own(uri, len(data), owner=owner)
        return File(uri=uri, media_type=media_type, name=name)

    async def own(self, uri: str, size: int, *, owner: str = "") -> None:
        """A file that was stored is the owner's: it may be named in what is said."""
        await self._store.keep(Keep(uri=uri, holder=new_id(UPLOAD), owner=owner, size=size))

    # Reading

    async def thread(self, thread_id: str, *, owner: str | None = None) -> ThreadRow:
        """A thread; somebody else's looks like one that is not there."""
        row = await self._store.thread(thread_id)
        if row is None or owner not in (None, row.owner):
            raise UnknownThread(thread_id=thread_id)
        return row

    async def named(self, text: str) -> ThreadRow:
        """A thread by its id, or by the beginning or the end of it."""
        return await self._store.thread(text) or await self.thread(await id_like(self._store, "threads", "thr", text))

    async def threads(
        self, *, owner: str | None = None, before: ThreadRow | None = None, limit: int = 50
    ) -> list[ThreadRow]:
        """The one that something was said in last, first; with `before`, those that come after that one."""
        return await self._store.threads(owner=owner, before=before, limit=limit)

    async def message(self, message_id: str, *, owner: str | None = None) -> ThreadMessage:
        row = await self._store.message(message_id)
        if row is None:
            raise UnknownMessage(message_id=message_id, thread_id="any")
        await self.thread(row.thread_id, owner=owner)
        return self._shown(row)

    async def messages(self, thread_id: str, *, owner: str | None = None) -> list[ThreadMessage]:
        """All messages of a thread in the order in which they were said, with all branches."""
        await self.thread(thread_id, owner=owner)
        rows: list[MessageRow] = []
        while page := await self._store.messages(thread_id, rows[-1] if rows else None, PAGE):
            rows += page
            if len(page) < PAGE:
                break
        return [self._shown(row) for row in rows]

    async def branch(
        self, thread_id: str, leaf_id: str | None = None, *, owner: str | None = None
    ) -> list[ThreadMessage]:
        """From the first message to a leaf; to the newest when none is named."""
        await self.thread(thread_id, owner=owner)
        leaf = leaf_id or await self._store.latest(thread_id)
        return await self._branch(leaf, thread_id) if leaf else []

    async def _branch(self, leaf_id: str, thread_id: str) -> list[ThreadMessage]:
        rows = _whole(await self._store.branch(leaf_id), leaf_id, thread_id)
        return [self._shown(row) for row in rows]

    async def search(self, text: str, *, owner: str | None = None, limit: int = 20) -> list[ThreadMessage]:
        """Messages that say it, newest first, whatever its case."""
        wanted = " ".join(text.split())
        if not wanted:
            raise BadInput(problem="There is nothing to search for.")
        # What is stored is JSON, with keys and escapes; and databases know only the small letters of English.
        word = max(re.findall(r"[a-z0-9]+", wanted.lower()), key=len, default="")
        found: list[ThreadMessage] = []
        before = None
        while len(found) < limit and (rows := await self._store.saying(word, owner=owner, before=before, limit=PAGE)):
            found += [message for message in map(self._shown, rows) if _says(message, wanted)]
            before = rows[-1].id
        return found[:limit]

    def _shown(self, row: MessageRow) -> ThreadMessage:
        return thread_message(row, self._codec.parts_shown(row.parts))

    # Changing

    async def rename(self, thread_id: str, title: str, *, owner: str | None = None) -> None:
        stored = self._codec.parts_shown(self._codec.encode_parts((Text(text=title),)))  # without secrets
        if not (words := one_line(text_of(stored))):
            raise BadInput(problem="A title says something.")
        await self.thread(thread_id, owner=owner)
        await self._store.rename(Rename(thread_id=thread_id, title=words))

    async def delete(self, thread_id: str, *, owner: str | None = None, patience: float = 10.0) -> bool:
        """Delete a thread with all that belongs to it. Readers miss it at once; what runs in it is stopped first.

        Whether all is gone already: what does not stop within `patience` seconds is taken away by a worker later.
        """
        await self.thread(thread_id, owner=owner)
        await self._end(await self._store.drop(Drop(thread_id=thread_id)))
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not await purge(self._store, self._codec, self._services.workspaces, thread_id):
                    await asyncio.sleep(LOOK_FOR_END)
                return True
        return False


def parts_of(said: object) -> tuple[AnyPart, ...]:
    """What somebody says, as parts: text, parts as they are, and anything else as data."""
    match said:
        case None:
            return ()
        case str():
            return (Text(text=said),) if said else ()
        case list() | tuple() if said and all(isinstance(part, AnyPart) for part in said):
            return tuple(said)
        case _:
            return (Data(data=said),)


def input_of(parts: Sequence[AnyPart]) -> object:
    """What a run is given, of what was said: data as it is, else the text."""
    if len(parts) == 1 and isinstance(parts[0], Data):
        return parts[0].data
    return text_of(tuple(parts)) or None


def _whole(rows: Sequence[MessageRow], leaf_id: str, thread_id: str) -> list[MessageRow]:
    """A branch of a thread from its root on."""
    if not any(row.id == leaf_id and row.thread_id == thread_id for row in rows):
        raise UnknownMessage(message_id=leaf_id, thread_id=thread_id)
    return order(rows, leaf_id)


def _keyed(answer: Answer, say: Say, message: NewMessage | None) -> Answer:
    """The answer whose run stands for all that is said under an idempotency key."""
    wanted = replace(say.request, target="", input=None)
    said = [say.thread_id, say.parent_id, message.parts if message else None, say.targets, say.on_busy, wanted]
    run = replace(answer.submit.run, idempotency_key=say.request.idempotency_key, request_digest=digest_of(said))
    return replace(answer, submit=replace(answer.submit, run=run))


def _says(message: ThreadMessage, text: str) -> bool:
    said = " ".join(text_of(message.parts).split()).casefold()
    return text.casefold() in said
