"""A table of keys made into an agent, from a file, from Python or from a program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from retinue.core.agent import AgentDefinition, check_agent
from retinue.core.declared import Key, Problem, fields_of, has_errors, read
from retinue.core.references import literal_secrets
from retinue.core.schema import says_nothing, wrong_schema
from retinue.core.spelling import did_you_mean
from retinue.core.template import GIVEN, WHOLE_INPUT, known_names, template
from retinue.errors import BadTemplate
from retinue.ports.models import ModelSettings
from retinue.project.servers import read_servers

BY_ITSELF = ("input_type", "output_type")
"""Keys of a definition that nobody declares: they follow from a type in Python."""


def declare(
    declared: Mapping[str, object], *, platforms: Collection[str] | None = None, strict: bool = False
) -> tuple[AgentDefinition | None, list[Problem]]:
    """The agent, or nothing when a key is wrong; and everything that is odd.

    When `strict`, unknown keys are wrong too. A problem of the instructions has the line within them.
    """
    agent, problems = read(AgentDefinition, declared, skip=BY_ITSELF, strict=strict)
    if agent is None:
        return None, problems
    agent, more = _with_known_settings(agent, strict)
    problems += more
    wrong = {problem.key[:1] for problem in problems if not problem.warning}
    for check in (_check_platform(agent, platforms), check_agent(agent), _check(agent)):
        problems += (problem for problem in check if problem.key[:1] not in wrong)
    return (None if has_errors(problems) else agent), problems


def _with_known_settings(agent: AgentDefinition, strict: bool) -> tuple[AgentDefinition, list[Problem]]:
    """Those that models know. They stay as they were said: what was left out is not part of the definition."""
    _, problems = read(ModelSettings, agent.settings, key=("settings",), strict=strict)
    known = {field.name for field in fields_of(ModelSettings)}
    kept = {name: value for name, value in agent.settings.items() if name in known}
    return msgspec.structs.replace(agent, settings=kept), problems


def _check_platform(agent: AgentDefinition, platforms: Collection[str] | None) -> Iterator[Problem]:
    if platforms is not None and agent.platform not in platforms:
        text = f"there is no platform {agent.platform}. {did_you_mean(agent.platform, platforms)}"
        yield Problem(key=("platform",), text=text)


def _check(agent: AgentDefinition) -> Iterator[Problem]:
    yield from _check_schema(("input",), agent.input)
    yield from _check_schema(("output", "schema"), agent.output.schema if agent.output else None)
    for key, text in agent.templates():
        yield from _check_template(key, text, agent.input)
    yield from read_servers(agent.mcp_servers, ("mcp_servers",))[1]
    for key, _ in literal_secrets(agent.mcp_servers).items():
        text = "a secret does not belong in a definition: write ${secret:NAME}, and set NAME in .env"
        yield Problem(key=("mcp_servers", *key), text=text)


def _check_schema(key: Key, schema: Mapping[str, object] | None) -> Iterator[Problem]:
    if schema is None:
        return
    if wrong := wrong_schema(schema):
        yield Problem(key=key, text=f"it is no JSON schema: {wrong}")
    elif says_nothing(schema):
        text = "no key of it is one of JSON Schema, so it asks for nothing. Do they belong under `properties`?"
        yield Problem(key=key, text=text, warning=True)


def _check_template(key: Key, text: str, input_schema: Mapping[str, object] | None) -> Iterator[Problem]:
    try:
        mentions = template(text).mentions
    except BadTemplate as error:
        yield Problem(key=key, line=error.line, text=f"a bad template: {error.problem}")
        return
    known = known_names(input_schema)
    if known is None:
        return
    for name, line in mentions.items():
        if name not in known:
            keys = ", ".join(sorted(known - {*GIVEN, WHOLE_INPUT})) or "no keys"
            text = f"nothing gives the template {name}. {did_you_mean(name, known)} (The input has: {keys}.)"
            yield Problem(key=key, line=line, text=text)
