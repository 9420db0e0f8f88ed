"""Which part of a history gives way when a prompt grows too long. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from retinue.core.declared import Count
from retinue.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from retinue.core.notes import as_text, shortened
from retinue.core.run import CHARACTERS_OF_A_TOKEN, RunState
from retinue.core.thread import tokens

GROWTH = 1.1
"""By so much a history has to grow before it is shortened again, whether that came to anything or not."""
SMALL_RESULT = 2_500
"""Characters of a result that is not worth moving."""
SHOWN_TO_SUMMARISE = 4_000
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class CompactionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[compaction]`: shares of the model's window, and tokens."""

    threshold: Share = 0.5
    """A prompt that used more than this is shortened."""
    results: Count = 50_000
    """So many tokens of the newest results of tools stay as they are."""
    keep: Share = 0.3
    """How much of the history stays as it is when the rest is summarised."""


@dataclass(frozen=True, slots=True)
class Need:
    """How many tokens a prompt has, and how many it may have."""

    tokens: int
    room: int


def need_of(state: RunState, window: int | None, config: CompactionConfig) -> Need | None:
    """Whether the next prompt is to be shortened: the last one, and what was said since."""
    if window is None:
        return None
    before = state.prompt_tokens or state.prompt_characters // CHARACTERS_OF_A_TOKEN
    used = before + sum(tokens(message) for message in state.since_asked)
    room = int(window * config.threshold)
    if used <= room or used < state.compacted_at * GROWTH:
        return None
    return Need(used, room)


def results_to_move(state: RunState, config: CompactionConfig) -> list[ToolResult]:
    """Results that are older than the newest, and large enough that it helps."""
    newest, moving = 0, list[ToolResult]()
    for result in _results_backwards(state):
        length = len(as_text(result.result))
        newest += length // CHARACTERS_OF_A_TOKEN
        if newest > config.results and length > SMALL_RESULT and result.call_id not in state.moved:
            moving.append(result)
    return moving


def _results_backwards(state: RunState) -> Iterator[ToolResult]:
    for message in reversed(state.messages[state.summarised :]):
        yield from (part for part in reversed(message.parts) if isinstance(part, ToolResult))


def cut_of(state: RunState, config: CompactionConfig) -> int:
    """Before which message everything is summarised; not more than what is summarised already when nothing helps.

    What is kept begins with something that was said, never with the result of a call.
    """
    transcript = state.transcript
    sizes = [tokens(message) for message in transcript]
    keep = config.keep * sum(sizes[state.summarised :])
    cut, kept = len(transcript), 0
    while cut > state.summarised and kept < keep:
        cut -= 1
        kept += sizes[cut]
    while cut < len(transcript) and transcript[cut].role == "tool":
        cut += 1
    last = len(transcript) - 1 if state.asked else len(transcript)  # calls stay with their results
    return min(cut, last)


def as_source(messages: Sequence[Message], summary: str, task: Sequence[Message]) -> str:
    """What a summary is made of."""
    told = [f"THE TASK\n{_told(message)}" for message in task]
    told += [f"SUMMARY OF WHAT WENT BEFORE\n{summary}"] if summary else []
    said = (message for message in messages if message not in task)
    return "\n\n".join([*told, *(f"{message.role.upper()}\n{_told(message)}" for message in said)])


def _told(message: Message) -> str:
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(shortened(text, SHOWN_TO_SUMMARISE))
            case Thinking():
                pass
            case ToolCall(tool=tool, arguments=arguments):
                lines.append(f"calls {tool} with {shortened(as_text(arguments), SHOWN_TO_SUMMARISE)}")
            case ToolResult(call_id=call_id, result=result, files=files):
                lines.append(f"result of {call_id}: {shortened(as_text(result), SHOWN_TO_SUMMARISE)}")
                lines += [f"a file of {call_id}: {file.name} {file.uri} ({file.media_type})" for file in files]
            case other:
                lines.append(msgspec.json.encode(other).decode())
    return "\n".join(lines)


SUMMARISE = """\
You shorten the history of an agent's work, so that it can go on with your summary in the place of the history. The
task stays beside it, word for word. Keep: the goals; facts, names, numbers and identifiers that were found; decisions
and why they were taken; what is still open; references to files and to results of calls. If there is a summary of what
went before, take it over into yours. Write only the summary."""
CHECK = """\
You compare a summary of an agent's work with what it was made of. Write the summary again, with everything put in that
is missing and matters for going on, and everything put right that is wrong. Write only the summary."""
