"""A whole folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retinue.errors import BadTarget, UnknownTarget
from retinue.project.load import is_project
from retinue.settings import TheProject, read_project

from .conftest import Load, agent

TOOLS = """
from retinue import tool


@tool(version="7")
def look_up(city: str): ...


@tool
def book_table(city: str): ...
"""
SERVERS = json.dumps({"mcpServers": {"git": {"command": "x"}, "my_srv-1.0": {"url": "https://x"}}})


def said(project: TheProject) -> list[str]:
    return [f"{'warning ' if problem.warning else ''}{problem}" for problem in project.problems]


def test_a_folder_is_read_whole(load: Load) -> None:
    project = load(
        {
            "retinue.toml": "model = 'test'",
            "agents/guide.md": agent("guide", "tools: [look_up, mcp:git/*]", "agents: [clerk]"),
            "agents/clerk.md": agent("clerk"),
            "agents/notes.txt": "not an agent",
            "tools/cities.py": TOOLS,
            "mcp.json": SERVERS,
            ".env": "A=1",
        }
    )
    assert said(project) == []
    assert project.ok
    assert (project.agents.names(), sorted(project.tools), sorted(project.mcp_servers)) == (
        ("clerk", "guide"),
        ["book_table", "look_up"],
        ["git", "my_srv-1.0"],
    )
    assert (project.settings.model, project.agents.agent("guide").agents) == ("test", ("clerk",))


def test_an_agent_gets_what_it_names_and_without_naming_all_of_the_project(load: Load) -> None:
    project = load(
        {
            "agents/two.md": agent("two", "tools: [look_up, web_fetch, look_up]"),
            "agents/all.md": agent("all"),
            "agents/none.md": agent("none", "tools: []"),
            "tools/cities.py": TOOLS,
        }
    )
    assert {name: declared.tools for name, declared in project.agents.declared.items()} == {
        "two": ("look_up", "web_fetch"),
        "all": ("book_table", "look_up"),
        "none": (),
    }


def test_the_code_of_the_tools_that_an_agent_gets_is_pinned_with_it(load: Load) -> None:
    project = load({"agents/a.md": agent("a", "tools: [look_up, web_fetch]"), "tools/cities.py": TOOLS})
    assert project.agents.code("a").digests == {"look_up": "7"}


GOOD: dict[str, str | bytes] = {
    "agents/good.md": agent("good"),
    "tools/cities.py": TOOLS,
    "mcp.json": SERVERS,
    "retinue.toml": "model = 'x'",
}


def check_beside_good(load: Load, file: str, content: str | bytes, says: str) -> None:
    project = load({**GOOD, file: content})
    assert [problem[: len(says)] for problem in said(project)] == [says]
    assert "good" in project.agents.names()
    assert "look_up" in project.tools
    assert not project.ok


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("tools: [lok_up]", "tools: there is no tool lok_up. Did you mean look_up?"),
        ("tools: [good]", "tools: good is an agent, not a tool"),
        ("tools: ['mcp:gti/*']", "tools: there is no MCP server gti. Did you mean git"),
        ("tools: ['no.such:tool']", "tools: importing no.such failed"),
        ("agents: [god]", "agents: there is no agent god. Did you mean good?"),
        ("agents: [a]", "agents: a names itself"),
        ("platform: locl", "platform: there is no platform locl. Did you mean local?"),
        ("context: [date, notes.md]", "context[1]: notes.md is none of date, environment, skills"),
        (
            "context: dat",
            "context[0]: dat is none of date, environment, skills, and there is no such file. Did you mean",
        ),
        ("context: ../../etc/passwd", "context[0]: ../../etc/passwd is outside the project"),
    ],
)
def test_an_agent_that_names_what_is_not_there_hides_no_other(load: Load, key: str, says: str) -> None:
    check_beside_good(load, "agents/a.md", agent("a", key), f"agents/a.md:4: {says}")


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("agents/a.md", b"---\nname: a\ndescription: caf\xe9\n---\nx", ":3: it is not UTF-8"),
        ("agents/a.md", "You help.", ":1: it has no front matter"),
        ("tools/b.py", "import nothing_like_it", ":1: it does not load"),
        (".env", "what", ":1: expected KEY=VALUE"),
    ],
)
def test_a_bad_file_hides_no_other(load: Load, file: str, content: str | bytes, says: str) -> None:
    check_beside_good(load, file, content, f"{file}{says}")


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("mcp.json", "{", ":1: it is no JSON"),
        ("mcp.json", b"\xff", ":1: it is not UTF-8"),
        ("mcp.json", "[]", ":1: expected"),
        ("retinue.toml", "a = ", ":1: it is no TOML"),
        ("retinue.toml", b"\n\xff", ":2: it is not UTF-8"),
    ],
)
def test_a_bad_file_of_settings_hides_no_agent(load: Load, file: str, content: str | bytes, says: str) -> None:
    check_beside_good(load, file, content, f"{file}{says}")


def test_two_agents_of_one_name_are_both_refused_and_both_files_named(load: Load) -> None:
    project = load({"agents/a.md": agent("same"), "agents/b.md": agent("same"), "agents/c.md": agent("other")})
    assert said(project) == ["agents/b.md:2: name: agents/a.md has an agent same too"]
    assert project.agents.names() == ("other",)
    with pytest.raises(
        BadTarget, match=r"agents/b\.md:2: name: agents/a\.md has an agent same too\. `retinue agents check`"
    ):
        project.agents.agent("same")


def test_an_agent_may_name_one_that_has_mistakes_so_that_they_are_said_once(load: Load) -> None:
    project = load({"agents/a.md": agent("a", "agents: [b]"), "agents/b.md": agent("b", "steps: x")})
    assert [problem.partition(":")[0] for problem in said(project)] == ["agents/b.md"]
    assert project.agents.names() == ("a",)


def test_an_unknown_agent_is_answered_with_the_nearest(load: Load) -> None:
    project = load({"agents/guide.md": agent("guide")})
    with pytest.raises(UnknownTarget, match=r"agent:giude: no such agent\. Did you mean guide\?"):
        project.agents.agent("giude")
    with pytest.raises(UnknownTarget):
        project.agents.code("giude")


def test_secrets_of_servers_stay_references_and_are_listed(load: Load) -> None:
    far = {
        "url": "https://${env:HOST}/mcp",
        "headers": {"Authorization": "Bearer ${env:FAR}", "X-Api-Key": "written-out"},
    }
    own = "mcp_servers: {own: {url: 'https://o', headers: {X-Token: '${secret:OWN}', X-Team: '${env:NOBODY}'}}}"
    files = {"mcp.json": json.dumps({"mcpServers": {"far": far}}), "agents/a.md": agent("a", own)}
    project = load(files, HOST="far.example", FAR="far-secret", OWN="own-secret")
    assert project.mcp_servers["far"].url == "https://far.example/mcp"
    assert project.mcp_servers["far"].headers["Authorization"] == "Bearer ${secret:FAR}"
    assert project.settings.secrets == {
        "FAR": "far-secret",
        "OWN": "own-secret",
        "mcpServers.far.headers.X-Api-Key": "written-out",
    }
    assert said(project) == [
        "warning mcp.json:1: mcpServers.far.headers.X-Api-Key: a secret is written out: "
        "write ${secret:NAME}, and set NAME in .env",
        "warning agents/a.md:4: mcp_servers.own.headers.X-Team: NOBODY is not set",
    ]
    definition = project.agents.agent("a")
    assert "own-secret" not in str(definition.to_json())
    assert project.agents.servers(definition)[0].headers == {"X-Token": "${secret:OWN}", "X-Team": "${env:NOBODY}"}


def test_a_tool_can_be_named_by_its_python_path(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    project = load({"agents/a.md": agent("a", "tools: ['vault:look_up']"), "vault.py": TOOLS})
    assert said(project) == []
    definition, code = project.agents.agent("a"), project.agents.code("a")
    assert code.wanted(definition) == (code.tools["vault:look_up"],)
    assert code.digests == {"vault:look_up": "7"}


@pytest.mark.parametrize(
    ("names", "project"),
    [([], False), (["tools/a.py"], False), (["retinue.toml"], True), (["agents/a.md"], True), (["mcp.json"], True)],
)
def test_a_folder_that_only_has_tools_is_no_project(tmp_path: Path, names: list[str], project: bool) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert is_project(tmp_path) is project


def test_an_empty_folder_has_nothing_and_nothing_wrong(tmp_path: Path) -> None:
    project = read_project(tmp_path, variables={})
    assert (project.agents.names(), dict(project.tools), project.problems) == ((), {}, ())


def test_the_platform_of_an_installed_runner_is_known(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "far_runner-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-runner\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[retinue.runners]\nfar = far_runner:FarRunner\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert said(load({"agents/a.md": agent("a", "platform: far")})) == []
