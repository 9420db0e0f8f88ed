from __future__ import annotations

import inspect
import pickle
import re
import string
from collections.abc import Iterator

import pytest

from retinue import errors
from retinue.errors import Parked, Released, RetinueError, Unwind

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, RetinueError)]
NAMED = {kind.__name__: kind for kind in KINDS}


def placeholders(kind: type[RetinueError]) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(kind.__doc__ or "") if name]


def annotated(kind: type[RetinueError]) -> set[str]:
    return {name for base in kind.__mro__ for name in inspect.get_annotations(base)}


def example(kind: type[RetinueError]) -> RetinueError:
    return kind(**{name: f"<the {name}>" for name in placeholders(kind)})


def drawn_tree() -> Iterator[tuple[str, str | None]]:
    """Each name in the module's drawing, with the name that it hangs from."""
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"(    [│ ]*[├└]── |    )(?=[A-Z])(.*)", line):
            depth = len(found[1]) // 4 - 1
            names = re.findall(r"(?:^|  +)([A-Z]\w+)", found[2])
            for name in names:
                yield name, above[depth - 1] if depth else None
            above[depth:] = names[:1]


def test_the_drawing_shows_every_error_once() -> None:
    assert sorted(name for name, _ in drawn_tree()) == sorted(NAMED)


def test_the_drawing_hangs_every_error_from_its_base() -> None:
    bases = {name: kind.__bases__[0].__name__ for name, kind in NAMED.items() if kind is not RetinueError}
    assert {name: above for name, above in drawn_tree() if above} == bases


def test_code_that_catches_exceptions_does_not_stop_an_unwinding() -> None:
    assert {Parked, Released} <= set(Unwind.__subclasses__())
    assert not issubclass(Unwind, Exception)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_says_its_docstring_with_the_facts_in_it(kind: type[RetinueError]) -> None:
    said = str(example(kind))
    assert said
    assert not re.search(r"\{\w+\}", said)
    assert all(f"<the {name}>" in said for name in placeholders(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_in_a_message_are_annotated_attributes(kind: type[RetinueError]) -> None:
    error = example(kind)
    assert all(getattr(error, name) == f"<the {name}>" for name in placeholders(kind))
    assert set(placeholders(kind)) <= annotated(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling_with_its_facts(kind: type[RetinueError]) -> None:
    error = example(kind)
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind
    assert (str(back), back.facts) == (str(error), error.facts)
    assert all(getattr(back, name) == fact for name, fact in error.facts.items())


def test_braces_in_a_fact_are_only_text() -> None:
    assert str(errors.BadInput(problem="{oops} {0} {")) == "{oops} {0} {"


def test_a_message_without_its_facts_cannot_be_made() -> None:
    with pytest.raises(KeyError, match="run_id"):
        errors.UnknownRun()
