"""What templates may do: read the data that they are given, and little more.

Imported when the first real template is met, because Jinja is slow to load. Templates see JSON, so a name after a dot
is a key first; of the methods of Python's values only those listed here exist. What could take long or grow large
(loops, repetition, joining) is counted, so that a template that somebody sent can not stop a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import TracebackType
from typing import Any

import msgspec
from jinja2 import StrictUndefined, nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.filters import FILTERS
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer

from retinue.core.spelling import did_you_mean
from retinue.errors import BadTemplate, NamesMissing

LONGEST = 10_000_000
MOST_STEPS = 1_000_000
METER, COUNTED, CONCAT = "%meter", "%counted", "%concat"  # no template can say these names

OF_TEXT = "upper lower title capitalize strip lstrip rstrip startswith endswith split splitlines"
OF_TABLES = "items keys values get"
METHODS: dict[type, frozenset[str]] = {str: frozenset(OF_TEXT.split()), dict: frozenset(OF_TABLES.split())}
FILTERS_TAKEN = """
abs capitalize count d default dictsort first float groupby int items last length list lower map max min reject
rejectattr reverse select selectattr sort sum title trim truncate unique upper wordcount"""
TESTS_TAKEN = """
== != > >= < <= boolean defined divisibleby eq equalto even false float ge greaterthan gt in integer iterable le
lessthan lower lt mapping ne none number odd sequence string true undefined upper"""
REFUSED: dict[type[nodes.Node], str] = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from",
    nodes.Extends: "extends",
    nodes.Block: "block",
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter",
}
# What a template's own mistakes, and data that is not as it expected, can raise.
MISTAKES = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
Chain = tuple[str | int, ...]


class Meter:
    """Counts what a template does, and stops it."""

    def __init__(self) -> None:
        self.steps = 0

    def count(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise SecurityError(f"its loops take more than {MOST_STEPS:,} steps")
            yield item


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja, as far as templates get it."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, finalize=said, keep_trailing_newline=True, cache_size=0)
        self.globals = {"range": self.globals["range"]}
        ours = {"join": _join, "replace": _replace, "round": _round, "string": said, "tojson": _tojson}
        self.filters = (
            {name: FILTERS[name] for name in FILTERS_TAKEN.split()} | ours | {COUNTED: _counted, CONCAT: _concat}
        )
        self.tests = {name: TESTS[name] for name in TESTS_TAKEN.split()}

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        for kind, methods in METHODS.items():
            if isinstance(obj, kind):
                return attr in methods
        return isinstance(obj, LoopContext | tuple) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Text has no `format` here: a width in it is a way to make a lot of little."""

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator:
            case "**":
                raise SecurityError("there is no ** in templates")
            case "%" if isinstance(left, str):
                raise SecurityError("% puts no values into text here: write {{ value }}")
            case "*" if not (_is_number(left) and _is_number(right)):
                sequence, times = (right, left) if _is_number(left) else (left, right)
                _fits(_length(sequence) * times if _is_number(times) else 0)
            case "+":
                _fits(_length(left) + _length(right))
            case _:
                pass
        return super().call_binop(context, operator, left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def _fits(length: float) -> None:
    if length > LONGEST:
        raise SecurityError(f"it makes something longer than {LONGEST:,}")


def said(value: Any) -> Any:
    """A value as it stands in text. What is not text is JSON."""
    if isinstance(value, str | Undefined):
        return value
    return msgspec.json.encode(value, enc_hook=_listed).decode()


# Filters of our own, where Jinja's could make too much of too little, or are made for HTML


def _join(value: Iterable[Any], between: str = "") -> str:
    pieces = [str(said(item)) for item in value]
    _fits(sum(map(len, pieces)) + len(between) * len(pieces))
    return between.join(pieces)


def _concat(pieces: list[Any]) -> str:
    return _join(pieces)


def _replace(value: Any, old: str, new: str) -> str:
    text = str(said(value))
    _fits(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _round(value: float, precision: int = 0) -> float:
    return round(value, precision) if precision else round(value)


def _tojson(value: Any, indent: int = 0) -> str:
    """JSON for a model to read: nothing is escaped for HTML."""
    encoded = msgspec.json.encode(value, enc_hook=_listed)
    return (msgspec.json.format(encoded, indent=min(indent, 8)) if indent > 0 else encoded).decode()


@pass_context
def _counted(context: Context, items: Any) -> Iterable[Any]:
    meter: Meter = context.parent[METER]
    return items if isinstance(items, Undefined) else meter.count(items)


def _listed(value: Any) -> Any:
    """What JSON has no name for: anything that can be gone through is a list."""
    if isinstance(value, Iterable) and not isinstance(value, Undefined):
        return list(value)
    raise TypeError("it gives nothing that JSON can hold")


# Templates as trees


class Metered(NodeTransformer):
    """A tree whose loops and joined texts are counted."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, COUNTED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), CONCAT)


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _chain(node: nodes.Node) -> Chain:
    """The names in `a.b['c'][0]`; nothing when it is anything else."""
    match node:
        case nodes.Name(name=name, ctx="load"):
            return (name,)
        case nodes.Getattr(node=inner, attr=attr):
            return (*above, attr) if (above := _chain(inner)) else ()
        case nodes.Getitem(node=inner, arg=nodes.Const(value=str() | int() as key)):
            return (*above, key) if (above := _chain(inner)) else ()
        case _:
            return ()


def _needs(node: nodes.Node) -> Iterator[tuple[Chain, int]]:
    """The chains in a tree that must be there, each as long as it is written."""
    match node:
        case nodes.Filter(node=nodes.Node() as inner, name="default" | "d") if _chain(inner):
            children: Iterable[nodes.Node] = [*node.args, *(one.value for one in node.kwargs)]
        case nodes.Test(name="defined" | "undefined"):
            return
        case nodes.Call(node=nodes.Getattr(node=inner)):
            children = [inner, *node.args, *(one.value for one in node.kwargs)]  # what is called is a method, not a key
        case _ if chain := _chain(node):
            yield chain, node.lineno
            return
        case _:
            children = node.iter_child_nodes()
    for child in children:
        yield from _needs(child)


@cache
def _environment() -> Sandbox:
    return Sandbox()


class Compiled:
    """A template with something to put in."""

    def __init__(self, text: str) -> None:
        try:
            tree = _environment().parse(text)
            _refuse(tree)
            self._needs = tuple(_free(tree))
            self.names = frozenset(find_undeclared_variables(tree)) - {"range"}
            lone = _lone(tree)
            self._is_expression = lone is not None
            self._template = _compile(_assigning(lone) if lone else tree)
        except TemplateSyntaxError as error:
            raise BadTemplate(problem=_sentence(error), line=error.lineno) from None
        except (RecursionError, SyntaxError, MemoryError):  # Python's own limits on code that is made of the template
            raise BadTemplate(problem="it is nested too deeply", line=1) from None

    @property
    def mentions(self) -> Mapping[str, int]:
        lines: dict[str, int] = {}
        for chain, line in self._needs:
            lines.setdefault(str(chain[0]), line)
        return lines

    def missing(self, values: Mapping[str, object]) -> tuple[str, ...]:
        lacking = (_lacking(chain, values) for chain, _ in self._needs)
        return tuple(dict.fromkeys(".".join(map(str, chain)) for chain in lacking if chain))

    def render(self, values: Mapping[str, object]) -> str:
        context = self._template.new_context({**values, METER: Meter()})
        try:
            if self._is_expression:
                return str(said(self._result(context)))
            pieces: list[str] = []
            length = 0
            for piece in self._template.root_render_func(context):
                pieces.append(piece)
                length += len(piece)
                _fits(length)
            return "".join(pieces)
        except MISTAKES as error:
            raise self._mistake(error, values) from None

    def value(self, values: Mapping[str, object]) -> object:
        if not self._is_expression:
            return self.render(values)
        context = self._template.new_context({**values, METER: Meter()})
        try:
            return msgspec.json.decode(msgspec.json.encode(self._result(context), enc_hook=_listed))
        except MISTAKES as error:
            raise self._mistake(error, values) from None

    def _result(self, context: Context) -> Any:
        for _ in self._template.root_render_func(context):
            pass
        result = context.vars[RESULT]
        if isinstance(result, Undefined):
            str(result)  # raises what a use of it raises
        return result

    def _mistake(self, error: Exception, values: Mapping[str, object]) -> BadTemplate | NamesMissing:
        if isinstance(error, UndefinedError) and (missing := self.missing(values)):
            return NamesMissing(missing=", ".join(missing), available=", ".join(sorted(values)) or "nothing")
        return BadTemplate(problem=_sentence(error), line=self._line(error.__traceback__))

    def _line(self, traceback: TracebackType | None) -> int:
        line = 1
        while traceback:
            if traceback.tb_frame.f_code.co_filename == self._template.filename:
                line = self._template.get_corresponding_lineno(traceback.tb_lineno)
            traceback = traceback.tb_next
        return line


RESULT = "__result__"


def _compile(tree: nodes.Template) -> Any:
    metered: nodes.Template = Metered().visit(tree)
    metered.set_environment(_environment())
    return _environment().from_string(metered)


def _refuse(tree: nodes.Template) -> None:
    """What is not there for templates is said when they are read, not when they are used."""
    filters, tests = _environment().filters, _environment().tests
    looked_at: tuple[type[nodes.Node], ...] = (*REFUSED, nodes.For, nodes.Filter, nodes.Test)
    for node in tree.find_all(looked_at):
        match node:
            case nodes.For(recursive=True):
                problem = "there are no recursive loops here"
            case nodes.Filter(name=name) if name not in filters:
                problem = f"there is no filter {name}. {did_you_mean(name, _sayable(filters))}"
            case nodes.Test(name=name) if name not in tests:
                problem = f"there is no test {name}. {did_you_mean(name, _sayable(tests))}"
            case nodes.For() | nodes.Filter() | nodes.Test():
                continue
            case _:
                problem = f"there is no {{% {REFUSED[type(node)]} %}} here"
        raise BadTemplate(problem=problem, line=node.lineno)


def _free(tree: nodes.Template) -> Iterator[tuple[Chain, int]]:
    """The chains that begin with a name that the template does not make itself."""
    free = find_undeclared_variables(tree)
    asked = [_chain(test.node) for test in tree.find_all(nodes.Test) if test.name in ("defined", "undefined")]
    for chain, line in _needs(tree):
        if chain[0] in free and not any(one and chain[: len(one)] == one for one in asked):
            yield chain, line


def _lone(tree: nodes.Template) -> nodes.Expr | None:
    """The expression of a template that is one `{{ … }}` and nothing else."""
    match tree.body:
        case [nodes.Output(nodes=parts)]:
            others = [one for one in parts if not (isinstance(one, nodes.TemplateData) and not one.data.strip())]
            return others[0] if len(others) == 1 and not isinstance(others[0], nodes.TemplateData) else None
        case _:
            return None


def _assigning(expression: nodes.Expr) -> nodes.Template:
    """A template that keeps the value of an expression instead of saying it."""
    target = nodes.Name(RESULT, "store", lineno=expression.lineno)
    return nodes.Template([nodes.Assign(target, expression, lineno=expression.lineno)], lineno=1)


def _lacking(chain: Chain, values: object) -> Chain:
    """The beginning of a chain up to what is not there; nothing when all is."""
    for n, step in enumerate(chain):
        match values:
            case Mapping() if step in values:
                values = values[step]
            case Mapping() if n and step in METHODS[dict]:
                return ()
            case list() if isinstance(step, int) and -len(values) <= step < len(values):
                values = values[step]
            case str() if step in METHODS[str]:
                return ()
            case _:
                return chain[: n + 1]
    return ()


def _sayable(names: Iterable[str]) -> list[str]:
    return [name for name in names if name[0].isalpha()]


def _sentence(error: Exception) -> str:
    said = error.message if isinstance(error, TemplateError) and error.message else str(error)
    return said.rstrip(".")
