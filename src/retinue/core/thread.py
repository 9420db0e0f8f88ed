"""Conversations: a tree of messages, the branch that leads to one, and what a model is shown of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import msgspec

from retinue.core.messages import AnyPart, Data, File, Message, Text, Thinking, ToolCall, ToolResult, text_of
from retinue.core.outcome import Status
from retinue.core.run import CHARACTERS_OF_A_TOKEN
from retinue.errors import BrokenThread

TITLE_LENGTH = 60
TOKENS_OF_A_FILE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMessage:
    """One node of the tree. `status` is that of the run that answers with it; None when a person said it, or when the
    run is gone."""

    id: str
    thread_id: str
    parent_id: str | None
    participant: str
    parts: tuple[AnyPart, ...]
    run_id: str | None = None
    created_at: int = 0
    status: Status | None = None


_parts = msgspec.json.Decoder(tuple[AnyPart, ...])


def decode_parts(data: str | bytes) -> tuple[AnyPart, ...]:
    return _parts.decode(data)


class Node(Protocol):
    """A message, in as much as it hangs from another one."""

    @property
    def id(self) -> str: ...
    @property
    def parent_id(self) -> str | None: ...


N = TypeVar("N", bound=Node)


def order(messages: Iterable[N], leaf_id: str) -> list[N]:
    """A branch from the root to its leaf. One that has no beginning, or goes in a circle, is refused."""
    by_id = {message.id: message for message in messages}
    branch: list[N] = []
    at: str | None = leaf_id
    while at is not None:
        message = by_id.pop(at, None)
        if message is None:
            circle = any(at == passed.id for passed in branch)
            problem = f"message {at} is above itself." if circle else f"message {at}, which it hangs from, is missing."
            raise BrokenThread(message_id=leaf_id, problem=problem)
        branch.append(message)
        at = message.parent_id
    return branch[::-1]


def turns(branch: Iterable[ThreadMessage], answering: str) -> list[Message]:
    """A branch as who answers sees it: what it said itself is the model's, what others said is a user's, agents and
    models by their name. A message that says nothing (yet) is no turn."""
    said = ((message, _said(message.parts)) for message in branch)
    return [_turn(message, parts, answering) for message, parts in said if parts]


def _turn(message: ThreadMessage, parts: tuple[AnyPart, ...], answering: str) -> Message:
    if message.participant == answering:
        return Message(role="model", parts=parts)
    if message.participant.startswith("user:"):
        return Message(role="user", parts=parts)
    named = Text(text=f"[{message.participant.partition(':')[2]}]: ")
    return Message(role="user", parts=(named, *parts))


def _said(parts: tuple[AnyPart, ...]) -> tuple[AnyPart, ...]:
    """What of a message others see: not what its author thought."""
    return tuple(part for part in parts if not isinstance(part, Thinking))


def files_shown(messages: Iterable[Message]) -> list[Message]:
    """A transcript in which the files that calls gave follow their results, as a person would show them."""
    shown: list[Message] = []
    tools: dict[str, str] = {}
    for message in messages:
        tools |= {part.call_id: part.tool for part in message.parts if isinstance(part, ToolCall)}
        results = [part for part in message.parts if isinstance(part, ToolResult) and part.files]
        shown.append(replace(message, parts=tuple(map(_without_files, message.parts))))
        shown += [shown_by(tools.get(result.call_id, ""), result) for result in results]
    return shown


def _without_files(part: AnyPart) -> AnyPart:
    return msgspec.structs.replace(part, files=()) if isinstance(part, ToolResult) and part.files else part


def shown_by(tool: str, result: ToolResult) -> Message:
    """The files that a call gave."""
    names = ", ".join(file.name or file.media_type for file in result.files)
    return Message(role="user", parts=(Text(text=f"[{tool or result.call_id} gave: {names}]"), *result.files))


def characters(messages: Iterable[Message]) -> int:
    """How much a model is given to read, without its files."""
    return sum(_length(part) for message in messages for part in message.parts)


def _length(part: AnyPart) -> int:
    match part:
        case Text(text=text) | Thinking(text=text):
            return len(text)
        case Data(data=data):
            return len(msgspec.json.encode(data))
        case ToolCall(arguments=value) | ToolResult(result=value):
            return len(msgspec.json.encode(value))
        case File():
            return 0


def tokens(message: Message) -> int:
    """About how many tokens a message is."""
    files = sum(isinstance(part, File) for part in message.parts)
    return characters((message,)) // CHARACTERS_OF_A_TOKEN + TOKENS_OF_A_FILE * files + 4


def fit(messages: Sequence[Message], room: int) -> tuple[list[Message], int]:
    """What fits into a window of tokens, and how many messages were left out: of the middle, the oldest. The first
    stays, for it says what this is about, and the newest stay. Results go with the calls that they are of."""
    sizes = [tokens(message) for message in messages]
    total, gone = sum(sizes), 0
    while gone < len(messages) - 2 and (total > room or (gone and messages[1 + gone].role == "tool")):
        gone += 1
        total -= sizes[gone]
    return [*messages[:1], *messages[1 + gone :]], gone


def title_of(parts: Sequence[AnyPart]) -> str:
    """What a thread is called until somebody gives it a name: the beginning of what was said first."""
    title = one_line(text_of(tuple(parts)) or " ".join(map(_name, parts)))
    if len(title) <= TITLE_LENGTH:
        return title
    return title[: TITLE_LENGTH + 1].rsplit(" ", 1)[0][:TITLE_LENGTH] + "…"


def _name(part: AnyPart) -> str:
    match part:
        case File(name=name, media_type=media_type):
            return name or media_type
        case Data(data=data):
            return msgspec.json.encode(data).decode()
        case _:
            return ""


_space = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def one_line(text: str) -> str:
    """The words of a text, without what is between them: databases and lists have no room for that."""
    return _space.sub(" ", text).strip()


def answer_parts(output: object, partial: object) -> tuple[AnyPart, ...]:
    """What a run says in its thread: its output, or what there was of it."""
    value = partial if output is None else output
    if value is None:
        return ()
    return (Text(text=value),) if isinstance(value, str) else (Data(data=value),)
