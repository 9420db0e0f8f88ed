"""Server-sent events, in whatever pieces they arrive."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.models.wire.sse import EndlessEvent, Events

texts = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=20)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Events, and one of the ways to write them."""
    events, written = [], draw(st.sampled_from(["", "\ufeff"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    for _ in range(draw(st.integers(0, 6))):
        data = draw(st.lists(texts, min_size=1, max_size=3))
        events.append("\n".join(data).encode())
        for line in data:
            if draw(st.booleans()):
                written += f": {draw(texts)}{end}id: 7{end}"
            space = " " if line.startswith(" ") or draw(st.booleans()) else ""
            written += f"data:{space}{line}{end}"
        written += end
    return events, written.encode()


def cut(written: bytes, places: set[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(written) + 1) for place in places), len(written)]
    return [written[a:b] for a, b in pairwise(borders)]


def read(chunks: list[bytes], parser: Events | None = None) -> list[bytes]:
    parser = parser or Events()
    return [data for chunk in chunks for data in parser.feed(chunk)] + parser.end()


@given(streams(), st.sets(st.integers(0, 500), max_size=20))
def test_any_split_of_the_bytes_gives_the_same_events(stream: tuple[list[bytes], bytes], places: set[int]) -> None:
    events, written = stream
    assert read(cut(written, places)) == events


@given(streams())
def test_byte_by_byte_is_no_different(stream: tuple[list[bytes], bytes]) -> None:
    events, written = stream
    assert read([bytes([byte]) for byte in written]) == events


@pytest.mark.parametrize("rest", [b"", b"\n", b"\r", b"\r\n"])
def test_a_last_event_that_was_not_ended_counts(rest: bytes) -> None:
    assert read([b"data: a\n\ndata: [DONE]" + rest]) == [b"a", b"[DONE]"]


def test_comments_and_other_fields_are_no_events() -> None:
    assert read([b": ping\n\nevent: x\n\nid: 1\nretry: 5\n\ndatum: 3\n\n"]) == []


def test_data_without_a_colon_is_empty_data() -> None:
    assert read([b"data\ndata\n\n"]) == [b"\n"]


def test_an_event_is_complete_with_its_empty_line_and_not_before() -> None:
    parser = Events()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\ndata: b") == [b"a"]
    assert parser.feed(b"\n\n") == [b"b"]


@pytest.mark.parametrize("chunk", [b"data: aaaaaa", b"data: aaaaa\n"])
def test_an_event_that_never_ends_is_given_up(chunk: bytes) -> None:
    with pytest.raises(EndlessEvent):
        read([chunk] * 1000, Events(longest=100))


def test_many_short_events_and_pings_are_no_long_one() -> None:
    assert read([b": ping\n\ndata: a\n\n"] * 1000, Events(longest=100)) == [b"a"] * 1000
