"""A function's parameters, as the JSON schema that a model is shown and as the rule by which its arguments are read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, get_args, get_type_hints

import msgspec

from retinue.errors import BadDefinition, ToolFailed
from retinue.ports.tools import ToolContext
from retinue.tools.types import OfPydantic, Plain, reader_of

LONGEST_PROBLEM = 1_000
_ABSENT = object()
_STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A parameter that a model gives."""

    name: str
    reader: Plain | OfPydantic
    description: str
    required: bool
    default: object = _ABSENT
    """As JSON; absent where only Python has it."""

    @property
    def field(self) -> str:
        return f"of_{self.name}"  # a name like `__x` would be taken for something else

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        schema = self.reader.schema(definitions)
        if self.description:
            schema = {"description": self.description, **schema}
        return schema if self.default is _ABSENT else {**schema, "default": self.default}


class Signature:
    """What a function takes. `context` is the name of the parameter that gets the context."""

    def __init__(self, what: str, function: Callable[..., object], said: Mapping[str, str]) -> None:
        pairs = list(_typed_parameters(what, function))
        contexts = [parameter.name for parameter, hint in pairs if _is_context(hint)]
        if len(contexts) > 1:
            raise BadDefinition(what=what, problem=f"{' and '.join(contexts)} are both the context; there is one.")
        self.context = contexts[0] if contexts else None
        self._taken = [_taken(what, *pair, said) for pair in pairs if pair[0].name not in contexts]
        self.schema = self._schema()
        self._strict, self._lax = self._decoders()

    def read(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Values of the declared types. What the function has defaults for may be missing. Raises `ToolFailed`."""
        try:
            read = self._decoded(msgspec.json.encode(arguments))
            given = ((one, getattr(read, one.field)) for one in self._taken)
            return {one.name: one.reader.read(value) for one, value in given if value is not _ABSENT}
        except (ValueError, TypeError, RecursionError) as error:
            raise ToolFailed(f"the arguments do not fit: {str(error)[:LONGEST_PROBLEM]}") from None

    def _decoded(self, encoded: bytes) -> object:
        try:
            return self._strict.decode(encoded)
        except msgspec.ValidationError as error:
            try:  # 3.0 is a whole number in JSON
                return self._lax.decode(encoded)
            except msgspec.ValidationError:
                raise error from None

    def _schema(self) -> dict[str, Any]:
        definitions: dict[str, Any] = {}
        properties = {one.name: one.schema(definitions) for one in self._taken}
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required := [one.name for one in self._taken if one.required]:
            schema["required"] = required
        return {**schema, "$defs": definitions} if definitions else schema

    def _decoders(self) -> tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
        fields = [
            (one.field, one.reader.read_as) if one.required else (one.field, one.reader.read_as, _ABSENT)
            for one in self._taken
        ]
        struct = msgspec.defstruct(
            "Arguments",
            fields,
            rename={one.field: one.name for one in self._taken},
            kw_only=True,
            forbid_unknown_fields=True,
        )
        return msgspec.json.Decoder(struct), msgspec.json.Decoder(struct, strict=False)


def _typed_parameters(what: str, function: Callable[..., object]) -> Iterator[tuple[Parameter, Any]]:
    parameters = list(inspect.signature(function).parameters.values())
    for one in parameters:
        if stars := _STARS.get(one.kind):
            raise BadDefinition(what=what, problem=f"{stars}{one.name} could be anything: name each parameter.")
        if one.kind is Parameter.POSITIONAL_ONLY:
            raise BadDefinition(what=what, problem=f"{one.name} is given by place only, and a model gives by name.")
        if one.annotation is Parameter.empty:
            raise BadDefinition(what=what, problem=f"parameter {one.name} has no type: write `{one.name}: str`.")
    hints = _resolved(what, function, {one.name: one.annotation for one in parameters})
    for one in parameters:
        yield one, hints[one.name]


def _resolved(what: str, function: Callable[..., object], annotations: dict[str, Any]) -> dict[str, Any]:
    home = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(_Annotations(annotations), globalns=home, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        problem = f"its types cannot be resolved: {error}. Import them outside of TYPE_CHECKING, at the module's level."
        raise BadDefinition(what=what, problem=problem) from None


class _Annotations:
    """What `get_type_hints` looks at, without the result's type: that may be there for type checkers only."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def _is_context(hint: Any) -> bool:
    return hint is ToolContext or ToolContext in get_args(hint)


def _taken(what: str, parameter: Parameter, hint: Any, said: Mapping[str, str]) -> Taken:
    name = parameter.name
    try:
        reader = reader_of(hint, name)
    except TypeError as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise BadDefinition(
            what=what, problem=f"parameter {name} has a type without a form in JSON: {reason}"
        ) from None
    required = parameter.default is Parameter.empty
    return Taken(
        name=name,
        reader=reader,
        description=_described(hint) or said.get(name, ""),
        required=required,
        default=_ABSENT if required else _default(what, parameter, reader),
    )


def _default(what: str, parameter: Parameter, reader: Plain | OfPydantic) -> object:
    try:
        return reader.default(parameter.default)
    except ValueError as error:
        hint = ": write `… | None`" if parameter.default is None else f": {error}"
        problem = f"the default {parameter.default!r} of parameter {parameter.name} is not of its type{hint}"
        raise BadDefinition(what=what, problem=problem) from None
    except TypeError:
        return _ABSENT


def _described(hint: Any) -> str:
    """`Annotated[str, "what it is"]`."""
    return next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, str)), "")
