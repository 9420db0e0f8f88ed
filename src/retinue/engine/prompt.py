"""What a model is given to read: the branch of the thread, with its files opened, within the model's window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from retinue.core import events as e
from retinue.core.messages import AnyPart, File, Message
from retinue.core.thread import ThreadMessage, fit, order
from retinue.engine.codec import Codec
from retinue.ports.files import Attachments
from retinue.ports.models import Takes
from retinue.ports.store import MessageRow

# Of the window, what is left for the answer, and because tokens are only estimated.
ROOM_FOR_THE_ANSWER = 0.2


@dataclass(slots=True)
class Prompt:
    """Messages with the bytes of the files that stayed files, and what there is to say about how they were made."""

    messages: Sequence[Message]
    files: dict[str, bytes] = field(default_factory=dict)
    warnings: list[e.Warned] = field(default_factory=list)


def branch_of(rows: Iterable[MessageRow], codec: Codec, message_id: str) -> list[ThreadMessage]:
    """What was said before a message, and itself, from the beginning on."""
    return order((thread_message(row, codec.parts_used(row.parts)) for row in rows), message_id)


def thread_message(row: MessageRow, parts: tuple[AnyPart, ...]) -> ThreadMessage:
    return ThreadMessage(
        id=row.id,
        thread_id=row.thread_id,
        parent_id=row.parent_id,
        participant=row.participant,
        parts=parts,
        run_id=row.run_id,
        created_at=row.created_at,
        status=row.status,
    )


async def prompt_of(said: Sequence[Message], takes: Takes, attachments: Attachments) -> Prompt:
    """The turns of a branch as a model can take them."""
    prompt = Prompt(said)
    _cut_to_window(prompt, takes)
    prompt = await opened_prompt(prompt, takes, attachments)
    _cut_to_window(prompt, takes)  # what files became is known only now
    return prompt


async def opened_prompt(prompt: Prompt, takes: Takes, attachments: Attachments) -> Prompt:
    """The same messages with their files opened."""
    prompt.messages = [await _opened(prompt, message, takes, attachments) for message in prompt.messages]
    return prompt


def _cut_to_window(prompt: Prompt, takes: Takes) -> None:
    if takes.context_tokens is None:
        return
    room = int(takes.context_tokens * (1 - ROOM_FOR_THE_ANSWER))
    prompt.messages, gone = fit(prompt.messages, room)
    if gone:
        message = f"the conversation is longer than the model's window: {gone} messages of its middle were left out"
        prompt.warnings.append(e.Warned(code="history_cut", message=message))


async def _opened(prompt: Prompt, message: Message, takes: Takes, attachments: Attachments) -> Message:
    if not any(isinstance(part, File) for part in message.parts):
        return message
    parts: list[AnyPart] = []
    for part in message.parts:
        if not isinstance(part, File):
            parts.append(part)
            continue
        opened = await attachments.open(part, takes)
        parts += opened.parts
        prompt.files |= opened.files
        if opened.problem:
            prompt.warnings.append(e.Warned(code="file", message=opened.problem))
    return replace(message, parts=tuple(parts))
