"""`retinue chat`"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from retinue.cli.options import Db, examples, single
from retinue.cli.show import say
from retinue.cli.talk import WAITING, Talk

app = single()

EXAMPLES = examples(
    "retinue chat                                a model that needs no key",
    "retinue chat model:openai:gpt-5-mini",
    "retinue chat --thread 3f8k2                 goes on where it was",
    "echo 'Hello' | retinue chat model:test      one question a line",
)


@app.command(epilog=EXAMPLES)
def chat(
    target: Annotated[str | None, typer.Argument(metavar="[TARGET]", help="model:NAME, agent:NAME.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", metavar="THREAD", help="Go on in this thread.")] = None,
    owner: Annotated[str, typer.Option("--owner", help="Whose thread it is.", show_default=False)] = "",
    db: Db = None,
) -> int:
    """Talk in a thread. What is said is stored before anybody answers; Ctrl-C stops an answer, not the chat.

    In it: /fork, /retry, /tree, /model, /help; Ctrl-D ends it.
    """
    with Talk(db, target, thread, owner) as talk:
        return _lines(talk) if not sys.stdin.isatty() else _prompts(talk)


def _lines(talk: Talk) -> int:
    """Questions from a pipe, one a line."""
    code = 0
    for line in sys.stdin:
        if line.strip():
            code = talk.take(line.strip()) or code
            if code == WAITING:  # what is said next would wait for that answer
                break
    return code


def _prompts(talk: Talk) -> int:
    with suppress(ImportError):
        import_module("readline")  # where it is there, input() can be edited and has a memory
    talk.greet()
    talk.person = _decided
    return _until_the_end(talk)


def _decided(prompt: str) -> str:
    """What somebody types who has seen what is asked: not what they had typed before."""
    with _keys(seen=True):
        if find_spec("termios"):
            termios: Any = import_module("termios")
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        return input(prompt)


@contextmanager
def _keys(*, seen: bool) -> Iterator[None]:
    """Whether what is typed is shown. While an answer is being drawn it is not written into it, but waits for the next
    prompt."""
    if find_spec("termios") is None:  # on Windows
        yield
        return
    termios: Any = import_module("termios")
    before = termios.tcgetattr(sys.stdin)
    changed = [*before]
    changed[3] = changed[3] | termios.ECHO if seen else changed[3] & ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _until_the_end(talk: Talk) -> int:
    while True:
        try:
            line = input(talk.prompt())
        except EOFError:
            say()
            talk.bye()
            return 0
        except KeyboardInterrupt:
            say(("  Ctrl-D ends the chat", "dim"))
            continue
        if line.strip() in ("/quit", "/exit"):
            talk.bye()
            return 0
        if line.strip():
            with _keys(seen=False):
                talk.take(line.strip())
