"""`retinue chat` on a terminal: a process of its own, whose other end the test holds."""

from __future__ import annotations

import asyncio
import codecs
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.trips import BOOKS, ENDS, script
from tests.models.server import Reply, Server, chunk, saying, sse

from .conftest import Terminal

pytestmark = pytest.mark.slow
CTRL_C, CTRL_D = "\x03", "\x04"
PATIENCE = 5.0
DRAWN = "\x1b[1mlighthouse"


def begun() -> Reply:
    """The beginning of an answer, and then nothing more."""
    return Reply([sse(chunk({"role": "assistant", "content": "A **lighthouse** is"})), asyncio.Event()])


class Typed:
    """Types at a command, and reads what it shows."""

    def __init__(self, *arguments: str) -> None:
        self._end, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "retinue", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            env=os.environ | {"TERM": "xterm"},
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # it is the terminal that sends signals
        )
        os.close(other)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def press(self, key: str, text: str) -> None:
        """Press a key until a text is shown, as people do: an interrupt in the moment between the prompt and the
        reading of keys is held back until there is another key."""
        self.type(key)
        while text not in self._shown:
            if not select.select([self._end], [], [], PATIENCE)[0]:
                self.type(key)
                continue
            self._shown += self._decoder.decode(os.read(self._end, 4096))
        self._shown = self._shown.partition(text)[2]

    def until(self, text: str) -> str:
        """What is shown until a text is there, with it. The next time goes on from there."""
        while text not in self._shown:
            self._shown += self._decoder.decode(os.read(self._end, 4096))
        before, text, self._shown = self._shown.partition(text)
        return before + text

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)


@pytest.fixture
def chat(provider: Server) -> Iterator[Typed]:
    chat = Typed("chat", "model:openai:any")
    chat.until("› ")
    yield chat
    chat.end()


def test_ctrl_c_stops_the_answer_and_not_the_chat(provider: Server, chat: Typed) -> None:
    provider.will(begun(), saying("Hello", " there"))
    chat.type("What is a lighthouse?\r")
    chat.until(DRAWN)
    chat.type(CTRL_C)
    chat.until("cancelled: Ctrl-C")
    chat.until("› ")
    chat.press(CTRL_C, "Ctrl-D ends the chat")
    chat.type("hello\r")
    chat.until("Hello there")
    chat.until("› ")
    chat.type(CTRL_D)
    chat.until("chat --thread thr_")
    assert chat.process.wait() == 0
    assert provider.asked[1]["messages"][-1] == {"role": "user", "content": "hello"}


def test_what_is_typed_during_an_answer_is_not_written_into_it(provider: Server, chat: Typed) -> None:
    provider.will(begun())
    chat.type("What is a lighthouse?\r")
    chat.until(DRAWN)
    chat.type("and now")
    assert "and now" not in "".join(chat.until(DRAWN) for _ in range(3))


def test_what_needs_approval_is_asked_in_the_middle_and_not_answered_by_what_was_typed_before(
    trip: Terminal, tmp_path: Path
) -> None:
    script(tmp_path, BOOKS, ENDS)
    chat = Typed("chat", "agent:guide")
    chat.until("› ")
    chat.type("Where to?\r")
    asked = chat.until("decide › ")
    assert "may it call book?" in asked
    assert "hotel" in asked
    chat.type('{"eur": "much"}\r')
    chat.until("do not fit its schema")
    chat.until("decide › ")
    chat.type('{"hotel": "Sol", "eur": 20}\r')
    chat.until("→ booked for 20")
    chat.until("Off to Porto.")
    chat.until("› ")
    chat.end()


def test_a_question_that_is_left_can_be_decided_later(trip: Terminal, tmp_path: Path) -> None:
    script(tmp_path, BOOKS, ENDS)
    chat = Typed("chat", "agent:guide")
    chat.until("› ")
    chat.type("Where to?\r")
    chat.until("decide › ")
    chat.type(CTRL_D)
    chat.until("retinue approvals approve tkt_")
    chat.until("› ")
    chat.type(CTRL_D)
    chat.until("chat --thread thr_")
    assert chat.process.wait() == 0
    chat.end()
    assert trip("runs", "list", "--json").json[0]["status"] == "waiting"
