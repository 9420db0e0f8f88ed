"""Which paths of a folder or archive are taken. All patterns are written as in a .gitignore."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from retinue.errors import BadInput

# What nobody means when they name a folder. `!PATTERN` in exclude takes one back.
DEFAULT_EXCLUDE = (
    *(".git", ".hg/", ".svn/", ".idea/", ".DS_Store", "Thumbs.db", "*.swp"),
    *("node_modules/", ".venv/", "venv/", ".tox/", ".nox/", ".gradle/", ".terraform/"),
    *("__pycache__/", "*.pyc", ".cache/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".hypothesis/"),
    *("*.lock", "package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json", "go.sum"),
    *("*.min.js", "*.min.css", "*.map"),
    *(".env", ".env.*", "!.env.example", "*.pem", "*.key", "*.p12", "*.pfx"),
    *("id_rsa", "id_ed25519", ".netrc", ".pgpass"),
)
Segment = re.Pattern[str] | None
"""What fits one part of a path; None is `**`, which fits any number of them."""
_ANYTHING = re.compile(".*")
_NOTHING = re.compile("(?!)")
_open_escape = re.compile(r"(?<!\\)(\\\\)*\\$")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line. It is about a path itself; what is below follows from asking folder by folder."""

    takes: bool
    only_folders: bool
    segments: tuple[Segment, ...]

    @classmethod
    def parse(cls, line: str) -> Rule | None:
        """None for a line that says nothing, or nothing that can be meant."""
        line = re.sub(r"(?<!\\) +$", "", line)
        pattern = line.removeprefix("!")
        path = pattern.rstrip("/")
        parts = path.removeprefix("/").split("/")
        if line.startswith("#") or not all(parts) or _open_escape.search(pattern):
            return None
        if "/" not in path:
            parts = ["**", *parts]
        segments = [None if part == "**" else _segment(part) for part in parts]
        if segments[-1] is None:
            segments.append(_ANYTHING)  # what is in a folder, not the folder
        return cls(pattern == line, pattern.endswith("/"), tuple(segments))

    def fits(self, path: str) -> bool:
        """A folder's path ends with a slash."""
        if self.only_folders and not path.endswith("/"):
            return False
        return _fit(self.segments, path.rstrip("/").split("/"))


def _fit(segments: Sequence[Segment], parts: Sequence[str]) -> bool:
    part = segment = 0
    back: tuple[int, int] | None = None
    while part < len(parts):
        here = segments[segment] if segment < len(segments) else _NOTHING
        if here is None:
            segment += 1
            back = part, segment
        elif here.fullmatch(parts[part]):
            part, segment = part + 1, segment + 1
        elif back:  # the last `**` takes one part more; those before it need not be asked again
            part, segment = back[0] + 1, back[1]
            back = part, segment
        else:
            return False
    return all(here is None for here in segments[segment:])


def _segment(pattern: str) -> re.Pattern[str]:
    """Python's patterns know no backslash and no `^`; they never take long, whatever the name."""
    return re.compile(fnmatch.translate(re.sub(r"\\(.)|\[\^|\*+", _as_python_says_it, pattern)))


def _as_python_says_it(found: re.Match[str]) -> str:
    if found[1]:
        return f"[{found[1]}]" if found[1] in "*?[" else found[1]
    return "[!" if found[0] == "[^" else "*"


class Rules:
    """Lines in their order: the last that fits a path decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := Rule.parse(line))]

    def decide(self, path: str) -> bool | None:
        """Whether this path is taken, itself; None if nothing is said of it. A folder's ends with a slash."""
        return next((rule.takes for rule in reversed(self._rules) if rule.fits(path)), None)


class Patterns:
    """What is taken: what `include` says (all, if nothing), without what `exclude` says."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        for line in (*include, *exclude):
            if not Rule.parse(line):
                raise BadInput(problem=f"{line!r} is no pattern: write it as in a .gitignore")
        self._include = Rules(include) if include else None
        self._exclude = Rules((*DEFAULT_EXCLUDE, *exclude))

    def excludes(self, path: str) -> bool:
        """Itself or a folder that it is in; a folder's path ends with a slash."""
        return any(self._exclude.decide(level) for level in _levels(path))

    def includes(self, path: str) -> bool:
        """By what is said of it, or of the nearest folder of which something is said."""
        said = (self._include.decide(level) for level in reversed([*_levels(path)])) if self._include else iter([True])
        return next((word for word in said if word is not None), False)


@dataclass(frozen=True, slots=True)
class Ignores:
    """The .gitignore files that count in a folder: its own, and those above. The nearest that says something wins."""

    levels: tuple[tuple[str, Rules], ...] = ()

    def within(self, folder: str, text: str) -> Ignores:
        """With that of one more folder."""
        return Ignores((*self.levels, (f"{folder.rstrip('/')}/", Rules(text.splitlines()))))

    def ignores(self, path: str) -> bool:
        """Itself; what is in an ignored folder is not to be asked about."""
        said = (rules.decide(path.removeprefix(folder)) for folder, rules in reversed(self.levels))
        return next((word for word in said if word is not None), False)


def _levels(path: str) -> Iterator[str]:
    """The folders that lead to a path, then the path."""
    for found in re.finditer("/(?=.)", path):
        yield path[: found.end()]
    yield path
