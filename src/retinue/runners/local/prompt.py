"""What an agent's model is given to read: how it was opened, the branch, and what the run has said and heard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from retinue.core.messages import AnyPart, Message, Text, Thinking, ToolResult
from retinue.core.notes import as_text, shortened
from retinue.core.run import RunState
from retinue.core.thread import characters, shown_by
from retinue.engine.context import RunContext
from retinue.engine.prompt import Prompt
from retinue.ports.models import Takes
from retinue.runners.local.opening import Opened, saying

KEPT_OF_A_RESULT = 2_000
"""Characters of a result that was moved out of the prompt."""


class LocalPrompt:
    """Messages of a run, made once and added to: a long run must not read itself again at each turn."""

    def __init__(self, ctx: RunContext, opening: Opened, takes: Takes) -> None:
        self._ctx, self._takes, self._query = ctx, takes, opening.query
        self.head = tuple(opening.head.messages)
        self.files: dict[str, bytes] = dict(opening.head.files)
        self._opened: dict[str, Message] = {}
        self._shown: list[Message] = []
        self._taken, self._view = ctx.state.summarised, (0, 0)  # what was shortened before is shown so
        self._characters = characters(self.head)

    @property
    def task(self) -> tuple[Message, ...]:
        """What the run was asked: it stays, however much is summarised."""
        transcript = self._ctx.state.transcript
        said = self.head[-1:] if self._ctx.state.input_at is None else self._first(len(transcript))
        return tuple(message for message in said if message.role == "user")

    def _first(self, upto: int) -> list[Message]:
        """The first thing that was said, and what this run was asked, where it goes on from another one."""
        state = self._ctx.state
        first = [state.transcript[at] for at in sorted({0, state.input_at or 0}) if at < upto]
        return self._as_shown([message for message in first if message.role == "user"])

    async def prepare(self) -> None:
        """Open the files of new messages, so that `messages` needs no more than memory."""
        state = self._ctx.state
        for message in (*state.transcript[self._taken :], *state.next_messages(())):
            for part in message.parts:
                if isinstance(part, ToolResult) and part.files and part.call_id not in self._opened:
                    await self._open(part)

    async def _open(self, result: ToolResult) -> None:
        """What a call gave besides text follows its result, as a person would show it."""
        call = self._ctx.state.calls.get(result.call_id)
        prompt = Prompt([shown_by(call.tool if call else "", result)])
        opened = await self._ctx.opened(prompt, self._takes)
        self._opened[result.call_id] = opened.messages[0]
        self.files |= opened.files

    def messages(self) -> tuple[Message, ...]:
        """All that was said until now: what the open turn was given, however often it is asked."""
        self._take_new()
        return (*self.head, *self._shown)

    def next(self, notes: tuple[str, ...], results: Iterable[str] = ()) -> tuple[Message, ...]:
        """All that the next turn is given, with what it adds itself."""
        return (*self.messages(), *self._as_shown(self._ctx.state.next_messages(notes, results)))

    def count(self, messages: Sequence[Message]) -> int:
        """How many characters these are; of what was there before, it is known."""
        known = len(self.head) + len(self._shown)
        return self._characters + characters(messages[known:])

    def _take_new(self) -> None:
        """What has come to the transcript since; all of it anew when the history was shortened."""
        state = self._ctx.state
        if self._view != (view := _view_of(state)):
            self._view, self._taken, self._shown = view, state.summarised, self._beginning()
            self._characters = characters(self.head) + characters(self._shown)
        new = self._as_shown(state.transcript[self._taken :])
        self._shown += new
        self._characters += characters(new)
        self._taken = len(state.transcript)

    def _beginning(self) -> list[Message]:
        """What was said first, and what stands for all that a summary replaces."""
        state = self._ctx.state
        if not state.summarised:
            return []
        summary = Message(role="user", parts=(Text(text=f"What happened so far, in short:\n{state.summary}"),))
        return [*self._first(state.summarised), summary]

    def _as_shown(self, messages: Sequence[Message]) -> list[Message]:
        shown: list[Message] = []
        for message in messages:
            if message.role != "tool":
                shown += self._said(message)
                continue
            results = [part for part in message.parts if isinstance(part, ToolResult)]
            shown.append(replace(message, parts=tuple(self._result(result) for result in results)))
            shown += [self._opened[result.call_id] for result in results if result.call_id in self._opened]
        return shown

    def _said(self, message: Message) -> list[Message]:
        """An answer that says nothing is left out: there are providers that refuse the request for it."""
        if message.role == "model":
            return [message] if any(map(_says_something, message.parts)) else []
        at = self._ctx.state.input_at
        stands_for_input = at is not None and message is self._ctx.state.transcript[at]
        return [saying(self._query, message) if self._query and stands_for_input else message]

    def _result(self, result: ToolResult) -> ToolResult:
        if result.call_id not in self._ctx.state.moved:
            return msgspec.structs.replace(result, files=())
        kept = shortened(as_text(result.result), KEPT_OF_A_RESULT)
        reference = f'{kept}\n[read_result(call_id="{result.call_id}") gives the whole of it]'
        return msgspec.structs.replace(result, result=reference, files=())


def _view_of(state: RunState) -> tuple[int, int]:
    return state.summarised, len(state.moved)


def _says_something(part: AnyPart) -> bool:
    return not isinstance(part, Thinking) and not (isinstance(part, Text) and not part.text.strip())
