from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from retinue.core.declared import Problem
from retinue.project.documents import Document, json_document, read_text, toml_document, yaml_document


def good(document: Document | Problem) -> Document:
    assert isinstance(document, Document)
    return document


def bad(document: Document | Problem | str) -> Problem:
    assert isinstance(document, Problem)
    return document


YAML = """\
name: guide
limits:
  max_turns: 3
  "max minutes": 1.5

tools: [a,
  b]
messages:
- role: user
  text: |
    hi
- {role: model}
"""


def test_yaml_is_read_with_the_line_of_every_key() -> None:
    document = good(yaml_document("a.md", YAML, first_line=2))
    assert document.value == {
        "name": "guide",
        "limits": {"max_turns": 3, "max minutes": 1.5},
        "tools": ["a", "b"],
        "messages": [{"role": "user", "text": "hi\n"}, {"role": "model"}],
    }
    assert [
        document.lines[key]
        for key in [
            ("name",),
            ("limits", "max_turns"),
            ("limits", "max minutes"),
            ("tools", 1),
            ("messages", 1, "role"),
        ]
    ] == [2, 4, 5, 8, 13]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("2026-01-02", "2026-01-02"),
        ("12:30", "12:30"),
        ("017", 17),
        ("0x1f", 31),
        ("0o17", 15),
        ("1e3", 1000.0),
        ("-1.5", -1.5),
        (".5", 0.5),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        (".nan", ".nan"),
        ("'3'", "3"),
        ("'true'", "true"),
        ("<<", "<<"),
    ],
)
def test_plain_words_mean_what_they_mean_in_json(text: str, value: object) -> None:
    read = good(yaml_document("a.md", f"key: {text}")).value
    assert read == {"key": value}
    assert type(read["key"]) is type(value)


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{here}: &{here} [{', '.join([f'*{above}'] * 10)}]\n" for above, here in pairwise("abcdefgh")
)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: [1, 2\nc: 3", 3, "it is no YAML"),
        ("a: 1\n\tb: 2", 2, "it is no YAML"),
        ("a: b: c", 1, "it is no YAML"),
        ("a: 1\n---\nb: 2", 2, "it is no YAML"),
        ("a: *nobody", 1, "it is no YAML"),
        ("a: \x00", 1, "it is no YAML"),
        ("a: &x\n  b: *x", 2, "nested too deeply"),
        ("[" * 500 + "]" * 500, 1, ""),
        (LAUGHS, 0, "too long"),
    ],
)
def test_bad_yaml_is_a_problem_with_its_line(text: str, line: int, says: str) -> None:
    problem = bad(yaml_document("a.md", text))
    assert says in problem.text
    assert problem.line == line or not line


def test_a_key_that_stands_twice_is_an_error_with_both_lines() -> None:
    document = good(yaml_document("a.md", "a: 1\nb: 2\na: 3"))
    assert document.value == {"a": 1, "b": 2}
    assert [str(problem) for problem in document.problems] == ["a.md:3: a: it stands here twice, first in line 1"]


def test_a_key_that_is_no_text_is_an_error() -> None:
    document = good(yaml_document("a.md", "a: 1\n? [x]\n: 2"))
    assert [(problem.line, problem.warning) for problem in document.problems] == [(2, False)]


def test_no_tag_makes_python_do_anything() -> None:
    document = good(yaml_document("a.md", "a: !!python/object/apply:os.getcwd []\nb: !x 3"))
    assert document.value == {"a": [], "b": 3}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(categories=["L", "N"]), min_size=1), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from("abc"), JSON))
def test_yaml_that_was_written_is_read_as_the_same(value: dict[str, object]) -> None:
    text = yaml.safe_dump(json.loads(json.dumps(value)), allow_unicode=True)
    assert good(yaml_document("a.md", text)).value == yaml.safe_load(text)


def test_json_is_read_with_the_line_of_every_key() -> None:
    text = '{\n\t"mcpServers": {\n\t\t"a": {"command": "x",\n\t\t\t"args": ["\\u00e9\\/", 2]}\n\t}\n}'
    document = good(json_document("mcp.json", text))
    assert document.value == {"mcpServers": {"a": {"command": "x", "args": ["é/", 2]}}}
    assert document.lines[("mcpServers", "a", "args")] == 4


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), ('{"a": 1,\n}', 2), ("{'a': 1}", 1), ('{"a": NaN}', 1), ("[" * 99_999, 1), ('{"a"', 1)]
)
def test_bad_json_is_a_problem_with_its_line(text: str, line: int) -> None:
    problem = bad(json_document("mcp.json", text))
    assert (problem.line, problem.text.startswith("it is no JSON: ")) == (line, True)


def test_a_key_that_stands_twice_in_json_is_an_error_too() -> None:
    document = good(json_document("mcp.json", '{"a": 1,\n"a": 2}'))
    assert [problem.line for problem in document.problems] == [2]


TOML = """\
# settings
model = "test"

[worker]
concurrency = 3
"owner_limit" = 4   # four

[providers.openai]
api_key = '''
[not.a.table]
x = 1
'''
[providers."my own"]
base_url = "x"
[[policy]]
tool = "a"
[[policy]]
tool = "b"
action.of = 1
"""


def test_toml_is_read_with_the_line_of_its_keys() -> None:
    document = good(toml_document("retinue.toml", TOML))
    lines = {
        ("model",): 2,
        ("worker",): 4,
        ("worker", "concurrency"): 5,
        ("worker", "owner_limit"): 6,
        ("providers", "openai", "api_key"): 9,
        ("providers", "my own", "base_url"): 14,
        ("policy", 0, "tool"): 16,
        ("policy", 1, "tool"): 18,
        ("policy", 1, "action", "of"): 19,
    }
    assert {key: document.lines.get(key) for key in lines} == lines


@pytest.mark.parametrize(
    ("text", "line"), [("a = \n", 1), ("a = 1\nb = 'x\n", 2), ("a = 1\na = 2", 2), ("[a\n", 1), ("a = [", 1)]
)
def test_bad_toml_is_a_problem_with_its_line(text: str, line: int) -> None:
    problem = bad(toml_document("retinue.toml", text))
    assert (problem.line, problem.text.startswith("it is no TOML: ")) == (line, True)


def test_a_problem_without_a_line_of_its_own_has_that_of_what_it_is_in() -> None:
    document = good(yaml_document("a.md", YAML, first_line=2))
    placed = [document.placed(Problem(key=key, text="odd")).line for key in [("limits", "x", "y"), ("nobody",), ()]]
    assert placed == [3, 2, 2]


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"\xef\xbb\xbfa\r\nb\r\n", "a\nb\n"), ("é".encode(), "é"), (b"", "")],
    ids=["bom", "utf-8", "empty"],
)
def test_text_is_read_without_what_windows_adds(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "a").write_bytes(data)
    assert read_text(tmp_path / "a", "a") == text


def test_what_is_not_utf_8_is_a_problem_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("a\nb\ncaf\xe9".encode("latin-1"))
    assert str(bad(read_text(tmp_path / "a", "agents/a.md"))).startswith("agents/a.md:3: it is not UTF-8")


def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    assert "it cannot be read" in bad(read_text(tmp_path, "x")).text
