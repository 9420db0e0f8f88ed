"""Skills: folders `skills/NAME` with a `SKILL.md`, whose front matter says what each is good for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from retinue.core.briefing import Skill
from retinue.core.declared import Problem
from retinue.project.checks import SKILL, SKILLS
from retinue.project.documents import Document, read_text, yaml_document

FENCE = "---"
_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def read_skills(project: Path) -> tuple[dict[str, Skill], list[Problem]]:
    """All skills of a project by name. A bad one hides no other."""
    found: dict[str, Skill] = {}
    problems: list[Problem] = []
    for path in sorted((project / SKILLS).glob(f"*/{SKILL}")):
        skill, said = _read(path, path.relative_to(project).as_posix())
        problems += said
        if skill and (other := found.setdefault(skill.name, skill)) is not skill:
            text = f"there are two skills named {skill.name}: {Path(other.folder).name}/ has the other"
            problems.append(Problem(file=path.relative_to(project).as_posix(), text=text))
    return found, problems


def _read(path: Path, file: str) -> tuple[Skill | None, list[Problem]]:
    text = read_text(path, file)
    if isinstance(text, Problem):
        return None, [text]
    document = _front_matter(file, text)
    if isinstance(document, Problem):
        return None, [document]
    keys = document.value if isinstance(document.value, Mapping) else {}
    problems = [*document.problems]
    name, description = str(keys.get("name") or path.parent.name), str(keys.get("description") or "").strip()
    if not _name.fullmatch(name):
        problems.append(
            document.placed(Problem(key=("name",), text=f"{name!r} is no name: use letters, digits, - and _"))
        )
    elif name != path.parent.name:
        text = f"its folder is {path.parent.name}/: other programs want it to be {name}/"
        problems.append(document.placed(Problem(key=("name",), text=text, warning=True)))
    if not description:
        text = "it is missing: say what the skill is for, and when to use it"
        problems.append(document.placed(Problem(key=("description",), text=text)))
    if any(not problem.warning for problem in problems):
        return None, problems
    return Skill(name, description, str(path.parent.resolve())), problems


def _front_matter(file: str, text: str) -> Document | Problem:
    lines = text.split("\n")
    ends = (number for number, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE)
    if lines[0].rstrip() != FENCE or (end := next(ends, 0)) == 0:
        return Problem(
            file=file, line=1, text="it has no front matter: begin it with ---, its name and description, and ---"
        )
    return yaml_document(file, "\n".join(lines[1:end]), first_line=2)
