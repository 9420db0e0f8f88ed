"""The two ways of showing a run while it goes on: a terminal that is kept up to date, and plain lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from rich.cells import cell_len
from rich.live import Live
from rich.text import Text

from retinue.cli.show import ago, at, clean, console, lasted, now_ms, say, tokens
from retinue.cli.steps import TURN, Line, Open, Steps
from retinue.service import Followed

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_A_SECOND = 8
LINES_SAID, LINES_THOUGHT = 8, 3
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
            self._live.console.print(painted(line), soft_wrap=True)

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
        return Text("\n").join(under_way(self.steps, self._frame)[-(console().height - 2) :])


def under_way(steps: Steps, frame: int) -> list[Text]:
    """What is going on now, a line each: calls and turns, the end of what is being said, what was used so far."""
    now, lines = now_ms(), list[Text]()
    for (run_id, key), step in list(steps.open.items()):  # whoever draws it may be another thread
        lines.append(_open(step, FRAMES[frame % len(FRAMES)], now))
        if key == TURN:
            lines += speech(steps, run_id, step.depth)
    lines += [
        line for run_id in list(steps.said) if (run_id, TURN) not in steps.open for line in speech(steps, run_id, 0)
    ]
    left = steps.meter.left_ms(now)
    used = [tokens(steps.meter.usage), "" if left is None else f"{lasted(left)} left"]
    if status := " · ".join(filter(None, used)):
        lines.append(_fitting(Text(f"  {status}", "dim")))
    return lines


def speech(steps: Steps, run_id: str, depth: int) -> list[Text]:
    """The end of an answer that is being given; before that, of what is thought."""
    said, thought = steps.said.get(run_id, ""), steps.thought.get(run_id, "")
    if said.strip():
        return _wrapped(said, depth + 2, "italic")[-LINES_SAID:]
    return _wrapped(thought, depth + 2, "dim")[-LINES_THOUGHT:] if thought.strip() else []


def _wrapped(text: str, depth: int, style: str) -> list[Text]:
    indent = "  " * depth
    lines = Text(clean(text.rstrip()), style).wrap(console(), max(20, console().width - len(indent) - 1), tab_size=4)
    return [Text(indent) + line for line in lines]


def painted(line: Line) -> Text:
    """A line as a terminal shows it."""
    indent, style = "  " * line.depth, "dim" if line.style == "dim" else ""
    text = Text.assemble("  ", indent, (line.mark, line.style), " ", (clean(line.text), style))
    if line.more:
        text.append(_room(text)).append(clean(line.more), "dim")
    return _fitting(text) if line.brief else _folded(text, len(indent) + 4)


def _folded(text: Text, indent: int) -> Text:
    """All of it, below itself where it needs more than a line of a terminal."""
    if not console().is_terminal:
        return text
    room = max(20, console().width - indent - 1)
    first, *rest = text.wrap(console(), room + indent)
    if not rest:
        return first
    below = text[len(first.plain) :].wrap(console(), room)
    return Text("\n").join([first, *(Text(" " * indent) + line for line in below)])


def _room(before: Text) -> str:
    """What is said of steps stands below each other, if their names are not too long and there is room."""
    return " " * max(2, min(ROOM_FOR_NAMES, console().width // 4) + 4 - cell_len(before.plain))


def _fitting(text: Text) -> Text:
    if console().is_terminal:
        text.truncate(console().width - 1, overflow="ellipsis")
    return text


def _open(step: Open, frame: str, now: int) -> Text:
    """A step that is under way, and for how long, or until when."""
    indent = "  " * step.depth
    if step.until is not None:
        more, mark = f"until {at(step.until, now)}, {ago(step.until, now)}", "◦"
    else:
        more, mark = lasted(max(0, now - step.at)), frame
    if step.more:
        more += f" · {step.more}"
    text = Text.assemble("  ", indent, (mark, "cyan"), " ", clean(step.text))
    return _fitting(text.append(_room(text)).append(clean(more), "dim"))


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
