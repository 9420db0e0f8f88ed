"""What the contract's tests say in threads, in few words."""

from __future__ import annotations

from typing import Any

from retinue.ids import new_id
from retinue.ports.store import Answer, NewMessage, OnBusy, Post, Posted, Store

from .steps import Held, claim, new_run, renew

NOTHING = object()


def answer(parent_id: str | None, thread_id: str, *, by: str = "model:test", **facts: Any) -> Answer:
    """A placeholder with its run."""
    message_id = new_id("msg")
    message = NewMessage(id=message_id, parent_id=parent_id, participant=by)
    return Answer(message=message, submit=new_run(thread_id=thread_id, message_id=message_id, target=by, **facts))


def say(
    thread_id: str = "",
    parent_id: str | None = None,
    *,
    text: str | None = "hi",
    owner: str = "",
    by: tuple[str, ...] = ("model:test",),
    ahead: tuple[str, ...] = (),
    on_busy: OnBusy = OnBusy.QUEUE,
    at_end: bool = False,
    files: tuple[tuple[str, int], ...] = (),
    **facts: Any,
) -> Post:
    """A post in a thread, in a new one when none is named; `facts` are the first run's. Without text only answers."""
    title = None if thread_id else "a title"
    thread_id = thread_id or new_id("thr")
    message = None
    if text is not None:
        parts = f'[{{"kind":"text","text":"{text}"}}]'
        message = NewMessage(id=new_id("msg"), parent_id=parent_id, participant=f"user:{owner}", parts=parts)
    above = message.id if message else parent_id
    answers = [answer(above, thread_id, by=who, owner=owner, **(facts if n == 0 else {})) for n, who in enumerate(by)]
    return Post(
        thread_id=thread_id,
        owner=owner,
        title=title,
        message=message,
        answers=tuple(answers),
        ahead=ahead,
        on_busy=on_busy,
        at_end=at_end,
        files=files,
    )


async def post(store: Store, write: Post) -> Posted:
    posted = await store.post(write)
    assert posted
    return posted


def after(write: Post, which: int = 0) -> tuple[str, str]:
    """The thread of a post, and the message that its answer will be: where the next one is said."""
    return write.thread_id, write.answers[which].message.id


def run_of(write: Post, which: int = 0) -> str:
    return write.answers[which].submit.run.id


async def start(store: Store, *writes: Post) -> list[Held]:
    """Claim all that can be claimed; it is the first answers of these posts, and nothing else."""
    await renew(store)
    claimed = {one.row.id: Held.just(store, one) for one in await claim(store)}
    assert set(claimed) == {run_of(write) for write in writes}
    return [claimed[run_of(write)] for write in writes]


async def waits_for(store: Store, write: Post) -> str | None:
    row = await store.run(run_of(write))
    assert row
    return row.after_run_id
