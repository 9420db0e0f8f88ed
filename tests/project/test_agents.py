"""One agent file, alone."""

from __future__ import annotations

import pytest

from retinue.project.agents import AgentFile, read_agent

KEYS = """\
---
name: guide
description: Knows cities.
"""
GUIDE = f"""{KEYS}model: test
tools: [lookup]
---

You know cities.
Say {{{{ today }}}}.
"""


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read(text).problems]


def read(text: str) -> AgentFile:
    return read_agent("agents/guide.md", text, ["local", "a2a"])


def test_a_file_is_an_agent() -> None:
    file = read(GUIDE)
    assert file.problems == ()
    assert file.definition
    assert (file.name, file.definition.name, file.definition.tools) == ("guide", "guide", ("lookup",))
    assert file.definition.instructions == "You know cities.\nSay {{ today }}."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: it has no front matter"),
        ("You know cities.", ":1: it has no front matter"),
        ("\n---\nname: guide\n---\nx", ":1: it has no front matter"),
        ("---\nname: guide\nx", ":1: its front matter has no end"),
        ("---\nname: [guide\n---\nx", ":3: it is no YAML"),
        ("---\n- name\n---\nx", ":2: expected keys between"),
        ("---\njust words\n---\nx", ":2: expected keys between"),
        ("---\n---\nx", ":2: name: it is missing"),
        ("---\nname: guide\n---\nx", ":2: description: it is missing"),
        ("---\nname: guide\ndescription: ' '\n---\nx", ":3: description: it is missing"),
        ("---\nname: a guide\ndescription: d\n---\nx", ":2: name: a name has letters"),
        (f"{KEYS}---\n \n", ":2: messages: there are neither instructions"),
        (f"{KEYS}instructions: x\n---\nx", ":4: instructions: instructions stand below the keys"),
        (f"{KEYS}model: 3\n---\nx", ":4: model: expected text"),
        (f"{KEYS}platform: locale\n---\nx", ":4: platform: there is no platform locale. Did you mean local?"),
        (f"{KEYS}platform: a2a\n---\n", ":4: platform: an agent on a2a needs the key card"),
        (f"{KEYS}limits:\n  max_turns: many\n---\nx", ":5: limits.max_turns: expected a whole number"),
        (f"{KEYS}settings:\n  temperature: hot\n---\nx", ":5: settings.temperature: expected a number"),
        (f"{KEYS}agents: [guide]\n---\nx", ":4: agents: guide names itself"),
        (f"{KEYS}name: again\n---\nx", ":4: name: it stands here twice, first in line 2"),
        (f"{KEYS}input: {{type: strin}}\n---\nx", ":4: input: it is no JSON schema: type"),
        (f"{KEYS}output: {{type: object}}\n---\nx", ":4: output.schema: it is missing"),
        (f"{KEYS}output:\n  schema: {{pattern: (}}\n---\nx", ":5: output.schema: it is no JSON schema"),
        (f"{KEYS}query: '{{{{ a. }}}}'\n---\nx", ":4: query: a bad template: expected name"),
        (f"{KEYS}---\n\nFine.\nNot {{{{ fine }}.\n", ":7: a bad template: "),
        (f"{KEYS}messages:\n- role: user\n  text: '{{{{'\n---\nx", ":5: messages[0].parts[0].text: a bad template: "),
        (f"{KEYS}mcp_servers: {{a: {{command: x, url: y}}}}\n---\nx", ":4: mcp_servers.a: it needs either"),
        (f"{KEYS}policy:\n- tool: x\n  action: alow\n---\nx", ":6: policy[0].action: expected one of allow, ask, deny"),
        (f"{KEYS}cache: soon\n---\nx", ":4: cache: expected seconds"),
        (f"{KEYS}input_type: os:path\n---\nx", ":4: input_type: nobody knows this key"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(text: str, says: str) -> None:
    said = problems(text)
    assert [problem for problem in said if problem.startswith(f"agents/guide.md{says}")], said
    assert read(text).definition is None or "nobody knows" in says


def test_every_problem_of_a_file_is_said_in_the_order_of_its_lines() -> None:
    said = problems(f"{KEYS}colour: red\nlimits: {{max_turns: x, max_minuets: 3}}\ntools: 3\n---\n{{{{ a. }}}}")
    assert [problem.removeprefix("agents/guide.md:")[:20] for problem in said] == [
        "4: colour: nobody kn",
        "5: limits.max_minuet",
        "5: limits.max_turns:",
        "6: tools: expected a",
        "8: a bad template: e",
    ]


def test_an_unknown_key_is_a_warning_with_the_nearest() -> None:
    file = read(f"{KEYS}modle: test\ncolour: red\n---\nx")
    assert file.definition
    assert [(problem.warning, str(problem)) for problem in file.problems] == [
        (True, "agents/guide.md:4: modle: nobody knows this key. Did you mean model?"),
        (True, "agents/guide.md:5: colour: nobody knows this key"),
    ]


def test_a_name_that_the_input_cannot_bring_is_an_error_with_its_line() -> None:
    text = f"""{KEYS}input: {{type: object, properties: {{city: {{type: string}}}}}}
query: "{{{{ cty }}}}"
---
{{{{ city }}}} on {{{{ today }}}}
{{{{ input }}}} {{{{ country }}}}
{{{{ other | default('') }}}}
"""
    assert problems(text) == [
        "agents/guide.md:5: query: nothing gives the template cty. Did you mean city? (The input has: city.)",
        "agents/guide.md:8: nothing gives the template country. "
        "There is: agent, city, input, model, now, run_id, today. (The input has: city.)",
    ]


def test_where_the_input_is_not_declared_any_name_may_come() -> None:
    assert problems(f"{KEYS}---\n{{{{ anything }}}}") == []


def test_a_schema_that_asks_for_nothing_is_a_warning() -> None:
    assert problems(f"{KEYS}input: {{city: {{type: string}}}}\n---\nx")[0].startswith(
        "agents/guide.md:4: input: no key of it is one of JSON Schema"
    )


def test_a_secret_that_is_written_out_is_an_error() -> None:
    server = "mcp_servers: {a: {url: 'https://x', headers: {Authorization: 'Bearer abcdefgh'}}}"
    assert problems(f"{KEYS}{server}\n---\nx")[0].startswith(
        "agents/guide.md:4: mcp_servers.a.headers.Authorization: a secret does not belong in a definition"
    )
    assert not any("abcdefgh" in problem for problem in problems(f"{KEYS}{server}\n---\nx"))


@pytest.mark.parametrize(
    "text", [GUIDE.replace("\n", " \n").replace("guide \n", "guide\n"), GUIDE.replace("---\n\n", "---\n")]
)
def test_blanks_do_not_matter(text: str) -> None:
    assert read(text).definition is not None


def test_files_of_other_programs_are_taken() -> None:
    text = "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Grep\nmodel: inherit\ncolor: blue\n---\nReview."
    file = read(text)
    assert file.definition
    assert (file.definition.tools, len(file.problems)) == (("Grep", "Read"), 1)
