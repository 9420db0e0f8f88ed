"""References in settings: `${env:NAME}` and `${secret:NAME}` stand for variables of the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from retinue.core.declared import Key
from retinue.core.secrets import OPEN, SHORTEST

_reference = re.compile(r"\$\{(env|secret):([A-Za-z_][A-Za-z0-9_.-]*)\}")
_bare = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_secret_word = re.compile(r"(?:^|[_.-])(?:key|token|secret|password|passwd|authorization|cookie)s?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A value with its references put in, the secrets that were, and the names that are not set."""

    value: object
    secrets: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[Key, str] = field(default_factory=dict)


def is_secret(name: str) -> bool:
    """Whether a key or variable is called as secrets are."""
    return bool(_secret_word.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)))


def resolve(value: object, variables: Mapping[str, str], *, keep: bool = False) -> Resolved:
    """A JSON value with its references put in. One that is not set stays as it is.

    With `keep`, those to secrets stay references, `${secret:NAME}`, for whoever puts them in where they are used.
    """
    secrets: dict[str, str] = {}
    missing: dict[Key, str] = {}

    def of(inner: object, key: Key) -> object:
        match inner:
            case str():
                return _reference.sub(lambda found: put(found, key), inner)
            case Mapping():
                return {name: of(one, (*key, str(name))) for name, one in inner.items()}
            case list() | tuple():
                return [of(one, (*key, n)) for n, one in enumerate(inner)]
            case _:
                return inner

    def put(found: re.Match[str], key: Key) -> str:
        kind, name = found.groups()
        known = variables.get(name)
        if known is None:
            missing[key] = name
            return found[0]
        if kind == "secret" or is_secret(name) or any(is_secret(str(step)) for step in key):
            secrets[name] = known
            if keep and len(known) >= SHORTEST:
                return f"{OPEN}{name}}}"
        return known

    return Resolved(value=of(value, ()), secrets=secrets, missing=missing)


def texts(value: object, key: Key = ()) -> Iterator[tuple[Key, str]]:
    """Every text in a JSON value, with its key."""
    match value:
        case str():
            yield key, value
        case Mapping():
            for name, inner in value.items():
                yield from texts(inner, (*key, str(name)))
        case list() | tuple():
            for n, inner in enumerate(value):
                yield from texts(inner, (*key, n))
        case _:
            pass


def literal_secrets(value: object) -> dict[Key, str]:
    """Texts under keys that are called as secrets are, written out instead of referred to."""
    return {
        key: text
        for key, text in texts(value)
        if len(text) >= SHORTEST and is_secret(str(key[-1])) and not _reference.search(text)
    }


def bare_references(value: object) -> dict[Key, str]:
    """Names in `${NAME}`, which is only text here, by the key that they stand at."""
    return {key: found[1] for key, text in texts(value) if (found := _bare.search(text))}
