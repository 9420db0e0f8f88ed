"""Include, exclude and .gitignore. The judge is git itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retinue.errors import BadInput
from retinue.files.patterns import Ignores, Patterns

names = st.sampled_from(["a", "b", "a.py", "b.py", "c.txt", "build", "docs", "*", "a b", "[a]", "!a", "#a"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
pieces = st.sampled_from(["a", "b", "*", "?", "*.py", "[ab]", "[!a]", "[^a-c]*", "build", "docs", ".py", "a b", "\\*"])
glued = st.lists(pieces, min_size=1, max_size=2).map("".join).map(lambda piece: piece.replace("**", "*"))
globs = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "", "!", "#", "\\!", "\\#"]),
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(glued | st.just("**"), min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "/", "/**", " ", "\\ "]),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@given(st.lists(globs, max_size=5), st.lists(paths, min_size=1, max_size=8))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_path_is_ignored_exactly_when_git_ignores_it(repository: Path, lines: list[str], asked: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(lines))
    git = subprocess.run(
        ["git", "-C", repository, "check-ignore", "--no-index", "--stdin"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    ignores = Ignores().within("/r", "\n".join(lines))
    ours = {path for path in asked if _is_ignored(ignores, path)}
    assert ours == set(git.stdout.splitlines())


def _is_ignored(ignores: Ignores, path: str) -> bool:
    """As a walk finds it: what is in an ignored folder is never looked at."""
    parts = path.split("/")
    folders = ("/".join(parts[:n]) + "/" for n in range(1, len(parts)))
    return any(ignores.ignores(f"/r/{folder}") for folder in folders) or ignores.ignores(f"/r/{path}")


def escaped(path: str) -> str:
    return "".join(f"\\{char}" if char in "*[]!#" else char for char in path)


@given(paths)
def test_what_is_excluded_is_excluded_and_all_below_it(path: str) -> None:
    patterns = Patterns(exclude=[f"/{escaped(path)}"])
    assert patterns.excludes(path)
    assert patterns.excludes(f"{path}/")
    assert patterns.excludes(f"{path}/below/it.txt")
    assert not Patterns(exclude=[f"/{escaped(path)}/"]).excludes(path)


@given(paths)
def test_all_is_included_unless_something_is_said(path: str) -> None:
    assert Patterns().includes(path)
    assert Patterns([escaped(path)]).includes(path)
    assert Patterns([escaped(path)]).includes(f"{path}/below/it.txt")
    assert not Patterns(["nothing-like-it"]).includes(path)


def test_the_nearest_gitignore_that_says_something_wins() -> None:
    ignores = Ignores().within("/r", "*.log\nkeep.txt").within("/r/a", "!a.log\n*.txt")
    assert ignores.ignores("/r/b.log")
    assert not ignores.ignores("/r/a/a.log")
    assert ignores.ignores("/r/a/b.log")
    assert ignores.ignores("/r/a/keep.txt")


@pytest.mark.parametrize(
    "path",
    [".git", ".git/config", "node_modules/x/y.js", "a/uv.lock", ".env", ".env.local", "id_rsa", "a/b.pem", "x.min.js"],
)
def test_what_nobody_means_is_excluded(path: str) -> None:
    assert Patterns().excludes(path)


def test_what_is_excluded_unasked_can_be_taken_back() -> None:
    assert not Patterns(exclude=["!uv.lock"]).excludes("uv.lock")
    assert not Patterns().excludes(".env.example")


@pytest.mark.parametrize("line", ["!", "# words", "", "/", "a//b", "\\"])
def test_a_pattern_that_is_none_is_refused_and_passed_over_in_a_gitignore(line: str) -> None:
    with pytest.raises(BadInput, match="is no pattern"):
        Patterns(exclude=[line])
    assert Ignores().within("/r", f"{line}\n*.py").ignores("/r/a.py")
