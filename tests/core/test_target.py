from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.target import FORMS, KINDS, Target
from retinue.errors import BadInput, UnknownTarget


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("agent:support", "agent", "support"),
        ("graph:review", "graph", "review"),
        ("model:openai:gpt-5-mini", "model", "openai:gpt-5-mini"),
        ("model:fast", "model", "fast"),
        ("function:shop.orders:refund", "function", "shop.orders:refund"),
    ],
)
def test_a_target_is_a_kind_and_a_name(text: str, kind: str, name: str) -> None:
    assert Target.parse(text) == Target(kind, name)


@pytest.mark.parametrize("text", ["", "agent", "agent:", ":support", "robot:r2", "Agent:support", "agent support"])
def test_what_names_no_target_is_refused_with_the_kinds_that_there_are(text: str) -> None:
    with pytest.raises(UnknownTarget) as refused:
        Target.parse(text)
    assert isinstance(refused.value, BadInput)
    assert repr(text) in str(refused.value)
    assert [form.partition(":")[0] for form in FORMS.split(", ")] == list(KINDS)
    assert FORMS in refused.value.problem


@pytest.mark.parametrize("text", ["function:refund", "function::refund", "function:shop:"])
def test_a_function_needs_its_module_and_its_name(text: str) -> None:
    with pytest.raises(UnknownTarget, match="function:MODULE:NAME"):
        Target.parse(text)


@given(st.sampled_from(KINDS), st.text(min_size=1), st.text(min_size=1))
def test_a_target_reads_back_as_it_is_written(kind: str, first: str, rest: str) -> None:
    target = Target(kind, f"{first}:{rest}" if kind == "function" else first + rest)
    if kind != "function" or all(target.name.partition(":")[::2]):
        assert Target.parse(str(target)) == target


@given(st.text())
def test_only_what_begins_with_a_kind_is_a_target(text: str) -> None:
    if text.partition(":")[0] not in KINDS:
        with pytest.raises(UnknownTarget):
            Target.parse(text)
