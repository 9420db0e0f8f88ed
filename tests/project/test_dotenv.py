from __future__ import annotations

import pytest

from retinue.project.dotenv import read_env


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("A=1", {"A": "1"}),
        ("export A=1", {"A": "1"}),
        ("  A = x y  ", {"A": "x y"}),
        ("A=", {"A": ""}),
        ("A=x # a comment", {"A": "x"}),
        ("A=x#y", {"A": "x#y"}),
        ("A='x # y'", {"A": "x # y"}),
        ("A='x\\n'  # c", {"A": "x\\n"}),
        ('A="x\\n\\"y\\" $HOME"', {"A": 'x\n"y" $HOME'}),
        ("A=a=b", {"A": "a=b"}),
        ("A=${B}", {"A": "${B}"}),
        ('A="x', {"A": '"x'}),
        ("# A=1", {}),
        ("", {}),
    ],
)
def test_a_line_is_a_variable(line: str, variables: dict[str, str]) -> None:
    assert read_env(".env", line) == (variables, [])


@pytest.mark.parametrize("line", ["A", "1A=2", "A B=1", "=1", "A: 1"])
def test_any_other_line_is_a_problem_and_hides_none(line: str) -> None:
    variables, problems = read_env(".env", f"X=1\n{line}\nY=2")
    assert variables == {"X": "1", "Y": "2"}
    assert [str(problem) for problem in problems] == [".env:2: expected KEY=VALUE"]


def test_the_last_one_of_a_name_counts() -> None:
    assert read_env(".env", "A=1\nA=2")[0] == {"A": "2"}
