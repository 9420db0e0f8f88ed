"""The two ways of showing a run while it goes on: a terminal that is kept up to date, and plain lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from rich.live import Live
from rich.text import Text

from retinue.cli.show import ago, at, clean, console, lasted, now_ms, say
from retinue.cli.steps import Line, Open, Steps
from retinue.service import Followed

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_A_SECOND = 8
LINES_SAID = 8
ROOM_FOR_NAMES = 24


class View(Protocol):
    """Somebody who is shown a run."""

    steps: Steps

    def show(self, seen: Followed) -> None: ...

    def note(self, text: str) -> None: ...


class Pages:
    """Plain lines, each with its time: for files, pipes and logs."""

    def __init__(self) -> None:
        self.steps = Steps()

    def show(self, seen: Followed) -> None:
        for line in self.steps.take(seen):
            more = f"  {line.more}" if line.more else ""
            say(f"{at(line.at)}  {'  ' * line.depth}{line.mark} {clean(line.text)}{'  started' * line.begun}{more}")

    def note(self, text: str) -> None:
        say(text)


class Silence:
    """Nothing is shown: the output is for a program."""

    def __init__(self) -> None:
        self.steps = Steps()

    def show(self, seen: Followed) -> None:
        self.steps.take(seen)

    def note(self, text: str) -> None:
        """Nobody looks."""


class Screen:
    """A terminal: what has ended scrolls up, what is under way stays below and is kept up to date."""

    def __init__(self, live: Live) -> None:
        self.steps, self._live, self._frame = Steps(), live, 0

    def show(self, seen: Followed) -> None:
        lines = [line for line in self.steps.take(seen) if not line.begun]
        if lines:  # what is printed scrolls up above what is under way, so that has to be told first
            self._live.update(self._below())
        for line in lines:
            self._live.console.print(_painted(line), soft_wrap=True)

    def note(self, text: str) -> None:
        self._live.console.print(Text(text, "dim"), soft_wrap=True)

    async def keep_up(self) -> None:
        while True:
            self.draw()
            await asyncio.sleep(1 / FRAMES_A_SECOND)

    def draw(self) -> None:
        self._frame += 1
        self._live.update(self._below(), refresh=True)

    def _below(self) -> Text:
        now, lines = now_ms(), []
        for run_id, said in self.steps.said.items():
            lines += self._said(said, self.steps.depths.get(run_id, 0))
        frame = FRAMES[self._frame % len(FRAMES)]
        lines += [_under_way(step, frame, now) for step in self.steps.open.values()]
        return Text("\n").join(lines[-(console().height - 2) :])

    def _said(self, said: str, depth: int) -> list[Text]:
        """The end of an answer that is being given."""
        indent = "  " * (depth + 2)
        text = Text(clean(said[-4000:]), "italic")
        wrapped = text.wrap(console(), max(20, console().width - len(indent) - 1), tab_size=4)
        return [Text(indent) + line for line in wrapped[-LINES_SAID:]]


def _painted(line: Line) -> Text:
    indent = "  " * line.depth
    name = clean(line.text)
    room = " " * max(2, ROOM_FOR_NAMES - len(indent) - len(name)) if line.more else ""
    return Text.assemble("  ", indent, (line.mark, line.style), " ", name, room, (clean(line.more), "dim"))


def _under_way(step: Open, frame: str, now: int) -> Text:
    """A step that is under way, and for how long, or until when."""
    indent = "  " * step.depth
    if step.until is not None:
        more, mark = f"until {at(step.until, now)}, {ago(step.until, now)}", "◦"
    else:
        more, mark = lasted(max(0, now - step.at)), frame
    if step.more and not step.more.startswith("run_"):
        more += f" · {step.more}"
    room = " " * max(2, ROOM_FOR_NAMES - len(indent) - len(step.text))
    text = Text.assemble("  ", indent, (mark, "cyan"), " ", clean(step.text), room, (more, "dim"))
    text.truncate(console().width - 1, overflow="ellipsis")
    return text


@asynccontextmanager
async def viewing(*, silent: bool = False) -> AsyncIterator[View]:
    """The view that fits where the output goes."""
    if silent:
        yield Silence()
    elif not console().is_terminal or console().is_dumb_terminal:
        yield Pages()
    else:
        live = Live(console=console(), auto_refresh=False, transient=True, redirect_stdout=False)
        with live:
            screen = Screen(live)
            keeping_up = asyncio.create_task(screen.keep_up())
            try:
                yield screen
            finally:
                keeping_up.cancel()
                live.update(Text(""), refresh=True)
