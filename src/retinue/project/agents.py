"""Agent files: `agents/*.md`, keys between two lines of `---`, and the instructions below."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from retinue.core.agent import AgentDefinition
from retinue.core.declared import Problem
from retinue.project.declare import declare
from retinue.project.documents import Document, yaml_document

FENCE = "---"
BODY = "instructions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """A file, the agent that it declares (nothing when it is declared wrongly), and all that is wrong or odd."""

    file: str
    name: str
    definition: AgentDefinition | None
    document: Document | None
    problems: tuple[Problem, ...]

    def placed(self, problem: Problem) -> Problem:
        """A problem of one of its keys, at its line."""
        return self.document.placed(problem) if self.document else replace(problem, file=self.file)


def read_agent(file: str, text: str, platforms: Collection[str] | None = None) -> AgentFile:
    """The agent that a file declares. `file` stands in the problems."""
    lines = text.split("\n")
    end = _end_of_keys(lines)
    if isinstance(end, Problem):
        return _unread(file, replace(end, file=file))
    document = yaml_document(file, "\n".join(lines[1:end]), first_line=2)
    if isinstance(document, Problem):
        return _unread(file, document)
    keys = document.value if document.value is not None else {}
    if not isinstance(keys, Mapping):
        return _unread(file, document.placed(Problem(text="expected keys between the two lines of ---")))
    body = "\n".join(lines[end + 1 :])
    instructions = body.strip()
    body_line = end + 2 + body[: len(body) - len(body.lstrip())].count("\n")
    definition, found = _declare(keys, instructions, platforms)
    problems = [*document.problems, *(_placed(document, problem, body_line) for problem in found)]
    return AgentFile(
        file=file,
        name=str(keys.get("name") or _stem(file)),
        definition=None if document.problems else definition,
        document=document,
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
    )


def _end_of_keys(lines: list[str]) -> int | Problem:
    """The line that ends the keys."""
    if lines[0].rstrip() != FENCE:
        return Problem(line=1, text="it has no front matter: an agent's file begins with ---, its keys, and --- again")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == FENCE:
            return number
    return Problem(line=1, text="its front matter has no end: put --- below the keys")


def _declare(
    keys: Mapping[str, object], instructions: str, platforms: Collection[str] | None
) -> tuple[AgentDefinition | None, list[Problem]]:
    problems: list[Problem] = []
    if BODY in keys:
        problems.append(Problem(key=(BODY,), text="instructions stand below the keys, not among them"))
    if not str(keys.get("description") or "").strip():
        problems.append(Problem(key=("description",), text="it is missing: say in a line what the agent is for"))
    definition, found = declare({**keys, BODY: instructions}, platforms=platforms)
    return (None if problems else definition), problems + found


def _placed(document: Document, problem: Problem, body_line: int) -> Problem:
    """A template's own line counts in the body; in a key, the key's does."""
    if problem.key == (BODY,) and problem.line:
        return replace(problem, key=(), file=document.file, line=body_line + problem.line - 1)
    return document.placed(problem)


def _unread(file: str, problem: Problem) -> AgentFile:
    return AgentFile(file=file, name=_stem(file), definition=None, document=None, problems=(problem,))


def _stem(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".md")
