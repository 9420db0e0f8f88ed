"""Scripts for the `test` model, written in YAML: which answer is given when. See docs/testing-models.md."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn, TypeVar, get_args

import yaml

from retinue.core.messages import ToolCall, text_of
from retinue.core.outcome import Usage
from retinue.errors import BadSettings, ModelBroken, ModelBusy, ModelError, ModelRefused, ModelUnavailable, UnknownModel
from retinue.models.scripted import Reply, ScriptedModel, words_of
from retinue.ports.clock import Clock
from retinue.ports.models import ModelRequest, Stop

STOPS = get_args(Stop)
ERRORS: Mapping[str, type[ModelError]] = {
    "refused": ModelRefused,
    "busy": ModelBusy,
    "unavailable": ModelUnavailable,
    "broken": ModelBroken,
}
Choice = TypeVar("Choice", bound=str)
LATER = ("busy", "unavailable")
"""Errors that can say when to come again."""

PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float")}
DEEPEST = 100


FILE_VARIABLE = "RETINUE_TEST_SCRIPT"
FOLDER_VARIABLE = "RETINUE_TEST_SCRIPTS"
FOLDER = "scripts"
_name_of = re.compile(r"[A-Za-z0-9_-]+")


def scripted_model(name: str = "test", *, clock: Clock | None = None) -> ScriptedModel:
    """`test` on the script that RETINUE_TEST_SCRIPT names, if any; `test:NAME` on NAME.yaml in the folder of scripts.

    A name is no path: those who may name a model may not choose a file to read.
    """
    _, _, of = name.partition(":")
    if not of:
        file = os.environ.get(FILE_VARIABLE)
        return ScriptedModel(Script.read(Path(file)), name, clock=clock) if file else ScriptedModel(clock=clock)
    folder = Path(os.environ.get(FOLDER_VARIABLE, FOLDER))
    path = folder / f"{of}.yaml"
    if not _name_of.fullmatch(of) or not path.is_file():
        there = sorted(path.stem for path in folder.glob("*.yaml"))
        near = difflib.get_close_matches(of, there, n=3) or there
        problem = f"there is no script {of}.yaml in {folder}/. " + (f"There is: {', '.join(near)}." if near else "")
        raise UnknownModel(name=name, problem=problem.strip())
    return ScriptedModel(Script.read(path), name, clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a reply is the one: all that is said here holds."""

    text: re.Pattern[str] | None = None
    tools: frozenset[str] = frozenset()
    turn: int | None = None

    def holds(self, request: ModelRequest, turn: int) -> bool:
        if self.turn is not None and self.turn != turn:
            return False
        if not self.tools <= {tool.name for tool in request.tools}:
            return False
        return self.text is None or bool(self.text.search(_last_text(request)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One reply of a script. Unless it may `repeat` it is given once in a conversation."""

    reply: Reply
    when: When = When()
    repeat: bool = False

    @property
    def fails(self) -> bool:
        return self.reply.error is not None or self.reply.break_after is not None


@dataclass(slots=True)
class Script:
    """Replies in order: the first that was not given yet and whose condition holds is the answer.

    Which were given is read off the transcript, so each conversation goes through the script for itself, and a run
    that a crash broke off goes on where it was. Only a failure leaves no trace there; it is remembered.
    """

    lines: tuple[Line, ...]
    where: str = "script"
    _failed: set[tuple[int, int]] = field(default_factory=set)

    @staticmethod
    def read(path: Path) -> Script:
        """Raises `BadSettings` with file and line."""
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise BadSettings(where=str(path), problem=f"the script cannot be read: {problem}") from None
        return Script.parse(text, str(path))

    @staticmethod
    def parse(text: str, where: str = "script") -> Script:
        return Script(_Reader(where).script(text), where)

    def __call__(self, request: ModelRequest) -> Reply:
        used: set[int] = set()
        turn = 1
        for n, message in enumerate(request.messages):
            if message.role == "model":
                before = replace(request, messages=request.messages[:n])
                given = next((n for n in self._fitting(before, turn, used) if not self.lines[n].fails), None)
                turn += 1
                if given is not None and not self.lines[given].repeat:
                    used.add(given)
        conversation = hash(repr(request.messages[:1]))
        for n in self._fitting(request, turn, used):
            if not self.lines[n].fails or self.lines[n].repeat:
                return self.lines[n].reply
            if (conversation, n) not in self._failed:
                self._failed.add((conversation, n))
                return self.lines[n].reply
        problem = f"{self.where} has no reply for turn {turn}. Add one, or `repeat: true` to one that fits."
        return Reply(error=ModelRefused(model="test", problem=problem))

    def _fitting(self, request: ModelRequest, turn: int, used: set[int]) -> Iterable[int]:
        return (n for n, line in enumerate(self.lines) if n not in used and line.when.holds(request, turn))


def _last_text(request: ModelRequest) -> str:
    return next((text_of(message.parts) for message in reversed(request.messages) if message.role == "user"), "")


class _Reader:
    """Turns YAML into replies; whatever is wrong is said with its line and the key that was probably meant."""

    def __init__(self, where: str) -> None:
        self._where = where

    def script(self, text: str) -> tuple[Line, ...]:
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise BadSettings(where=f"{self._where}:{line}", problem=f"this is no YAML: {error.problem}") from None
        except yaml.YAMLError as error:
            raise BadSettings(where=self._where, problem=f"this is no YAML: {error}") from None
        if node is None:
            raise BadSettings(where=self._where, problem="the script is empty. Write a list of replies.")
        return tuple(self._line(item) for item in self._list(node, "a script"))

    def _line(self, node: yaml.Node) -> Line:
        keys = self._keys(
            node,
            "a reply",
            "when text pieces thinking calls data delay error break_after repeat usage stop",
        )
        if "text" in keys and "pieces" in keys:
            self._wrong(keys["pieces"], "give either `text` or `pieces`, not both")
        if "data" in keys and ("text" in keys or "pieces" in keys):
            self._wrong(keys["data"], "give either `data` or a text, not both")
        first, delay = self._delay(keys["delay"]) if "delay" in keys else (0.0, 0.0)
        reply = Reply(
            pieces=self._pieces(keys),
            thinking=self._text(keys["thinking"], "thinking") if "thinking" in keys else "",
            calls=[self._call(item) for item in self._list(keys["calls"], "`calls`")] if "calls" in keys else (),
            data=self._json(keys["data"]) if "data" in keys else None,
            first=first,
            delay=delay,
            error=self._error(keys["error"]) if "error" in keys else None,
            break_after=self._whole(keys["break_after"], "break_after") if "break_after" in keys else None,
            usage=self._usage(keys["usage"]) if "usage" in keys else None,
            stop=self._choice(keys["stop"], "stop", STOPS) if "stop" in keys else None,
        )
        return Line(
            reply=reply,
            when=self._when(keys["when"]) if "when" in keys else When(),
            repeat=self._flag(keys["repeat"], "repeat") if "repeat" in keys else False,
        )

    def _pieces(self, keys: Mapping[str, yaml.Node]) -> Sequence[str]:
        if "text" in keys:
            return words_of(self._text(keys["text"], "text"))
        if "pieces" in keys:
            return [self._text(item, "pieces") for item in self._list(keys["pieces"], "`pieces`")]
        return ()

    def _when(self, node: yaml.Node) -> When:
        keys = self._keys(node, "`when`", "text tools turn")
        pattern = None
        if "text" in keys:
            try:
                pattern = re.compile(self._text(keys["text"], "text"), re.IGNORECASE)
            except re.error as error:
                self._wrong(keys["text"], f"`text` is no regular expression: {error}")
        tools: frozenset[str] = frozenset()
        if "tools" in keys:
            named = keys["tools"]
            items = self._list(named, "`tools`") if isinstance(named, yaml.SequenceNode) else [named]
            tools = frozenset(self._text(item, "tools") for item in items)
        return When(text=pattern, tools=tools, turn=self._whole(keys["turn"], "turn", 1) if "turn" in keys else None)

    def _call(self, node: yaml.Node) -> ToolCall:
        keys = self._keys(node, "a call", "tool arguments id")
        if "tool" not in keys:
            self._wrong(node, "a call needs `tool`, the name of what it calls")
        return ToolCall(
            call_id=self._text(keys["id"], "id") if "id" in keys else "",
            tool=self._text(keys["tool"], "tool"),
            arguments=self._json(keys["arguments"]) if "arguments" in keys else {},
        )

    def _delay(self, node: yaml.Node) -> tuple[float, float]:
        if not isinstance(node, yaml.MappingNode):
            return 0.0, self._seconds(node, "delay")
        keys = self._keys(node, "`delay`", "first each")
        first, each = (self._seconds(keys[key], key) if key in keys else 0.0 for key in ("first", "each"))
        return first, each

    def _error(self, node: yaml.Node) -> ModelError:
        keys = self._keys(node, "`error`", "kind message retry_after")
        if "kind" not in keys:
            self._wrong(node, f"`error` needs a `kind`: {', '.join(ERRORS)}")
        kind = self._choice(keys["kind"], "kind", ERRORS)
        facts: dict[str, object] = {"model": "test", "problem": "the script says so"}
        if "message" in keys:
            facts["problem"] = self._text(keys["message"], "message")
        if kind in LATER:
            facts["retry_after"] = self._seconds(keys["retry_after"], "retry_after") if "retry_after" in keys else None
        elif "retry_after" in keys:
            self._wrong(keys["retry_after"], f"`retry_after` goes with {' and '.join(LATER)}, not with {kind}")
        return ERRORS[kind](**facts)

    def _usage(self, node: yaml.Node) -> Usage:
        keys = self._keys(node, "`usage`", "input_tokens output_tokens cached_tokens thinking_tokens")
        counted = {key: self._whole(value, key) for key, value in keys.items()}
        return Usage(
            calls=1,
            input_tokens=counted.get("input_tokens", 0),
            output_tokens=counted.get("output_tokens", 0),
            cached_tokens=counted.get("cached_tokens", 0),
            thinking_tokens=counted.get("thinking_tokens", 0),
        )

    # Values

    def _keys(self, node: yaml.Node, what: str, allowed: str) -> dict[str, yaml.Node]:
        """The values of a mapping that may have these keys."""
        known = allowed.split()
        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, f"{what} is a mapping with some of: {', '.join(known)}")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "this"
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"there is: {', '.join(known)}."
                self._wrong(key, f"`{name}` is no key of {what}; {hint}")
            if name in found:
                self._wrong(key, f"`{name}` stands here twice")
            found[name] = value
        return found

    def _list(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self._wrong(node, f"{what} is a list: write each item behind a dash")
        return list(node.value)

    def _text(self, node: yaml.Node, key: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._wrong(node, f"`{key}` is a text")
        return str(node.value)

    def _choice(self, node: yaml.Node, key: str, choices: Iterable[Choice]) -> Choice:
        known = {str(choice): choice for choice in choices}
        text = self._text(node, key)
        if text not in known:
            near = difflib.get_close_matches(text, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there is: {', '.join(known)}."
            self._wrong(node, f"`{text}` is no `{key}`; {hint}")
        return known[text]

    def _flag(self, node: yaml.Node, key: str) -> bool:
        value = self._json(node)
        if not isinstance(value, bool):
            self._wrong(node, f"`{key}` is true or false")
        return value

    def _whole(self, node: yaml.Node, key: str, least: int = 0) -> int:
        value = self._json(node)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self._wrong(node, f"`{key}` is a whole number, {least} or more")
        return value

    def _seconds(self, node: yaml.Node, key: str) -> float:
        value = self._json(node)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
            self._wrong(node, f"`{key}` is a number of seconds")
        return float(value)

    def _json(self, node: yaml.Node, depth: int = 0) -> object:
        """Any value that JSON has. YAML also has dates and more; those are meant as text."""
        if depth > DEEPEST:
            self._wrong(node, "this is nested too deeply")
        match node:
            case yaml.MappingNode(value=pairs):
                return {self._text(key, "a key"): self._json(value, depth + 1) for key, value in pairs}
            case yaml.SequenceNode(value=items):
                return [self._json(item, depth + 1) for item in items]
            case yaml.ScalarNode(tag=tag) if tag in PLAIN:
                return self._plain(node)
            case _:
                return str(node.value)

    def _plain(self, node: yaml.Node) -> object:
        try:
            value = yaml.SafeLoader("").construct_object(node)
        except ValueError:
            self._wrong(node, f"`{node.value}` is not what its tag says")
        if isinstance(value, float) and not math.isfinite(value):
            self._wrong(node, f"JSON has no `{node.value}`")
        return value

    def _wrong(self, node: yaml.Node, problem: str) -> NoReturn:
        raise BadSettings(where=f"{self._where}:{node.start_mark.line + 1}", problem=problem)
