"""A value that a JSON schema allows: the smallest that is easy to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping

DEEPEST = 20
"""A schema that requires itself has no finite example; deeper than this nobody looks."""

FORMATS = {
    "date": "2030-01-01",
    "date-time": "2030-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "somebody@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "hostname": "example.com",
}


def example_of(schema: object) -> object:
    """A value for a schema. What only a search could meet (a `pattern`, a `not`) it does not look at."""
    return _example(schema, schema, 0)


def _example(schema: object, root: object, depth: int) -> object:
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return None
    if isinstance(reference := schema.get("$ref"), str):
        return _example(_follow(reference, root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if isinstance(given := schema.get(key), list) and given:
            return given[0]
    for key in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(key), list) and options:
            return _example({**_without(schema, key), **_mapping(options[0])}, root, depth + 1)
    if isinstance(every := schema.get("allOf"), list):
        return _example(_merged([_without(schema, "allOf"), *every], root), root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: Mapping[str, object], root: object, depth: int) -> object:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind is None:
        kind = next((kind for key, kind in TELLING.items() if key in schema), "string")
    make = MAKERS.get(str(kind))
    return make(schema, root, depth) if make else None


def _object(schema: Mapping[str, object], root: object, depth: int) -> object:
    properties, required = _mapping(schema.get("properties")), schema.get("required")
    names = required if isinstance(required, list) else []
    return {name: _example(properties.get(name, {}), root, depth + 1) for name in names}


def _array(schema: Mapping[str, object], root: object, depth: int) -> object:
    first = schema.get("prefixItems")
    items = [_example(item, root, depth + 1) for item in first] if isinstance(first, list) else []
    missing = _whole(schema.get("minItems")) - len(items)
    return items + [_example(schema.get("items", {}), root, depth + 1) for _ in range(missing)]


def _string(schema: Mapping[str, object], root: object, depth: int) -> object:
    text = FORMATS.get(str(schema.get("format")), "example")
    longest = schema.get("maxLength")
    return text.ljust(_whole(schema.get("minLength")), ".")[: longest if isinstance(longest, int) else None]


def _integer(schema: Mapping[str, object], root: object, depth: int) -> object:
    return round(_least(schema, 1.0))


def _number(schema: Mapping[str, object], root: object, depth: int) -> object:
    return _least(schema, 0.5)


def _least(schema: Mapping[str, object], more: float) -> float:
    """The smallest number that is allowed, or 0; `more` is a step that an exclusive bound is away."""
    step = schema.get("multipleOf")
    if isinstance(step, int | float):
        more = step
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    if isinstance(low, int | float):
        return -(-low // step) * step if isinstance(step, int | float) else low
    if isinstance(above, int | float):
        return (above // more + 1) * more if isinstance(step, int | float) else above + more
    if isinstance(high, int | float) and high < 0:
        return high // step * step if isinstance(step, int | float) else high
    if isinstance(below, int | float) and below <= 0:
        return below - more
    return 0


TELLING = {"properties": "object", "required": "object", "items": "array", "minimum": "number", "maximum": "number"}
"""What a schema without a type speaks of."""

MAKERS: Mapping[str, Callable[[Mapping[str, object], object, int], object]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": lambda schema, root, depth: True,
    "null": lambda schema, root, depth: None,
}


def _follow(reference: str, root: object) -> object:
    """What a reference inside the schema points to."""
    found = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if step:
            found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _merged(schemas: list[object], root: object) -> dict[str, object]:
    """All of them at once, as far as that is a matter of putting their keys together."""
    merged: dict[str, object] = {}
    for schema in schemas:
        each = _mapping(schema)
        if isinstance(reference := each.get("$ref"), str):
            each = {**_without(each, "$ref"), **_mapping(_follow(reference, root))}
        properties = {**_mapping(merged.get("properties")), **_mapping(each.get("properties"))}
        required = [*_list(merged.get("required")), *_list(each.get("required"))]
        merged |= each
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = list(dict.fromkeys(required))
    return merged


def _without(schema: Mapping[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in schema.items() if name != key}


def _mapping(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
