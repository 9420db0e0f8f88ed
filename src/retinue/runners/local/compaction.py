"""Shortening a prompt before it no longer fits: first results that are long and old, then a summary."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field

from retinue.core import events as e
from retinue.core.compaction import (
    CHECK,
    SUMMARISE,
    CompactionConfig,
    Need,
    as_source,
    cut_of,
    need_of,
    results_to_move,
)
from retinue.core.messages import Message, Text, text_of
from retinue.core.notes import as_text
from retinue.core.outcome import Usage
from retinue.core.run import CHARACTERS_OF_A_TOKEN
from retinue.engine.context import RunContext
from retinue.errors import ModelError
from retinue.ports.models import Model, ModelRequest, ModelResponse
from retinue.runners.local.prompt import KEPT_OF_A_RESULT


class NoSummary(Exception):
    """There is none, and why."""


@dataclass
class Compaction:
    """Keeps the prompts of a run within its model's window."""

    ctx: RunContext
    model: Model
    config: CompactionConfig
    spent: Usage = field(default=Usage(), init=False)

    async def before_turn(self) -> None:
        """Shorten the prompt of the next turn if that of the last was too long."""
        state = self.ctx.state
        need = need_of(state, self.model.takes.context_tokens, self.config)
        if need is None:
            return
        left = self._move(need)
        if left <= need.room:
            return
        cut = cut_of(state, self.config)
        if cut <= max(state.summarised, 1):
            return
        await self._summarise(cut, left)

    def _move(self, need: Need) -> int:
        """Leave only the ends of old results; how many tokens there are then."""
        moving = results_to_move(self.ctx.state, self.config)
        if not moving:
            return need.tokens
        saved = sum(len(as_text(result.result)) - KEPT_OF_A_RESULT for result in moving) // CHARACTERS_OF_A_TOKEN
        left = max(0, need.tokens - saved)
        moved = tuple(result.call_id for result in reversed(moving))
        self.ctx.note(e.HistoryCompacted(moved=moved, tokens_before=need.tokens, tokens_after=left))
        return left

    async def _summarise(self, cut: int, before: int) -> None:
        state = self.ctx.state
        source = as_source(state.transcript[state.summarised : cut], state.summary)
        self.spent = Usage()
        try:
            summary = await self._summary(source)
        except (ModelError, NoSummary) as error:
            failed = e.HistoryCompacted(
                ok=False, problem=str(error), tokens_before=before, tokens_after=before, usage=self.spent
            )
            self.ctx.note(failed)
            return
        after = before - (len(source) - len(summary)) // CHARACTERS_OF_A_TOKEN
        self.ctx.note(
            e.HistoryCompacted(
                upto=cut, summary=summary, tokens_before=before, tokens_after=max(after, 1), usage=self.spent
            )
        )

    async def _summary(self, source: str) -> str:
        """A summary, checked against its source in a second pass."""
        first = await self._ask(SUMMARISE, source)
        if not first.strip():
            raise NoSummary("the summary was empty")
        second = await self._ask(CHECK, f"THE SOURCE\n{source}\n\nTHE SUMMARY\n{first}")
        summary = (second if second.strip() else first).strip()
        if len(summary) >= len(source):
            raise NoSummary("the summary was not shorter than what it stands for")
        return summary

    async def _ask(self, instructions: str, text: str) -> str:
        request = ModelRequest(
            messages=(Message(role="user", parts=(Text(text=text),)),),
            instructions=instructions,
            deadline=self.ctx.deadline,
        )
        said = ""
        async with aclosing(self.model.ask(request)) as answer:
            async for piece in answer:
                if isinstance(piece, ModelResponse):
                    said, self.spent = text_of(piece.parts), self.spent + piece.usage
        return said
