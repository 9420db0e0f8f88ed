"""A project's tools: Python files whose `@tool` functions agents can be given."""

from __future__ import annotations

import hashlib
import importlib
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from retinue.core.declared import Problem
from retinue.core.spelling import did_you_mean
from retinue.project.python import digest_of_tool, name_of_tool


@dataclass(slots=True)
class ProjectTools:
    """The tools of a project's files by name, and those that agents name by path as MODULE:NAME."""

    by_name: dict[str, object] = field(default_factory=dict)
    by_path: dict[str, object] = field(default_factory=dict)
    file_of: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def load_files(self, folder: Path, root: Path) -> None:
        """All files of a folder; one that cannot be loaded hides no other."""
        for path in sorted(folder.glob("*.py")):
            if not path.name.startswith(("_", ".")):
                self._load_file(path, path.relative_to(root).as_posix())

    def _load_file(self, path: Path, file: str) -> None:
        module = _import_file(path)
        if isinstance(module, Problem):
            self.problems.append(Problem(file=file, line=module.line, text=module.text))
            return
        for name, tool in _tools_in(module):
            if self.by_name.setdefault(name, tool) is not tool:
                text = f"there are two tools named {name}: {self.file_of[name]} has the other"
                self.problems.append(Problem(file=file, text=text))
            else:
                self.file_of.setdefault(name, file)

    def load_path(self, path: str) -> str:
        """Load a tool by MODULE:NAME; what is wrong with it, or nothing."""
        if path in self.by_path:
            return ""
        module_name, _, name = path.partition(":")
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit) as error:
            return f"importing {module_name} failed: {_in_words(error)}"
        found: object = module
        for part in name.split("."):
            found = getattr(found, part, None)
        if name_of_tool(found) is None:
            there = dict(_tools_in(module))
            return f"{module_name} has no tool {name}. {did_you_mean(name, there)}"
        self.by_path[path] = found
        return ""

    def digest(self, name: str) -> str:
        """Of a tool by name or path; empty when there is none, or it says none."""
        return digest_of_tool(self.by_path.get(name, self.by_name.get(name)))


def is_path(pattern: str) -> bool:
    """Whether a tool is named as MODULE:NAME."""
    return ":" in pattern and not pattern.startswith("mcp:")


def _tools_in(module: ModuleType) -> Iterator[tuple[str, object]]:
    for value in list(vars(module).values()):
        if (name := name_of_tool(value)) is not None:
            yield name, value


def _import_file(path: Path) -> ModuleType | Problem:
    """The module of a file, under a name of its own: a folder called `tools` is on many a path."""
    place = hashlib.sha256(str(path.parent.resolve()).encode()).hexdigest()[:8]
    name = f"retinue_project_{place}.{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        return Problem(line=error.lineno or 0, text=f"it is no Python: {error.msg}")
    except (Exception, SystemExit) as error:  # a file that does not load hides no other
        del sys.modules[name]
        return Problem(line=_line_in(path, error), text=f"it does not load: {_in_words(error)}")
    return module


def _line_in(path: Path, error: BaseException) -> int:
    """The last line of a file on an error's way."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] or 0 if lines else 0


def _in_words(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
