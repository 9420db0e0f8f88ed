"""What an app is made of, chosen by its database, its settings and its project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from retinue.core.tool import BUILT_IN, ToolEntry
from retinue.engine.hub import Hub
from retinue.engine.runner import Runner, Runners
from retinue.files.config import FilesConfig
from retinue.files.local import LocalFiles, MemoryFiles
from retinue.models.names import ModelNames
from retinue.ports.bus import Bus
from retinue.ports.clock import Clock
from retinue.ports.files import Files
from retinue.ports.store import Store
from retinue.project.checks import Surroundings
from retinue.project.definitions import Agents
from retinue.project.graphs import Graphs
from retinue.runners.function import FunctionRunner
from retinue.runners.graph.runner import GraphRunner
from retinue.runners.local.runner import LocalConfig, LocalRunner
from retinue.runners.model import ModelRunner
from retinue.settings import RUNNERS, Settings, TheProject
from retinue.tools.builtin.catalog import NAMES
from retinue.tools.builtin.workspace import Workspaces
from retinue.tools.mcp.late import LateServers
from retinue.tools.toolbox import AgentTools, ProjectParts

if TYPE_CHECKING:
    from retinue.project.graphs import Graph
    from retinue.project.python import Agent

DEFAULT_FOLDER = Path(".retinue")


def agents_of(project: TheProject | None, more: Iterable[Agent]) -> Agents:
    """The agents of a project, and those that are declared in Python."""
    alone = Surroundings(tools=tuple(ToolEntry(name, BUILT_IN) for name in NAMES))
    return (project.agents if project else Agents(surroundings=alone)).and_from_python(more)


def graphs_of(project: TheProject | None, more: Iterable[Graph], agents: Agents) -> Graphs:
    """The graphs of a project, those that are declared in Python, and the trees of agents."""
    definitions = [agents.agent(name) for name in agents.names()]
    return (project.graphs if project else Graphs()).and_more(more, definitions)


def servers_of(project: TheProject | None, secrets: Mapping[str, str], clock: Clock) -> LateServers:
    """The MCP servers of a project; agents may bring their own."""
    if project:
        return LateServers(project.mcp_servers, secrets, clock, project.folder)
    return LateServers({}, secrets, clock, Path())


def tools_of(
    agents: Agents, project: TheProject | None, workspaces: Workspaces, servers: LateServers, config: FilesConfig
) -> AgentTools:
    """All that agents can call."""
    parts = ProjectParts(files=config)
    if project:
        parts = ProjectParts(folder=project.folder, tools=project.tools, skills=project.skills, files=config)
    return AgentTools(agents, parts, workspaces, servers)


def runners_of(models: ModelNames, agents: Agents, graphs: Graphs, tools: AgentTools, settings: Settings) -> Runners:
    """Those that come with Retinue."""
    config = LocalConfig(
        model=settings.model or "test",
        policy=settings.policy,
        patience=settings.retry,
        routing=settings.routing,
        compaction=settings.compaction,
    )
    runners = Runners(agents.platform)
    built_in: tuple[Runner, ...] = (
        FunctionRunner(),
        ModelRunner(models),
        LocalRunner(agents, tools, models, config),
        GraphRunner(graphs, runners),
    )
    for runner in built_in:
        runners.add(runner)
    return runners


def installed_runners() -> list[Runner]:
    """Runners of other packages."""
    return [point.load()() for point in entry_points(group=RUNNERS)]


def files_of(url: str, config: FilesConfig) -> Files:
    """Where the settings say; else beside a SQLite file, in memory beside one in memory, or in the default folder."""
    if config.store:
        from retinue.files.stores import open_files  # buckets are an extra

        return open_files(config.store, config.options(config.store))
    if _is_in_memory(url):
        return MemoryFiles()
    return LocalFiles(_beside(url, ".files") or DEFAULT_FOLDER / "files")


@contextmanager
def workspaces_of(url: str) -> Iterator[Path]:
    """The folder of the workspaces: beside a SQLite file, in the default folder, or for as long as the memory lasts."""
    if _is_in_memory(url):
        with TemporaryDirectory(prefix="retinue-") as folder:
            yield Path(folder)
    else:
        yield _beside(url, ".work") or DEFAULT_FOLDER / "work"


def bus_of(url: str, store: Store, hub: Hub) -> Bus | None:
    """How processes hear of each other's commits. On SQLite they look each quarter of a second."""
    if not url.startswith("postgres"):
        return None
    from retinue.dispatch.postgres import PostgresBus  # psycopg is an extra, and slow to import

    bus = PostgresBus(url, hub.heard)
    store.on_commit(bus.committed)
    return bus


def _is_in_memory(url: str) -> bool:
    return url == ":memory:" or (url.startswith("sqlite:") and _path_in(url) in ("", ":memory:"))


def _beside(url: str, suffix: str) -> Path | None:
    """Next to the file of a SQLite database."""
    return Path(_path_in(url)).with_suffix(suffix) if url.startswith("sqlite:") else None


def _path_in(url: str) -> str:
    return url.removeprefix("sqlite://").removeprefix("/").partition("?")[0]
