from __future__ import annotations

import re
import time
import uuid

import pytest

from retinue.ids import new_id, uuid_of


def tick(identifier: str) -> int:
    """What of an id tells its time; the rest is chance."""
    return uuid_of(identifier).int >> 64


@pytest.mark.parametrize("prefix", ["run", "thr", "msg", "tkt"])
def test_an_id_is_26_characters_behind_its_prefix(prefix: str) -> None:
    assert re.fullmatch(prefix + "_[0-9a-v]{26}", new_id(prefix))


def test_ids_sort_in_the_order_in_which_they_were_made() -> None:
    made = [new_id("run") for _ in range(10_000)]
    ticks = [tick(identifier) for identifier in made]
    assert ticks == sorted(ticks)
    assert ticks == [tick(identifier) for identifier in sorted(made)]


def test_ids_made_in_the_same_tick_differ() -> None:
    made = [new_id("run") for _ in range(10_000)]
    assert len(set(made)) == len(made)


def test_an_id_is_a_uuid_of_version_7() -> None:
    inside = uuid_of(new_id("run"))
    assert (inside.version, inside.variant) == (7, uuid.RFC_4122)


def test_an_id_holds_the_time_at_which_it_was_made() -> None:
    before = time.time_ns()
    inside = uuid_of(new_id("run"))
    after = time.time_ns()
    assert before // 1_000_000 <= inside.int >> 80 <= after // 1_000_000


def test_the_rest_of_a_millisecond_is_in_the_id_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    inside = uuid_of(new_id("run"))
    assert inside.int >> 80 == 1_700_000_000_123
    assert inside.int >> 64 & 0xFFF == 4095
