"""A server's resources: one tool that lists them, and one that reads one."""

from __future__ import annotations

from collections.abc import Mapping

from mcp import Client
from mcp.types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from retinue.core.outcome import Effect
from retinue.errors import ToolFailed
from retinue.ports.models import ToolSpec
from retinue.ports.tools import ToolContext
from retinue.tools.mcp.content import Part, given, resource_part
from retinue.tools.mcp.pages import listed
from retinue.tools.mcp.tool import Server, ServerTool, name_of

LIST, READ = "resources:list", "resources:read"
MOST_SHOWN = 200
TEXT: dict[str, object] = {"type": "string"}


def resource_tools(server: Server) -> list[ServerTool]:
    return [_list(server), _read(server)]


def _list(server: Server) -> ServerTool:
    spec = ToolSpec(
        name=name_of(server.declared, LIST),
        description=f"List what can be read from {server.declared.name}, with URIs, and templates of more URIs.",
        schema=_schema({"containing": {**TEXT, "description": "Only those with this text in name, URI or words."}}),
    )

    async def run(arguments: Mapping[str, object], context: ToolContext) -> object:
        wanted = str(arguments.get("containing", "")).casefold()
        resources, templates = await server.ask(_listed)
        found = [one for one in map(_shown, resources) if _contains(one, wanted)]
        more = [one for one in map(_template, templates) if _contains(one, wanted)]
        left = len(found) - MOST_SHOWN
        note = {"note": f"{left:,} more are not shown: say `containing`"} if left > 0 else {}
        return {"resources": found[:MOST_SHOWN], "templates": more[:MOST_SHOWN], **note}

    return ServerTool(spec=spec, server=server.declared, effect=Effect.READ, run=run)


def _read(server: Server) -> ServerTool:
    spec = ToolSpec(
        name=name_of(server.declared, READ),
        description=f"Read one resource of {server.declared.name} by its URI.",
        schema=_schema({"uri": {**TEXT, "description": "As it is listed, or made from a template."}}, "uri"),
    )

    async def run(arguments: Mapping[str, object], context: ToolContext) -> object:
        uri = str(arguments.get("uri", ""))
        read = await server.ask(lambda client: client.read_resource(uri))
        if not read.contents:
            raise ToolFailed(f"There is nothing at {uri}")
        return await given(_parts(read), spec.name, context)

    return ServerTool(spec=spec, server=server.declared, effect=Effect.READ, run=run)


def _parts(read: ReadResourceResult) -> list[Part]:
    """A single text is given as it is; of several each says which it is."""
    match read.contents:
        case [TextResourceContents() as only]:
            return [only.text]
        case several:
            return [resource_part(one) for one in several]


async def _listed(client: Client) -> tuple[list[Resource], list[ResourceTemplate]]:
    resources, _ = await listed(lambda at: client.list_resources(cursor=at), lambda page: page.resources)
    templates, _ = await listed(
        lambda at: client.list_resource_templates(cursor=at), lambda page: page.resource_templates
    )
    return resources, templates


def _shown(resource: Resource) -> dict[str, object]:
    said = {
        "uri": resource.uri,
        "name": resource.title or resource.name,
        "type": resource.mime_type,
        "bytes": resource.size,
        "description": resource.description,
    }
    return {key: value for key, value in said.items() if value not in (None, "")}


def _template(template: ResourceTemplate) -> dict[str, object]:
    said = {
        "uri": template.uri_template,
        "name": template.title or template.name,
        "type": template.mime_type,
        "description": template.description,
    }
    return {key: value for key, value in said.items() if value not in (None, "")}


def _contains(shown: Mapping[str, object], wanted: str) -> bool:
    return not wanted or any(wanted in str(value).casefold() for value in shown.values())


def _schema(properties: dict[str, object], *required: str) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
