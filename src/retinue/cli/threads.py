"""`retinue threads`"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Annotated

import typer
from rich.text import Text

from retinue.app import Retinue
from retinue.cli.database import opened
from retinue.cli.options import Db, Json, commands, examples
from retinue.cli.show import MARKS, ago, clean, console, iso, one_line, plural, print_json, say, table, whole
from retinue.core.messages import AnyPart, Data, File
from retinue.core.messages import Text as Words
from retinue.core.outcome import Status
from retinue.errors import BadInput
from retinue.service import ThreadMessage, ThreadRow

app = commands("Look at conversations. A thread's id may be shortened to its beginning or its end.")

ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="A thread's id, or the beginning or end of it.")]
Leaf = Annotated[str | None, typer.Option("--leaf", metavar="MESSAGE", help="The branch that ends there.")]


@app.command("list", epilog=examples("retinue threads list", "retinue threads list --owner ann"))
def list_(
    owner: Annotated[str | None, typer.Option("--owner", help="Only this owner's.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many.")] = 20,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List threads, the one that something was said in last first."""

    async def go() -> None:
        async with opened(db) as app:
            rows, now = await app.service.threads.threads(owner=owner, limit=limit), await app.service.now()
        if as_json:
            print_json([thread_json(row) for row in rows])
        elif not rows:
            say("No threads yet. Begin one with: retinue chat")
        else:
            owners = any(row.owner for row in rows)
            heads = ["THREAD", "LAST SAID", *(["OWNER"] if owners else []), "TITLE"]
            table(heads, [_line(row, now, owners=owners) for row in rows])

    asyncio.run(go())


def _line(row: ThreadRow, now: int, *, owners: bool) -> list[str]:
    return [row.id, ago(row.updated_at, now), *([row.owner] if owners else []), clean(row.title)]


@app.command(
    epilog=examples(
        "retinue threads show 3f8k2              the newest branch",
        "retinue threads show 3f8k2 --all        the whole tree",
        "retinue threads show 3f8k2 --leaf msg_…  the branch that ends there",
    )
)
def show(
    thread: ThreadId,
    leaf: Leaf = None,
    whole_tree: Annotated[bool, typer.Option("--all", help="All branches, as a tree.")] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Show what was said."""

    async def go(app: Retinue, row: ThreadRow) -> None:
        threads = app.service.threads
        messages = await (threads.messages(row.id) if whole_tree else threads.branch(row.id, leaf))
        if as_json:
            print_json(thread_json(row) | {"messages": [message_json(message) for message in messages]})
            return
        say((clean(row.title) or "(no title)", "bold"), (f"  {row.id}", "dim"))
        if whole_tree:
            for line in tree_lines(messages):
                say(line)
            return
        for message in messages:
            say()
            say(who(message), (f"  {message.id}", "dim"))
            for part in message.parts:
                say(spoken(part))
        if not messages:
            say("Nothing was said here.")

    _on_thread(thread, db, go)


@app.command(epilog=examples('retinue threads search "harbour"'))
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What was said, whatever its case.")],
    owner: Annotated[str | None, typer.Option("--owner", help="Only this owner's.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many.")] = 20,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Find messages by what they say."""

    async def go() -> None:
        async with opened(db) as app:
            found = await app.service.threads.search(text, owner=owner, limit=limit)
            now = await app.service.now()
        if as_json:
            print_json([message_json(message) for message in found])
        elif not found:
            say("Nobody said that.")
        else:
            heads = ["THREAD", "MESSAGE", "SAID", "BY", "WHAT"]
            table(
                heads,
                [[m.thread_id, m.id, ago(m.created_at, now), m.participant, one_line(summary(m), 120)] for m in found],
            )

    asyncio.run(go())


@app.command(epilog=examples('retinue threads rename 3f8k2 "Travel plans"'))
def rename(
    thread: ThreadId,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What it is called.")],
    db: Db = None,
) -> None:
    """Give a thread another title."""

    async def go(app: Retinue, row: ThreadRow) -> None:
        await app.service.threads.rename(row.id, title)
        say(f"renamed {row.id}")

    _on_thread(thread, db, go)


@app.command(epilog=examples("retinue threads delete 3f8k2 --yes"))
def delete(
    thread: ThreadId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    db: Db = None,
) -> None:
    """Delete a thread with its runs, journals and files. What runs in it is stopped first."""

    async def go(app: Retinue, row: ThreadRow) -> None:
        messages = await app.service.threads.messages(row.id)
        question = f"Delete {clean(row.title) or row.id} with {plural(len(messages), 'message')}, for ever?"
        if not yes and not typer.confirm(question):
            raise BadInput(problem="Nothing was deleted.")
        if await app.service.threads.delete(row.id):
            say(f"deleted {row.id}")
        else:
            say(f"deleted {row.id}; something in it has not stopped yet, a worker takes the rest away")

    _on_thread(thread, db, go)


def _on_thread(text: str, db: str | None, do: Callable[[Retinue, ThreadRow], Awaitable[None]]) -> None:
    async def go() -> None:
        async with opened(db) as app:
            await do(app, await app.service.threads.named(text))

    asyncio.run(go())


# How messages look


def who(message: ThreadMessage) -> Text:
    """Who said it, and how far the answer is when it is being given."""
    name = message.participant.partition(":")[2]
    person = message.participant.startswith("user:")
    text = Text("you" if person and name == "local" else clean(name), "bold cyan" if person else "bold green")
    if message.status not in (None, Status.COMPLETED):
        mark, style = MARKS[message.status.value]
        text.append(f"  {mark} {message.status.value.replace('_', ' ')}", style)
    return text


def spoken(part: AnyPart) -> str:
    match part:
        case Words(text=text):
            return whole(text)
        case Data(data=data):
            return whole(data)
        case File() as file:
            return f"[{clean(file.name) or 'file'}, {file.media_type}]"
        case _:
            return f"[{type(part).__name__}]"


def summary(message: ThreadMessage) -> str:
    """All that a message says, in one line."""
    return " ".join(spoken(part) for part in message.parts)


def tree_lines(messages: Iterable[ThreadMessage], here: str | None = None) -> Iterator[Text]:
    """A thread as a tree, a line for each message. Where it does not branch, it does not move to the right."""
    below: dict[str | None, list[ThreadMessage]] = defaultdict(list)
    for message in messages:
        below[message.parent_id].append(message)
    waiting = [(message, "") for message in reversed(below[None])]
    while waiting:
        message, indent = waiting.pop()
        line = Text(indent + ("◆ " if message.id == here else "· "))
        line.append_text(who(message))
        line.append(f"  {message.id[-6:]}", "dim")  # before what may be cut: one can be asked to name it
        line.append(f"  {one_line(summary(message), 80)}")
        line.truncate(console().width - 2 if console().is_terminal else 10**6, overflow="ellipsis")
        yield line
        deeper = indent + "  " if len(below[message.id]) > 1 else indent
        waiting += [(reply, deeper) for reply in reversed(below[message.id])]


# As JSON


def thread_json(row: ThreadRow) -> dict[str, object]:
    return {
        "thread_id": row.id,
        "owner": row.owner,
        "title": row.title,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def message_json(message: ThreadMessage) -> dict[str, object]:
    return {
        "message_id": message.id,
        "thread_id": message.thread_id,
        "parent_id": message.parent_id,
        "participant": message.participant,
        "parts": message.parts,
        "run_id": message.run_id,
        "status": message.status.value if message.status else None,
        "created_at": iso(message.created_at),
    }
