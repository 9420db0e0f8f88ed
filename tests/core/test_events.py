from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.core import run
from retinue.core.events import (
    GROUPS,
    KINDS,
    EventData,
    ModelRetried,
    RunFinished,
    RunQueued,
    ToolFinished,
    ToolStarted,
    Unknown,
    as_dict,
    decode,
    encode,
    encode_json,
)
from retinue.core.outcome import Failure, Reason, Status
from retinue.errors import NotStorable
from tests.core.values import events_of, json_values, texts

# The closed list, as the design has it.
DESIGN = """
run: run.queued run.started run.waiting run.resumed run.finished
turn: turn.started turn.interrupted model.responded model.retried model.routed
tool: tool.started tool.finished tool.refused
people: ticket.opened ticket.closed steer.received
limits: limit.reached recovery.started recovery.finished history.compacted budget.settled
tree: child.started child.finished node.skipped
remote: remote.accepted remote.updated platform.event
other: artifact.added warning
"""
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
nested: list[object] = []
for _ in range(5000):
    nested = [nested]


def names_of(kind: Any) -> set[str]:
    return {field.name.rstrip("_") for field in fields(kind)}


def test_the_groups_are_the_closed_list_of_events() -> None:
    listed = (line.split(": ") for line in DESIGN.strip().splitlines())
    assert {group: " ".join(types) for group, types in GROUPS.items()} == dict(listed)


def test_every_type_is_in_one_group() -> None:
    assert sorted(type for types in GROUPS.values() for type in types) == sorted(KINDS)


def test_every_type_is_folded() -> None:
    assert set(run._APPLY) == set(KINDS.values())


@every_kind
def test_an_event_is_a_frozen_class_that_says_what_happened(kind: type[EventData]) -> None:
    assert KINDS[kind.type] is kind
    assert (kind.__doc__ or "").strip().endswith(".")
    assert not hasattr(kind, "__dict__") or "__dict__" not in kind.__dict__


@every_kind
@settings(max_examples=20)
@given(st.data())
def test_an_event_reads_back_as_it_was_written(kind: type[EventData], data: st.DataObject) -> None:
    event = data.draw(events_of(kind))
    assert decode(kind.type, encode(event)) == event
    assert decode(kind.type, encode(event).decode()) == event


@every_kind
@settings(max_examples=20)
@given(st.data())
def test_fields_that_only_a_newer_writer_knows_are_left_aside(kind: type[EventData], data: st.DataObject) -> None:
    event = data.draw(events_of(kind))
    unknown = texts.filter(lambda name: name.rstrip("_") not in names_of(kind))
    extra = data.draw(st.dictionaries(unknown, json_values, max_size=3))
    assert decode(kind.type, msgspec.json.encode(as_dict(event) | extra)) == event


@every_kind
@settings(max_examples=20)
@given(st.data())
def test_stored_names_are_the_fields_names_without_underscores(kind: type[EventData], data: st.DataObject) -> None:
    stored = msgspec.json.decode(encode(data.draw(events_of(kind))))
    assert set(stored) <= names_of(kind)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in stored)


def test_the_try_of_a_call_is_called_try_in_json() -> None:
    started = ToolStarted(call_id="s", tool="pay", try_=2)
    retried = ModelRetried(turn=1, try_=3, error=Failure(kind="busy", message="later"))
    assert msgspec.json.decode(encode(started))["try"] == 2
    assert msgspec.json.decode(encode(retried))["try"] == 3


def test_what_has_its_default_is_left_out() -> None:
    assert encode(ToolStarted(call_id="s", tool="pay")) == b'{"call_id":"s","tool":"pay"}'
    assert encode(RunQueued(target="agent:a", input=0)) == b'{"target":"agent:a","input":0}'


def test_the_first_try_needs_no_mention() -> None:
    assert decode("tool.started", b'{"call_id":"s","tool":"pay"}') == ToolStarted(call_id="s", tool="pay", try_=1)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        1j,
        {(1, 2): 3},
        {None: 1},
        "\ud800",
        nested,
        Path("x"),
        float("nan"),
        float("inf"),
        [{"a": float("-inf")}],
    ],
    ids=["object", "complex", "tuple key", "None key", "lone surrogate", "too deep", "path", "nan", "inf", "inner inf"],
)
def test_what_json_cannot_hold_is_refused_by_the_events_name(value: object) -> None:
    finished = RunFinished(status=Status.COMPLETED, reason=Reason.GOAL)
    for event in (RunQueued(target="agent:a", input=value), replace(finished, output=value)):
        with pytest.raises(NotStorable, match=re.escape(event.type)):
            encode(event)
    with pytest.raises(NotStorable, match="The result of step pay"):
        encode_json(value, "The result of step pay")


@given(json_values)
def test_any_json_can_be_the_result_of_a_step(value: object) -> None:
    finished = ToolFinished(call_id="s", ok=True, result=value)
    assert decode("tool.finished", encode(finished)) == finished
    assert msgspec.json.decode(encode_json(value, "A value")) == value


def test_an_event_of_a_newer_release_is_shown_as_it_is() -> None:
    event = decode("remark.made", '{"text":"hello","try":2}')
    assert (event, event.type) == (Unknown("remark.made", {"text": "hello", "try": 2}), "remark.made")
    assert as_dict(event) == {"text": "hello", "try": 2}
