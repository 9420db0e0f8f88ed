"""An answer while it is being given: Markdown on a terminal, plain text elsewhere."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Self

from rich.console import RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from retinue.cli.live import painted, under_way
from retinue.cli.show import clean, console, whole
from retinue.cli.steps import Steps
from retinue.core import events as e
from retinue.core.delta import Delta
from retinue.core.messages import Data, text_of
from retinue.service import Followed

FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
LONGEST_OPEN = 6000


class Answer:
    """What is whole scrolls up as it will stay; only the last paragraph is drawn again while it grows. What an agent
    does meanwhile is a line each."""

    def __init__(self, run_id: str | None = None, *, decides: bool = False) -> None:
        """Of a tree, only what this run says is the answer. Who `decides` here is shown what is asked elsewhere."""
        self.steps = Steps()
        self._hidden = {"turn", "said", "ticket"} if decides else {"turn", "said"}
        self._run_id = run_id
        self._terminal = console().is_terminal and not console().is_dumb_terminal
        self._live: Live | None = None
        self._text, self._shown, self._last, self._frame = "", 0, "", 0

    def __enter__(self) -> Self:
        if self._terminal:
            live = Live(console=console(), get_renderable=self._below, refresh_per_second=12, transient=True)
            self._live = live
            live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._settle(len(self._text))
        if self._live:
            self._live.stop()
            self._live = None

    def show(self, seen: Followed) -> None:
        """One more event, or something said."""
        lines = self.steps.take(seen)
        if self._run_id in (None, seen.run_id):
            self._hear(seen)
        for line in lines:
            if not line.begun and line.kind not in self._hidden:
                self._print(painted(line))

    def _hear(self, seen: Followed) -> None:
        match seen:
            case Delta(kind="text", text=text):
                self._grow(clean(text))
                self.steps.said.clear()  # it is shown here
                self.steps.thought.clear()
            case e.Event(data=e.ModelRetried() | e.TurnInterrupted(cause="crash")):
                self._drop()
            case e.Event(data=e.TurnInterrupted()):
                self._settle(len(self._text))
                self._text, self._shown = "", 0
            case e.Event(data=e.ModelResponded() as responded):
                self._whole(responded)

    def note(self, text: str) -> None:
        self._print(Text(f"  {text}", "dim"))

    def give(self, output: object) -> None:
        """What came of it, unless that is what was said last."""
        if output is not None and whole(output).strip() != self._last:
            self._grow(whole(output))
            self._settle(len(self._text))

    def _below(self) -> RenderableType:
        """What is drawn again and again: the end of what is being said, else what goes on."""
        self._frame += 1
        if rest := self._text[self._shown :].strip():
            return Markdown(rest[-LONGEST_OPEN:])
        return Text("\n").join(under_way(self.steps, self._frame)) or Text("…", "dim")

    def _grow(self, text: str) -> None:
        self._text += text
        end = _whole_paragraphs(self._text, self._shown)
        if end > self._shown:
            self._settle(end)

    def _whole(self, responded: e.ModelResponded) -> None:
        """The whole answer: what of it was not streamed is shown now."""
        text = clean(text_of(responded.parts))
        data = [part.data for part in responded.parts if isinstance(part, Data)]
        said = text or ("" if not data else whole(data[0]))
        if len(said) > len(self._text):
            self._grow(said[len(self._text) :])
        self._settle(len(self._text))
        self._last, self._text, self._shown = said.strip(), "", 0

    def _drop(self) -> None:
        """The answer broke off and begins anew."""
        self._settle(len(self._text))
        if self._text:
            self._print(Text("  … that broke off; again:", "yellow"))
        self._text, self._shown = "", 0

    def _settle(self, end: int) -> None:
        piece = self._text[self._shown : end]
        self._shown = end
        if piece.strip():
            self._print(Markdown(piece.strip()) if self._terminal else Text(piece.strip("\n")))

    def _print(self, what: Markdown | Text) -> None:
        console().print(what, soft_wrap=isinstance(what, Text))


def _whole_paragraphs(text: str, start: int) -> int:
    """How far the text is whole: up to its last empty line that is not inside a code block."""
    end = text.rfind("\n\n", start)
    while end > start:
        if len(FENCE.findall(text, start, end)) % 2 == 0:
            return end + 2
        end = text.rfind("\n\n", start, end)
    return start
