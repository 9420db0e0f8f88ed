"""A project folder, read: every problem with its place, and all the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from retinue.core.agent import PLATFORM_KEYS, AgentCode, AgentDefinition
from retinue.core.briefing import Skill
from retinue.core.declared import Problem, has_errors
from retinue.core.mcp import McpServer
from retinue.core.references import Resolved, is_secret, literal_secrets, resolve
from retinue.core.tool import BUILT_IN, ToolEntry
from retinue.errors import BadDefinition
from retinue.project.agents import AgentFile, read_agent
from retinue.project.checks import Surroundings
from retinue.project.definitions import Agents, Declared
from retinue.project.documents import Document, json_document, read_text, toml_document
from retinue.project.dotenv import read_env
from retinue.project.graphs import DeclaredGraph, GraphFile, Graphs, read_graph, tree_of, unknown_targets
from retinue.project.mcp_json import SERVERS, read_mcp_json
from retinue.project.servers import read_servers
from retinue.project.settings import Found, read_settings
from retinue.project.skills import read_skills
from retinue.project.tools import ProjectTools, is_path

AGENTS, GRAPHS, TOOLS = "agents", "graphs", "tools"
TOML, MCP_JSON, DOTENV = "retinue.toml", "mcp.json", ".env"
S = TypeVar("S", bound=msgspec.Struct)
Parse = Callable[[str, str], Document | Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Generic[S]):
    """What a folder declares. `tools` are its own, by name; `problems` is all that is wrong or odd, file by file."""

    folder: Path
    agents: Agents
    graphs: Graphs
    mcp_servers: Mapping[str, McpServer]
    tools: Mapping[str, object]
    settings: S
    problems: tuple[Problem, ...]
    skills: Mapping[str, Skill] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not has_errors(self.problems)


def is_project(folder: Path) -> bool:
    """Whether a folder is one. The tools of any other are somebody else's programs, and loading runs them."""
    return any((folder / name).exists() for name in (TOML, AGENTS, GRAPHS, MCP_JSON))


def load_settings(
    folder: Path,
    kind: type[S],
    *,
    arguments: Mapping[str, object] | None = None,
    variables: MutableMapping[str, str] | None = None,
) -> tuple[S, tuple[Problem, ...]]:
    """The settings alone. `kind` says which there are, and has a field `secrets` for those that were met."""
    loading = _Loading(folder, os.environ if variables is None else variables)
    settings = loading.settings(kind, arguments)
    return _with_secrets(settings, loading.found), tuple(loading.found.problems)


def load_project(
    folder: Path,
    kind: type[S],
    *,
    arguments: Mapping[str, object] | None = None,
    variables: MutableMapping[str, str] | None = None,
    builtin: Collection[str] = (),
    platforms: Collection[str] = tuple(PLATFORM_KEYS),
) -> Project[S]:
    """Everything in a folder. One bad file hides no other.

    What `.env` says goes into `variables` (those of this process, unless given) where it is not set. `builtin` are
    the names of tools that come with Retinue, `platforms` those that agents may be on.
    """
    loading = _Loading(folder, os.environ if variables is None else variables)
    settings = loading.settings(kind, arguments)
    tools = loading.tools()
    servers = loading.servers()
    skills = loading.skills()
    agents = loading.agents(tools, frozenset(servers), builtin, platforms)
    return Project(
        folder=folder,
        agents=agents,
        graphs=loading.graphs(agents),
        mcp_servers=servers,
        tools=tools.by_name,
        settings=_with_secrets(settings, loading.found),
        problems=tuple(loading.found.problems),
        skills=skills,
    )


def _with_secrets(settings: S, found: Found) -> S:
    changes: dict[str, Any] = {"secrets": found.secrets}
    return msgspec.structs.replace(settings, **changes)


