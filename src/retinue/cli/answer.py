"""An answer while it is being given: Markdown on a terminal, plain text elsewhere."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from retinue.cli.show import clean, console, whole
from retinue.cli.steps import Steps
from retinue.core import events as e
from retinue.core.delta import Delta
from retinue.core.messages import Data, text_of
from retinue.service import Followed

FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
LONGEST_OPEN = 6000
SHOWN_OTHERWISE = (e.ModelResponded, e.TurnInterrupted)


class Answer:
    """What is whole scrolls up as it will stay; only the last paragraph is drawn again while it grows."""

    def __init__(self) -> None:
        self._terminal = console().is_terminal and not console().is_dumb_terminal
        self._live = Live(console=console(), refresh_per_second=12, transient=True) if self._terminal else None
        self._steps = Steps()
        self._text = ""
        self._shown = 0

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            self._live.update(Text("…", "dim"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._settle(len(self._text))
        if self._live:
            self._live.update(Text(""))
            self._live.stop()

    def take(self, seen: Followed) -> None:
        """One more event, or something said."""
        match seen:
            case Delta(kind="text", text=text):
                self._grow(clean(text))
            case e.Event(data=e.ModelRetried() | e.TurnInterrupted(cause="crash")):
                self._drop()
            case e.Event(data=e.ModelResponded() as responded):
                self._whole(responded)
        if isinstance(seen, e.Event):
            for line in self._steps.take(seen):
                if not line.begun and not isinstance(seen.data, SHOWN_OTHERWISE):
                    self._print(Text(f"  {line.mark} {clean(line.text)}  {clean(line.more)}", line.style or "dim"))

    def _grow(self, text: str) -> None:
        self._text += text
        end = _whole_paragraphs(self._text, self._shown)
        if end > self._shown:
            self._settle(end)
        if self._live and (rest := self._text[self._shown :].strip()):
            self._live.update(Markdown(rest[-LONGEST_OPEN:]))

    def _whole(self, responded: e.ModelResponded) -> None:
        """The whole answer: what of it was not streamed is shown now."""
        text = clean(text_of(responded.parts))
        data = [part.data for part in responded.parts if isinstance(part, Data)]
        said = text or ("" if not data else whole(data[0]))
        if len(said) > len(self._text):
            self._grow(said[len(self._text) :])
        self._settle(len(self._text))

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
        if self._live:
            self._live.update(Text(""))

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
