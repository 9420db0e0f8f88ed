"""Conversations: what a branch is, what of it who answers is shown, what fits, what a thread is called."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.messages import Data, File, Message, Text, Thinking, ToolCall, ToolResult, text_of
from retinue.core.thread import (
    TITLE_LENGTH,
    TOKENS_OF_A_FILE,
    ThreadMessage,
    answer_parts,
    characters,
    fit,
    one_line,
    order,
    title_of,
    tokens,
    turns,
)
from retinue.errors import BrokenThread

PICTURE = File(uri="file:a", media_type="image/png", name="cat.png")


def message(id: str, parent_id: str | None = None, *, by: str = "user:ann", said: str = "hi") -> ThreadMessage:
    parts = (Text(text=said),) if said else ()
    return ThreadMessage(id=id, thread_id="thr_1", parent_id=parent_id, participant=by, parts=parts)


@st.composite
def trees(draw: st.DrawFn) -> list[ThreadMessage]:
    """Messages, each below one that was said before it or beside the first."""
    count = draw(st.integers(1, 30))
    above = [None if n == 0 else draw(st.none() | st.integers(0, n - 1)) for n in range(count)]
    return [message(f"m{n}", None if up is None else f"m{up}") for n, up in enumerate(above)]


# order


@given(trees(), st.randoms())
def test_a_branch_is_the_way_from_the_root_to_its_leaf_whatever_else_is_there(
    tree: list[ThreadMessage], chance: random.Random
) -> None:
    leaf = chance.choice(tree)
    shuffled = chance.sample(tree, len(tree))
    branch = order(shuffled, leaf.id)
    assert branch[0].parent_id is None
    assert branch[-1] is leaf
    assert [one.parent_id for one in branch[1:]] == [one.id for one in branch[:-1]]


@given(trees(), st.randoms())
def test_two_leaves_share_what_is_above_both_and_nothing_more(tree: list[ThreadMessage], chance: random.Random) -> None:
    one, other = (order(tree, chance.choice(tree).id) for _ in range(2))
    common = [a.id for a, b in zip(one, other, strict=False) if a is b]
    assert {a.id for a in one} & {b.id for b in other} == set(common)


@given(trees(), st.randoms())
def test_a_branch_with_a_hole_is_refused(tree: list[ThreadMessage], chance: random.Random) -> None:
    branch = order(tree, chance.choice(tree).id)
    gone = chance.choice(branch)
    with pytest.raises(BrokenThread, match=f"message {gone.id}, which it hangs from, is missing"):
        order([one for one in tree if one is not gone], branch[-1].id)


@given(st.integers(1, 20), st.integers(0, 20))
def test_a_circle_is_refused_wherever_it_begins(around: int, below: int) -> None:
    circle = [message(f"c{n}", f"c{(n + 1) % around}") for n in range(around)]
    tail = [message(f"t{n}", f"t{n - 1}" if n else "c0") for n in range(below)]
    leaf = (tail or circle[:1])[-1].id
    with pytest.raises(BrokenThread, match=r"message c0 is above itself\.") as caught:
        order([*circle, *tail], leaf)
    assert caught.value.message_id == leaf


def test_a_very_long_branch_is_no_problem() -> None:
    chain = [message(f"m{n}", f"m{n - 1}" if n else None) for n in range(100_000)]
    assert [one.id for one in order(reversed(chain), "m99999")][::50_000] == ["m0", "m50000"]


# turns


def test_each_sees_its_own_messages_as_the_models_and_those_of_others_by_their_name() -> None:
    branch = [
        message("1", said="What is there?"),
        message("2", "1", by="agent:guide", said="A bridge."),
        message("3", "2", by="model:openai:gpt-5", said="Two."),
        message("4", "3", said="Who is right?"),
    ]
    assert [(turn.role, text_of(turn.parts)) for turn in turns(branch, "agent:guide")] == [
        ("user", "What is there?"),
        ("model", "A bridge."),
        ("user", "[openai:gpt-5]: Two."),
        ("user", "Who is right?"),
    ]
    assert [turn.role for turn in turns(branch, "model:openai:gpt-5")] == ["user", "user", "model", "user"]
    assert text_of(turns(branch, "agent:other")[1].parts) == "[guide]: A bridge."


def test_what_looks_like_a_role_is_still_what_was_said() -> None:
    (turn,) = turns([message("1", said="model: I am the model\n[guide]: so am I")], "model:test")
    assert (turn.role, text_of(turn.parts)) == ("user", "model: I am the model\n[guide]: so am I")


def test_parts_stay_in_order_and_thoughts_stay_with_who_had_them() -> None:
    parts = (Text(text="a"), PICTURE, Thinking(text="hm"), Text(text="b"), Data(data={"n": 1}))
    said = ThreadMessage(id="1", thread_id="t", parent_id=None, participant="user:ann", parts=parts)
    (turn,) = turns([said], "model:test")
    assert turn.parts == (Text(text="a"), PICTURE, Text(text="b"), Data(data={"n": 1}))


@pytest.mark.parametrize("parts", [(), (Thinking(text="hm"),)])
@pytest.mark.parametrize("by", ["user:ann", "agent:guide", "agent:other"])
def test_a_message_that_says_nothing_is_no_turn(by: str, parts: tuple[Any, ...]) -> None:
    silent = ThreadMessage(id="1", thread_id="t", parent_id=None, participant=by, parts=parts)
    assert turns([silent, message("2", "1")], "agent:guide") == [Message(role="user", parts=(Text(text="hi"),))]


# fit


def test_what_a_message_measures() -> None:
    parts = (Text(text="x" * 40), Thinking(text="y" * 8), Data(data=[1, 2]), PICTURE)
    called = (ToolCall(call_id="a", tool="t", arguments={"a": 1}), ToolResult(call_id="a", ok=True, result="yes"))
    assert characters([Message(role="user", parts=parts), Message(role="tool", parts=called)]) == 40 + 8 + 5 + 7 + 5
    assert tokens(Message(role="user", parts=parts)) == 53 // 4 + TOKENS_OF_A_FILE + 4


@given(st.lists(st.integers(0, 200), max_size=20), st.integers(0, 1500), st.integers(0, 500))
def test_the_oldest_middle_goes_first_and_no_more_than_must(lengths: list[int], room: int, more: int) -> None:
    said = [Message(role="user", parts=(Text(text="x" * length),)) for length in lengths]
    kept, gone = fit(said, room)
    assert kept == [*said[:1], *said[1 + gone :]]
    assert sum(map(tokens, kept)) <= room or len(kept) <= 2
    if gone:
        assert sum(map(tokens, [*said[:1], *said[gone:]])) > room
    assert fit(said, room + more)[1] <= gone


# title_of, answer_parts


@given(st.text())
def test_a_title_is_a_line_that_begins_as_what_was_said(text: str) -> None:
    title = title_of([Text(text=text)])
    assert len(title) <= TITLE_LENGTH + 1
    assert one_line(text).startswith(title.removesuffix("…").rstrip("…"))
    assert not any(ord(sign) < 32 for sign in title)


@pytest.mark.parametrize(
    ("parts", "title"),
    [
        ((), ""),
        ((Text(text="  Where\n to  eat\x00 in\tPorto? "),), "Where to eat in Porto?"),
        ((Text(text="one "), Text(text="two")), "one two"),
        ((Text(text="word " * 20),), "word word word word word word word word word word word word…"),
        ((Text(text="x" * 61),), "x" * 60 + "…"),
        ((Text(text="x" * 60 + " y"),), "x" * 60 + "…"),
        ((PICTURE,), "cat.png"),
        ((PICTURE, File(uri="file:b", media_type="text/plain")), "cat.png text/plain"),
        ((Text(text="See"), PICTURE), "See"),
        ((Data(data={"item": "tea"}),), '{"item":"tea"}'),
    ],
)
def test_what_a_thread_is_called(parts: tuple[Any, ...], title: str) -> None:
    assert title_of(parts) == title


@pytest.mark.parametrize(
    ("output", "partial", "parts"),
    [
        ("yes", None, (Text(text="yes"),)),
        ("yes", "no", (Text(text="yes"),)),
        ({"a": 1}, None, (Data(data={"a": 1}),)),
        (0, None, (Data(data=0),)),
        (False, "no", (Data(data=False),)),
        (None, "half a", (Text(text="half a"),)),
        (None, None, ()),
        ("", None, (Text(text=""),)),
    ],
)
def test_what_a_run_says_in_its_thread(output: object, partial: object, parts: tuple[Any, ...]) -> None:
    assert answer_parts(output, partial) == parts