@dataclass(slots=True)
class _Loading:
    """Reads one kind of file after the other, and keeps what it meets."""

    folder: Path
    variables: MutableMapping[str, str]
    found: Found = field(default_factory=Found)

    def settings(self, kind: type[S], arguments: Mapping[str, object] | None) -> S:
        self._read_env()
        settings, found = read_settings(kind, self._document(TOML, toml_document), self.variables, arguments)
        self.found.secrets |= found.secrets
        self.found.problems += found.problems
        return settings

    def _read_env(self) -> None:
        text = self._text(self.folder / DOTENV)
        said, problems = read_env(DOTENV, text or "")
        self.found.problems += problems
        for name, value in said.items():
            self.variables.setdefault(name, value)
        providers = (name for name in self.variables if name.endswith("_API_KEY"))
        self.found.keep({name: self.variables[name] for name in (*filter(is_secret, said), *providers)})

    def tools(self) -> ProjectTools:
        tools = ProjectTools()
        tools.load_files(self.folder / TOOLS, self.folder)
        self.found.problems += tools.problems
        return tools

    def skills(self) -> dict[str, Skill]:
        skills, problems = read_skills(self.folder)
        self.found.problems += problems
        return skills

    def servers(self) -> dict[str, McpServer]:
        document = self._document(MCP_JSON, json_document)
        if document is None:
            return {}
        _, problems = read_mcp_json(document)
        self.found.problems += problems
        entries = document.value.get(SERVERS) if isinstance(document.value, Mapping) else None
        if not isinstance(entries, Mapping):
            return {}
        self.found.keep(
            {f"{SERVERS}.{'.'.join(map(str, key))}": value for key, value in literal_secrets(entries).items()}
        )
        resolved = self._resolved(entries)
        for key, name in resolved.missing.items():
            self._odd(document.placed, (SERVERS, *key), f"{name} is not set")
        assert isinstance(resolved.value, Mapping)
        return read_servers(resolved.value, ())[0]

    def _resolved(self, entries: Mapping[str, object]) -> Resolved:
        """Secrets stay references: who connects puts them in."""
        resolved = resolve(entries, self.variables, keep=True)
        self.found.keep(resolved.secrets)
        return resolved

    def _odd(self, placed: Callable[[Problem], Problem], key: tuple[str | int, ...], text: str) -> None:
        self.found.problems.append(placed(Problem(key=key, text=text, warning=True)))

    # Agents

    def agents(
        self, tools: ProjectTools, servers: frozenset[str], builtin: Collection[str], platforms: Collection[str]
    ) -> Agents:
        files = list(self._agent_files(platforms))
        twice = _twice(files)
        entries = (*map(ToolEntry, sorted(tools.by_name)), *(ToolEntry(name, BUILT_IN) for name in sorted(builtin)))
        surroundings = Surroundings(
            tools=entries, servers=servers, agents=frozenset(file.name for file in files), folder=self.folder
        )
        declared: dict[str, Declared] = {}
        broken: dict[str, str] = {}
        for file in files:
            problems = list(file.problems)
            agent: Declared | None = None
            if other := twice.get(file.file):
                problems.append(file.placed(Problem(key=("name",), text=f"{other} has an agent {file.name} too")))
            if file.definition:
                agent, more = self._declared(file, file.definition, tools, surroundings)
                problems += more
            self.found.problems += problems
            if agent and not has_errors(problems) and file.name not in broken:
                declared[file.name] = agent
            else:
                declared.pop(file.name, None)
                broken[file.name] = next((str(p) for p in problems if not p.warning), broken.get(file.name, ""))
        return Agents(declared=declared, broken=broken, surroundings=surroundings, variables=self.variables)

    def _agent_files(self, platforms: Collection[str]) -> Iterator[AgentFile]:
        for path in sorted((self.folder / AGENTS).glob("*.md")):
            file = path.relative_to(self.folder).as_posix()
            match read_text(path, file):
                case str() as text:
                    yield read_agent(file, text, platforms)
                case problem:
                    name = path.stem
                    yield AgentFile(file=file, name=name, definition=None, document=None, problems=(problem,))

    def _declared(
        self, file: AgentFile, agent: AgentDefinition, tools: ProjectTools, surroundings: Surroundings
    ) -> tuple[Declared, list[Problem]]:
        """The agent among all that there is to name."""
        paths = tuple(filter(is_path, agent.tools or ()))
        wrong = {path: text for path in paths if (text := tools.load_path(path))}
        names, problems = surroundings.selected(agent, paths)
        problems += (Problem(key=("tools",), text=text) for text in wrong.values())
        problems += surroundings.check(agent)
        for key, name in self._resolved(agent.mcp_servers).missing.items():
            problems.append(Problem(key=("mcp_servers", *key), text=f"{name} is not set", warning=True))
        code = AgentCode(
            tools={path: tools.by_path[path] for path in paths if path not in wrong},
            digests={name: digest for name in names if (digest := tools.digest(name))},
        )
        declared = Declared(definition=agent, code=code, file=file.file, tools=names)
        return declared, [file.placed(problem) for problem in problems]

    # Graphs

    def graphs(self, agents: Agents) -> Graphs:
        files = list(self._graph_files())
        names = [file.name for file in files]
        known = {*agents.surroundings.agents}
        declared: dict[str, DeclaredGraph] = {}
        broken: dict[str, str] = {}
        for file in files:
            problems = list(file.problems)
            if names.count(file.name) > 1:
                problems.append(file.placed(Problem(key=("name",), text=f"more than one graph is named {file.name}")))
            if file.definition:
                problems += map(file.placed, unknown_targets(file.definition, known, names))
            self.found.problems += problems
            if file.definition and not has_errors(problems):
                declared[file.name] = DeclaredGraph(definition=file.definition, file=file.file)
            else:
                broken[file.name] = next((str(p) for p in problems if not p.warning), "")
        self.found.problems += _wrong_trees(agents)
        return Graphs(declared=declared, broken=broken)

    def _graph_files(self) -> Iterator[GraphFile]:
        for path in sorted(path for ending in ("yaml", "yml") for path in (self.folder / GRAPHS).glob(f"*.{ending}")):
            file = path.relative_to(self.folder).as_posix()
            match read_text(path, file):
                case str() as text:
                    yield read_graph(file, text)
                case problem:
                    yield GraphFile(file=file, name=path.stem, definition=None, document=None, problems=(problem,))

    # Files

    def _document(self, name: str, parse: Parse) -> Document | None:
        text = self._text(self.folder / name)
        if text is None:
            return None
        match parse(name, text):
            case Document() as document:
                return document
            case problem:
                self.found.problems.append(problem)
                return None

    def _text(self, path: Path) -> str | None:
        if not path.exists():
            return None
        match read_text(path, path.name):
            case str() as text:
                return text
            case problem:
                self.found.problems.append(problem)
                return None


def _wrong_trees(agents: Agents) -> Iterator[Problem]:
    """Agents whose children, and theirs and so on, are no tree."""
    by_name = {name: one.definition for name, one in agents.declared.items()}
    for name, declared in agents.declared.items():
        if declared.definition.children:
            try:
                tree_of(by_name[name], by_name)
            except BadDefinition as error:
                yield Problem(file=declared.file, key=("children",), text=error.problem)


def _twice(files: list[AgentFile]) -> dict[str, str]:
    """Files whose agent has a name that an earlier file's has, and that one."""
    first: dict[str, str] = {}
    return {file.file: first[file.name] for file in files if first.setdefault(file.name, file.file) != file.file}
