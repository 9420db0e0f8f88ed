"""Constrained decoding: what a small model may say at all, so that it calls tools and keeps to a schema.

The model is held to one JSON value: `{"answer": text}`, or `{"tool": name, "arguments": {…}}` for a tool that is
offered, or a value of the schema that is asked for. The library holds it by a grammar; where it cannot read one it
holds the model to nothing and does not say so. Hence schemas are reduced to what it knows, and the value is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import jsonschema_rs
import msgspec

from retinue.core.messages import AnyPart, Data, Text, ToolCall
from retinue.ports.models import ModelRequest, Piece, ToolSpec

Json = dict[str, object]

KNOWN = frozenset({"type", "enum", "const", "required", "pattern", "format", "minItems", "maxItems", "multipleOf"}) | {
    *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
}
"""What of a schema holds the model. The rest is checked by whoever asked: it only makes the schema narrower."""

FORMATS = frozenset({"date", "date-time", "time", "email", "uuid", "ipv4", "ipv6", "hostname", "uri"})
GUIDANCE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
_around = re.compile(r"\(\?[^:]|\\[1-9]|\\[bB]")
"""Looking around, and looking back: what an automaton cannot do."""

_answer = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_call = re.compile(r'\s*\{\s*"tool"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_characters = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})+'
)


class BadSchema(ValueError):
    """A schema that is none."""


def grammar(request: ModelRequest) -> str | None:
    """What holds the model to the request, or None where it may say what it likes. Raises `BadSchema`."""
    offered = offered_tools(request)
    if not offered and not request.output:
        return None
    definitions: Json = {}
    options: list[object] = []
    if request.output:
        definitions["answer"] = _held(request.output.schema, request.output.name, "#/$defs/answer")
        answer: object = {"$ref": "#/$defs/answer"}
        options.append(_object(answer=answer) if offered else answer)
    elif may_answer(request):
        options.append(_object(answer={"type": "string"}))
    for n, tool in enumerate(offered):
        definitions[f"tool{n}"] = _held(tool.schema, tool.name, f"#/$defs/tool{n}")
        options.append(_object(tool={"const": tool.name}, arguments={"$ref": f"#/$defs/tool{n}"}))
    schema = {"x-guidance": GUIDANCE, "anyOf": options, "$defs": definitions}
    return f"%llguidance {{}}\nstart: %json {json.dumps(schema)}"


def offered_tools(request: ModelRequest) -> Sequence[ToolSpec]:
    """The tools that may be called: none, all, or the one that was chosen."""
    choice = request.settings.tool_choice
    chosen = [tool for tool in request.tools if tool.name == choice]
    return () if choice == "none" else chosen or request.tools


def may_answer(request: ModelRequest) -> bool:
    """Whether it may do without a call."""
    return request.settings.tool_choice in (None, "auto", "none")


def _object(**properties: object) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _held(schema: Mapping[str, object], name: str, here: str) -> object:
    """The schema as a definition of a larger one, which is `here`."""
    try:
        jsonschema_rs.meta.validate(dict(schema))
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise BadSchema(f"the schema of {name} is none: {str(error).partition(chr(10))[0]}") from None
    return _reduced(schema, schema, here)


def _reduced(schema: object, root: Mapping[str, object], here: str) -> object:
    """Only what is known; references lead to where the schema now is; objects have no properties but their own."""
    if not isinstance(schema, Mapping):
        return schema
    kept: Json = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            if value.startswith("#") and _leads_somewhere(value, root):
                kept[key] = here + value[1:]
        elif key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            kept[key] = {name: _reduced(each, root, here) for name, each in value.items()}
        elif key in ("items", "additionalProperties"):
            kept[key] = _reduced(value, root, here)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list | tuple):
            kept["anyOf" if key == "oneOf" else key] = [_reduced(each, root, here) for each in value]
        elif key in KNOWN and not _beyond(key, value):
            kept[key] = value
    if "properties" in kept or (schema is root and kept.get("type") == "object"):
        kept.setdefault("additionalProperties", False)
    return kept


def _leads_somewhere(reference: str, root: object) -> bool:
    for step in reference.removeprefix("#").split("/")[1:]:
        if not isinstance(root, Mapping):
            return False
        root = root.get(step.replace("~1", "/").replace("~0", "~"))
    return root is not None


def _beyond(key: str, value: object) -> bool:
    """What the library knows by name and not in this way."""
    if key == "pattern":
        return not isinstance(value, str) or bool(_around.search(value))
    return key == "format" and value not in FORMATS


@dataclass(slots=True)
class Held:
    """What a model that is held has said so far: JSON, out of which pieces and parts are made.

    Text of an answer comes piece by piece; arguments when they are complete.
    """

    request: ModelRequest
    _said: str = ""
    _text: list[str] = field(default_factory=list)
    _place: int | None = None

    def add(self, text: str) -> Iterator[Piece]:
        self._said += text
        if self.request.output:
            if not offered_tools(self.request):
                yield Piece(text)
            return
        if self._place is None:
            if not (begun := _answer.match(self._said)):
                return
            self._place = begun.end()
        if more := _characters.match(self._said, self._place):
            self._place = more.end()
            self._text.append(json.loads(f'"{more[0]}"', strict=False))
            yield Piece(self._text[-1])

    def rest(self) -> Iterator[Piece]:
        """What could not be said before all was there."""
        if called := _call.match(self._said):
            yield Piece(self._arguments(called), "tool_args")
        elif self.request.output and offered_tools(self.request):
            yield Piece(self._said)

    def parts(self) -> tuple[AnyPart, ...] | None:
        """What it all was; None if it is not what it had to be. What was cut off is there as far as it goes."""
        if called := _call.match(self._said):
            tool, arguments = str(msgspec.json.decode(called[1])), self._arguments(called)
            return (ToolCall(call_id="", tool=tool, arguments=_decoded(arguments, otherwise=arguments)),)
        if self._place is not None:
            return (Text(text="".join(self._text)),)
        value = _decoded(self._said, otherwise=None) if self.request.output else None
        if offered_tools(self.request) and isinstance(value, dict):
            value = value.get("answer")
        return None if value is None else (Data(data=value),)

    def _arguments(self, called: re.Match[str]) -> str:
        """What stands between the name and the last bracket, which closes the call; or as much of it as there is."""
        rest = self._said[called.end() :].rstrip()
        whole = rest.removesuffix("}")
        return rest if _decoded(whole, otherwise=None) is None else whole

    @property
    def begins_well(self) -> bool:
        """Whether it may still become what it has to be."""
        begin = self._said.lstrip()[:1]
        return not begin or begin in ("{" if offered_tools(self.request) else '{["-0123456789tfn')


def _decoded(text: str, *, otherwise: object) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return otherwise
