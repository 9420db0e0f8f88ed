from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retinue.core.delta import Delta, OpenTurn, Place, Spoken

chunks = st.lists(st.text(max_size=4), max_size=12)
# What happens in a turn: a piece is said, or (None) the reader looks.
moments = st.lists(st.none() | st.tuples(st.sampled_from(["text", "thinking"]), st.text(max_size=4)), max_size=20)


def say(said: OpenTurn, kind: str, text: str) -> None:
    said.add(kind, len(said.text(kind)), text)


def live(place: Place, said: OpenTurn, moments: list[tuple[str, str] | None]) -> list[Delta]:
    """What a reader got that looked at these moments."""
    seen = []
    for moment in moments:
        if moment is None:
            seen += place.advance("run_1", said)
        else:
            say(said, *moment)
    return seen


def heard(seen: list[Delta], kind: str) -> str:
    """The text that deltas make; they fit together without a hole or an overlap."""
    text = ""
    for delta in seen:
        if delta.kind == kind:
            assert delta.offset == len(text)
            text += delta.text
    return text


@given(chunks, st.integers(0, 60))
def test_text_is_readable_from_any_offset(pieces: list[str], offset: int) -> None:
    spoken, whole = Spoken(), "".join(pieces)
    for piece in pieces:
        spoken.add(spoken.length, piece)
    assert spoken.length == len(whole)
    assert spoken.since(offset) == whole[offset:]


@given(st.text(max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_pieces_said_twice_overlapping_or_after_a_hole_never_garble_the_text(
    whole: str, spans: list[tuple[int, int]]
) -> None:
    spoken, length = Spoken(), 0
    for start, end in spans:
        spoken.add(min(start, len(whole)), whole[start:end])
        length = max(length, min(end, len(whole))) if start <= length else length
        assert (spoken.length, spoken.since(0)) == (length, whole[:length])


def test_a_piece_after_a_hole_is_taken_when_it_comes_again() -> None:
    spoken = Spoken()
    spoken.add(3, "def")
    assert spoken.since(0) == ""
    spoken.add(0, "abc")
    spoken.add(3, "def")
    assert spoken.since(2) == "cdef"


@given(moments)
def test_a_reader_sees_each_text_exactly_once_whenever_it_looks(moments: list[tuple[str, str] | None]) -> None:
    said = OpenTurn(1, 1)
    seen = live(Place(), said, [*moments, None])
    assert heard(seen, "text") == said.text("text")
    assert heard(seen, "thinking") == said.text("thinking")
    assert all((delta.run_id, delta.turn, delta.try_) == ("run_1", 1, 1) for delta in seen)


@given(moments, moments)
def test_two_readers_do_not_disturb_each_other(
    first: list[tuple[str, str] | None], second: list[tuple[str, str] | None]
) -> None:
    said, early, late = OpenTurn(1, 1), Place(), Place()
    seen = live(early, said, first)
    assert heard(live(late, said, [None]), "text") == said.text()
    assert heard(seen + live(early, said, [*second, None]), "text") == said.text()


@given(st.lists(moments, min_size=1, max_size=4))
def test_what_follows_a_dropped_try_begins_at_offset_0(tries: list[list[tuple[str, str] | None]]) -> None:
    place = Place()
    for number, moments in enumerate(tries, 1):
        said = OpenTurn(1, number)
        seen = live(place, said, [*moments, None])
        assert {delta.try_ for delta in seen} <= {number}
        assert heard(seen, "text") == said.text()
        place.close(1, number)


@given(moments, moments, st.booleans())
def test_nothing_of_a_closed_try_is_new(
    before: list[tuple[str, str] | None], after: list[tuple[str, str] | None], in_next_turn: bool
) -> None:
    place, said = Place(), OpenTurn(1, 1)
    live(place, said, before)
    place.close(1, 1)
    assert live(place, said, [*after, None]) == []
    following = OpenTurn(2, 1) if in_next_turn else OpenTurn(1, 2)
    assert heard(live(place, following, [*after, None]), "text") == following.text()


def test_the_next_try_waits_until_the_reader_has_seen_the_end_of_this_one() -> None:
    place, broken, following = Place(), OpenTurn(1, 1), OpenTurn(1, 2)
    say(broken, "text", "no")
    say(following, "text", "yes")
    assert [delta.text for delta in place.advance("run_1", broken)] == ["no"]
    assert place.advance("run_1", following) == []
    place.close(1, 1)
    assert [(delta.offset, delta.text) for delta in place.advance("run_1", following)] == [(0, "yes")]


def test_a_reader_that_is_ahead_gets_nothing_of_an_earlier_turn() -> None:
    place, late, early = Place(), OpenTurn(2, 1), OpenTurn(1, 7)
    say(late, "text", "now")
    say(early, "text", "then")
    assert [delta.text for delta in place.advance("run_1", late)] == ["now"]
    assert place.advance("run_1", early) == []
    place.close(1, 7)
    say(late, "text", " and on")
    assert [(delta.offset, delta.text) for delta in place.advance("run_1", late)] == [(3, " and on")]
