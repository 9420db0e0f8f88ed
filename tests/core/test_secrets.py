from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retinue.core.secrets import OPEN, SHORTEST, Secrets

NAMES = ("API_KEY", "db.url", "x-1")
MARKS = [f"{OPEN}{name}}}" for name in ("", *NAMES)]
ODD = ['"', "\\", "\n", "\t", "\x1f", "é", "日本", "😀", "/", "\u2028"]


def can_be_told(value: str) -> bool:
    """Not made of the very characters that references are made of: no seam beside a reference can spell it."""
    begins_as_open_ends = any(OPEN.endswith(value[:n]) for n in range(1, len(value) + 1))
    return not set("$}") & set(value) and not begins_as_open_ends and not any(value in mark for mark in MARKS)


def pieces(*more: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*ODD, *more]) | st.text(max_size=6), max_size=8).map("".join)


any_secret = pieces(OPEN, "$", "{", "}", "secret").map(lambda text: text + "-" * (SHORTEST - len(text)))
some_secrets = st.lists(any_secret, max_size=3).map(lambda values: dict(zip(NAMES, values, strict=False)))
told_secrets = st.lists(any_secret.filter(can_be_told), min_size=1, max_size=3).map(
    lambda values: dict(zip(NAMES, values, strict=False))
)


@st.composite
def documents(draw: st.DrawFn, values: dict[str, str]) -> object:
    """JSON whose texts are full of secrets, references, and what looks like them."""
    parts = [part for value in values.values() for part in (value, value[1:], value[:-1])]
    texts = pieces(*parts, *parts, *MARKS, OPEN, OPEN[:-1], "}", "$")
    json = st.recursive(
        st.none() | st.booleans() | st.integers(0, 9) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    )
    return draw(json)


def texts_in(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for item in value for text in texts_in(item)]
        case dict():
            return [text for pair in value.items() for item in pair for text in texts_in(item)]
    return []


@given(some_secrets, st.data())
def test_what_was_hidden_is_restored_whatever_the_text(values: dict[str, str], data: st.DataObject) -> None:
    secrets, encoded = Secrets(values), msgspec.json.encode(data.draw(documents(values)))
    assert secrets.restore(secrets.hide(encoded)) == encoded


@given(told_secrets, st.data())
def test_no_secret_is_in_what_was_hidden_or_in_what_is_shown(values: dict[str, str], data: st.DataObject) -> None:
    hidden = Secrets(values).hide(msgspec.json.encode(data.draw(documents(values))))
    for form in (hidden, Secrets.show(hidden)):
        plain = [value for value in values.values() if msgspec.json.encode(value).decode()[1:-1] == value]
        assert not [value for value in plain if value in form.decode()]  # others stand there only by chance
        told = texts_in(msgspec.json.decode(form))
        assert not [value for value in values.values() if any(value in text for text in told)]


@given(documents({}))
@example("${secret:API_KEY} and ${secret:} and ${secret:")
def test_what_only_looks_like_a_reference_is_shown_as_it_was(value: object) -> None:
    secrets = Secrets({"API_KEY": "sk-123456"})
    encoded = msgspec.json.encode(value)
    assert secrets.show(secrets.hide(encoded)) == encoded


def test_a_secret_is_stored_and_shown_as_a_reference() -> None:
    secrets = Secrets({"API_KEY": 'sk-"12\\34"\n'})
    hidden = secrets.hide(msgspec.json.encode({"header": 'Bearer sk-"12\\34"\n!'}))
    assert hidden == b'{"header":"Bearer ${secret:API_KEY}!"}'
    assert secrets.show(hidden) == hidden


def test_nobody_can_make_a_reference() -> None:
    secrets = Secrets({"API_KEY": "sk-123456"})
    hidden = secrets.hide(b'"tell me ${secret:API_KEY}"')
    assert secrets.restore(hidden) == b'"tell me ${secret:API_KEY}"'


@pytest.mark.parametrize("value", ["", "12345", "éé日本語"])
def test_a_short_secret_is_refused_without_telling_it(value: str) -> None:
    with pytest.raises(ValueError, match="API_KEY is too short") as refused:
        Secrets({"API_KEY": value})
    assert not value or value not in str(refused.value)


def test_the_shortest_secret_is_taken() -> None:
    assert Secrets({"PIN": "x" * SHORTEST}).hide(b'"xxxxxx"') == b'"${secret:PIN}"'


@pytest.mark.parametrize("names", [("long", "short"), ("short", "long")])
def test_of_two_secrets_that_begin_alike_the_longer_one_is_found(names: tuple[str, str]) -> None:
    values = {"short": "hunter2", "long": "hunter2-and-more"}
    secrets = Secrets({name: values[name] for name in names})
    assert secrets.hide(b'["hunter2-and-more","hunter2-and"]') == b'["${secret:long}","${secret:short}-and"]'


def test_a_secret_inside_another_is_found_alone_and_not_within() -> None:
    secrets = Secrets({"inner": "hunter2", "outer": "my-hunter2-key"})
    assert secrets.hide(b'["my-hunter2-key","my-hunter2"]') == b'["${secret:outer}","my-${secret:inner}"]'


def test_a_secret_that_is_not_known_any_more_stays_a_reference() -> None:
    hidden = Secrets({"OLD": "sk-123456"}).hide(b'"sk-123456"')
    assert Secrets().restore(hidden) == b'"${secret:OLD}"'


def test_a_secret_that_changed_is_restored_as_it_is_now() -> None:
    hidden = Secrets({"KEY": "sk-123456"}).hide(b'"sk-123456"')
    assert Secrets({"KEY": 'sk-"new"'}).restore(hidden) == b'"sk-\\"new\\""'


@pytest.mark.parametrize("name", ["", "two words", "a/b", "schlüssel", "a}b"])
def test_a_name_that_no_reference_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Secrets({name: "sk-123456"})


@pytest.mark.parametrize(
    ("secret", "value"),
    [
        ("123456", {"amount": 1234567}),
        ("null,null", [None, None]),
        ("nabcdef", "\nabcdef"),
        ("001fab", "\x1fab"),
    ],
    ids=["digits of a number", "what JSON itself is made of", "the end of an escape", "the digits of an escape"],
)
def test_what_is_hidden_is_still_json(secret: str, value: object) -> None:
    hidden = Secrets({"KEY": secret}).hide(msgspec.json.encode(value))
    assert msgspec.json.decode(hidden) == value
