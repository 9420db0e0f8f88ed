from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retinue.project.tools import ProjectTools, is_path

TOOL = "from retinue import tool\n@tool(version='7')\ndef {name}(x: str): ...\n"


def load(folder: Path, **files: str) -> ProjectTools:
    (folder / "tools").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "tools" / f"{name}.py").write_text(text)
    tools = ProjectTools()
    tools.load_files(folder / "tools", folder)
    return tools


def test_the_tools_of_all_files_are_found(tmp_path: Path) -> None:
    tools = load(tmp_path, a=TOOL.format(name="look"), b=TOOL.format(name="fetch") + "helper = 3", _c="1/0")
    assert sorted(tools.by_name) == ["fetch", "look"]
    assert (tools.digest("look"), tools.digest("nobody"), tools.problems) == ("7", "", [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def x(:", "tools/bad.py:1: it is no Python"),
        ("import json\n\nimport nobody_has_this", "tools/bad.py:3: it does not load: ModuleNotFoundError: No module"),
        ("def f():\n    1 / 0\nf()", "tools/bad.py:2: it does not load: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)", "tools/bad.py:2: it does not load: SystemExit: 3"),
        ("\xe9".encode("latin-1").decode("latin-1") + " = (", "tools/bad.py:1: it is no Python"),
        ("raise ValueError", "tools/bad.py:1: it does not load: ValueError"),
    ],
)
def test_a_file_that_does_not_load_hides_no_other(tmp_path: Path, text: str, says: str) -> None:
    tools = load(tmp_path, bad=text, good=TOOL.format(name="look"))
    assert [str(problem)[: len(says)] for problem in tools.problems] == [says]
    assert sorted(tools.by_name) == ["look"]


def test_two_tools_of_one_name_are_an_error_that_names_both_files(tmp_path: Path) -> None:
    tools = load(tmp_path, a=TOOL.format(name="look"), b=TOOL.format(name="look"))
    assert [str(problem) for problem in tools.problems] == [
        "tools/b.py: there are two tools named look: tools/a.py has the other"
    ]


def test_files_of_one_name_in_two_projects_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = load(tmp_path / "one", same=TOOL.format(name="look"))
    two = load(tmp_path / "two", same=TOOL.format(name="fetch"))
    assert (sorted(one.by_name), sorted(two.by_name)) == (["look"], ["fetch"])


def test_a_tool_can_be_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cellar.py").write_text(TOOL.format(name="wine") + "water = 3")
    monkeypatch.syspath_prepend(tmp_path)
    tools = ProjectTools()
    assert tools.load_path("cellar:wine") == ""
    assert tools.digest("cellar:wine") == "7"
    assert tools.load_path("cellar:wnie") == "cellar has no tool wnie. Did you mean wine?"
    assert tools.load_path("cellar:water") == "cellar has no tool water. There is: wine."
    assert tools.load_path("attic:wine").startswith("importing attic failed: ModuleNotFoundError")
    sys.modules.pop("cellar")


@pytest.mark.parametrize(
    ("name", "path"), [("a:b", True), ("a.b:c.d", True), ("a", False), ("a.b", False), ("mcp:a/b", False)]
)
def test_a_path_has_a_colon_and_is_of_no_server(name: str, path: bool) -> None:
    assert is_path(name) is path
