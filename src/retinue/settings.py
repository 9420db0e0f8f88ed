"""All settings, typed, and the project folder that they come with.

An argument comes before a variable of the environment, that before `retinue.toml`, that before the default.
`RETINUE_WORKER_CONCURRENCY` is `concurrency` under `[worker]`, and so on for each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import msgspec

from retinue.core.agent import PLATFORM_KEYS
from retinue.core.compaction import CompactionConfig
from retinue.core.declared import Positive, Problem, Seconds
from retinue.core.policy import Rule
from retinue.core.routing import RoutingConfig
from retinue.files.config import FilesConfig
from retinue.models.config import ModelsConfig
from retinue.project.load import Project, is_project, load_project, load_settings
from retinue.tools.builtin.catalog import NAMES

__all__ = ["ServerSettings", "Settings", "TheProject", "WorkerSettings", "is_project", "read_project", "read_settings"]

RUNNERS = "retinue.runners"


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[worker]`: how much a worker takes on, and how long it is waited for."""

    concurrency: Positive = 100
    owner_limit: Positive | None = None
    """How many runs of one owner run at once."""
    lease: Annotated[Seconds, msgspec.Meta(ge=1)] = 30.0
    grace: Annotated[float, msgspec.Meta(ge=0)] = 10.0
    """How long a stop waits for what is under way."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[server]`: where `retinue serve` listens."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8400


class Settings(ModelsConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`retinue.toml`. What it says of models stands at the top of it."""

    database_url: str | None = None
    worker: WorkerSettings = WorkerSettings()
    server: ServerSettings = ServerSettings()
    files: FilesConfig = FilesConfig()
    policy: tuple[Rule, ...] = ()
    """Rules for the calls of all agents, after their own."""
    routing: RoutingConfig | None = None
    compaction: CompactionConfig = CompactionConfig()
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    """Every secret that was met, by name. Not a setting: they are kept out of the journal."""

    def __repr__(self) -> str:
        return f"<settings with {len(self.secrets)} secrets>"  # keys of providers are among them


TheProject = Project[Settings]


def read_settings(
    folder: Path | None = None,
    *,
    arguments: Mapping[str, object] | None = None,
    variables: MutableMapping[str, str] | None = None,
) -> tuple[Settings, tuple[Problem, ...]]:
    """The settings of a folder, the current one unless named, and what is wrong with them."""
    return load_settings(folder or Path(), Settings, arguments=arguments, variables=variables)


def read_project(
    folder: Path | None = None,
    *,
    arguments: Mapping[str, object] | None = None,
    variables: MutableMapping[str, str] | None = None,
    builtin: Collection[str] = NAMES,
) -> TheProject:
    """All that a folder declares, the current one unless named. Its tools are loaded, which runs their files."""
    installed = (point.name for point in entry_points(group=RUNNERS))
    return load_project(
        folder or Path(),
        Settings,
        arguments=arguments,
        variables=variables,
        builtin=builtin,
        platforms=(*PLATFORM_KEYS, *installed),
    )
