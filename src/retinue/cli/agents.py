"""`retinue agents`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from retinue.cli.options import Json, commands, examples
from retinue.cli.project import Folder, counts, read_folder, report
from retinue.cli.show import clean, facts, one_line, plural, print_json, say, table
from retinue.core.agent import AgentDefinition
from retinue.core.tool import servers_meant
from retinue.settings import TheProject

app = commands("Look at the agents of a project, and check them.")

AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="An agent's name.")]


@app.command("list", epilog=examples("retinue agents list", "retinue agents list --json"))
def list_(folder: Folder = Path(), as_json: Json = False) -> None:
    """List the agents, also those that cannot run for a mistake in their file."""
    project = read_folder(folder)
    agents = project.agents
    if as_json:
        print_json(
            [_agent_json(project, name) for name in agents.names()] + [_broken_json(project, n) for n in agents.broken]
        )
        return
    if not agents.declared and not agents.broken:
        say("No agents yet. `retinue init` writes one to begin with.")
        return
    rows = [_line(project, name) for name in agents.names()]
    rows += [
        [Text(f"✗ {clean(name)}", "red"), "", "", "", one_line(why)] for name, why in sorted(agents.broken.items())
    ]
    table(["AGENT", "ON", "MODEL", "TOOLS", "WHAT IT IS FOR"], rows)
    if project.problems:
        say()
        say((f"{counts(project.problems)}; all of them:  ", "dim"), "retinue agents check")


def _line(project: TheProject, name: str) -> list[str | Text]:
    declared = project.agents.declared[name]
    agent = declared.definition
    model = agent.model or project.settings.model or "–"
    return [name, agent.platform, model, str(len(declared.tools)), one_line(agent.description)]


@app.command(epilog=examples("retinue agents show guide", "retinue agents show guide --json"))
def show(name: AgentName, folder: Folder = Path(), as_json: Json = False) -> None:
    """Show an agent: what it says of itself, which tools it gets, what it is told."""
    project = read_folder(folder)
    agent = project.agents.agent(name)
    if as_json:
        print_json(_agent_json(project, name))
        return
    declared = project.agents.declared[name]
    say((name, "bold"), f"  {clean(agent.description)}")
    facts(
        [
            ("file", f"{declared.file}  ({agent.digest})"),
            ("on", agent.platform),
            ("model", agent.model or (f"{project.settings.model} (the project's)" if project.settings.model else None)),
            ("falls back to", ", ".join(agent.fallback_models)),
            ("tools", ", ".join(declared.tools)),
            ("servers", ", ".join(_servers(project, agent))),
            ("delegates to", ", ".join(agent.agents)),
            ("takes", one_line(agent.input) if agent.input is not None else "any text"),
            ("gives", "text" if agent.finish == "text" else one_line(agent.completion.arguments)),
            ("limits", _limits(agent)),
            ("rules", plural(len(agent.policy), "rule") if agent.policy else None),
            ("others see it", "yes" if agent.export else None),
        ]
    )
    if agent.instructions:
        say()
        say(clean(agent.instructions))


def _limits(agent: AgentDefinition) -> str:
    of = agent.limits
    said = [
        (of.max_turns, "turns"),
        (of.max_minutes, "minutes"),
        (of.max_tool_calls, "tool calls"),
        (of.max_tokens, "tokens"),
        (of.max_cost_usd, "USD"),
    ]
    return ", ".join(f"{value:g} {unit}" for value, unit in said if value is not None)


def _servers(project: TheProject, agent: AgentDefinition) -> list[str]:
    """The servers whose tools it may use. Which these are is known when they are connected to."""
    return sorted({*servers_meant(agent.tools, project.mcp_servers), *agent.mcp_servers})


@app.command(epilog=examples("retinue agents check", "retinue agents check --json"))
def check(folder: Folder = Path(), as_json: Json = False) -> int:
    """Read the whole project and say all that is wrong with it, by file and line. The exit code is 1 on errors."""
    project = read_folder(folder)
    return report(project.problems, project.agents.names(), "agent", as_json=as_json)


def _agent_json(project: TheProject, name: str) -> dict[str, object]:
    declared = project.agents.declared[name]
    agent = declared.definition
    return {
        "name": name,
        "ok": True,
        "file": declared.file,
        "digest": agent.digest,
        "description": agent.description,
        "platform": agent.platform,
        "model": agent.model or project.settings.model,
        "tools": declared.tools,
        "mcp_servers": _servers(project, agent),
        "agents": agent.agents,
        "input": agent.input,
        "output": None if agent.finish == "text" else agent.completion.arguments,
        "definition": agent.to_json(),
    }


def _broken_json(project: TheProject, name: str) -> dict[str, object]:
    return {"name": name, "ok": False, "problem": project.agents.broken[name]}
