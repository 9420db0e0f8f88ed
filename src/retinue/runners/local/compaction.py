"""Shortening a prompt before it no longer fits: first results that are long and old, then a summary."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from retinue.core import events as e
from retinue.core.agent import AgentLimits
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
from retinue.ports.models import Model, ModelRequest
from retinue.runners.aside import Aside
from retinue.runners.local.prompt import KEPT_OF_A_RESULT, LocalPrompt


class NoSummary(Exception):
    """There is none, and why."""


@dataclass
class Compaction:
    """Keeps the prompts of a run within its model's window."""

    ctx: RunContext
    model: Model
    prompt: LocalPrompt
    config: CompactionConfig
    limits: AgentLimits

    async def before_turn(self) -> None:
        """Shorten the prompt of the next turn if it would be too long."""
        state = self.ctx.state
        need = need_of(state, self.model.takes.context_tokens, self.config)
        if need is None:
            return
        left = self._move(need)
        if left <= need.room:
            return
        cut = cut_of(state, self.config)
        if cut > max(state.summarised, 1):
            await self._summarise(cut, left)

    def _move(self, need: Need) -> int:
        """Leave only the ends of old results; how many tokens there are then."""
        moving = results_to_move(self.ctx.state, self.config)
        if not moving:
            return need.tokens
        saved = sum(len(as_text(result.result)) - KEPT_OF_A_RESULT for result in moving) // CHARACTERS_OF_A_TOKEN
        left = max(1, need.tokens - saved)
        moved = tuple(result.call_id for result in reversed(moving))
        self.ctx.note(e.HistoryCompacted(moved=moved, tokens_before=need.tokens, tokens_after=left))
        return left

    async def _summarise(self, cut: int, before: int) -> None:
        state = self.ctx.state
        source = as_source(state.transcript[state.summarised : cut], state.summary, self.prompt.task)
        aside = Aside(self.ctx, self.model, self.limits.turn_timeout, self.limits.idle_timeout)
        try:
            summary = await _summary(aside, source)
        except asyncio.CancelledError:
            self._failed("it was interrupted", before, aside.spent)
            raise
        except (ModelError, NoSummary) as error:
            self._failed(str(error), before, aside.spent)
            return
        after = max(1, before - (len(source) - len(summary)) // CHARACTERS_OF_A_TOKEN)
        self.ctx.note(
            e.HistoryCompacted(upto=cut, summary=summary, tokens_before=before, tokens_after=after, usage=aside.spent)
        )

    async def in_short(self, messages: Sequence[Message]) -> str:
        """A conversation, for somebody who was not there. Raises `ModelError` or `NoSummary`."""
        aside = Aside(self.ctx, self.model, self.limits.turn_timeout, self.limits.idle_timeout)
        try:
            summary = await _said(aside, SUMMARISE, as_source(messages, "", self.prompt.task))
        finally:
            self.ctx.note(e.HistoryCompacted(usage=aside.spent))
        if not summary:
            raise NoSummary("the summary was empty")
        return summary

    def _failed(self, problem: str, tokens: int, spent: Usage) -> None:
        self.ctx.note(
            e.HistoryCompacted(ok=False, problem=problem, tokens_before=tokens, tokens_after=tokens, usage=spent)
        )


async def _summary(aside: Aside, source: str) -> str:
    """A summary, checked against its source in a second pass."""
    first = await _said(aside, SUMMARISE, source)
    if not first:
        raise NoSummary("the summary was empty")
    if len(first) >= len(source):
        raise NoSummary("the summary was not shorter than what it stands for")
    second = await _said(aside, CHECK, f"THE SOURCE\n{source}\n\nTHE SUMMARY\n{first}")
    return second if 0 < len(second) < len(source) else first


async def _said(aside: Aside, instructions: str, text: str) -> str:
    asked = Message(role="user", parts=(Text(text=text),))
    return text_of((await aside.ask(ModelRequest(messages=(asked,), instructions=instructions))).parts).strip()
