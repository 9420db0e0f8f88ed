"""An MCP server without any library, for what a library would not let it do. Its arguments say how it behaves."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

TOOLS: dict[str, dict[str, Any]] = {
    "pid": {"annotations": {"readOnlyHint": True}},
    "die": {"annotations": {"readOnlyHint": True}},
    "die-writing": {},
    "hang": {},
    "environment": {},
    "remember": {},
    "recall": {},
    "big": {},
    "endless-line": {},
    "garbled": {},
    "complain": {},
    "grow": {},
    "fail": {},
    "mixed": {},
}
WRONG = [
    {"name": "two words", "inputSchema": {"type": "object"}},
    {"name": "wrong-schema", "inputSchema": {"type": "object", "properties": {"a": {"type": "nothing"}}}},
    {"name": "pid", "inputSchema": {"type": "object"}, "description": "the second of this name"},
]


class Server:
    def __init__(self, how: list[str]) -> None:
        self.how = how
        self.memory: list[str] = []
        self.more: list[str] = []

    def listed(self, cursor: str | None) -> dict[str, Any]:
        if "many" in self.how:
            first = int(cursor or 0)
            page = [f"tool-{n}" for n in range(first, min(first + 2_000, 12_000))]
            more = {"nextCursor": str(first + 2_000)} if first + 2_000 < 12_000 else {}
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in page], **more}
        if "endless-list" in self.how:
            return {"tools": [{"name": "one", "inputSchema": {"type": "object"}}], "nextCursor": "again"}
        if "hanging-list" in self.how:
            hang("I am asked for a list")
        if "no-list" in self.how:
            return {"tools": [{"name": "one", "inputSchema": {"type": "array"}}]}
        names = {**TOOLS, **{name: {} for name in self.more}}
        tools = [{"name": name, "inputSchema": {"type": "object"}, **more} for name, more in names.items()]
        return {"tools": tools + (WRONG if "wrong-tools" in self.how else [])}

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        match name:
            case "pid":
                return text(str(os.getpid()))
            case "die" | "die-writing":
                print("I cannot go on", file=sys.stderr, flush=True)
                os._exit(7)
            case "hang":
                hang("I am called")
            case "environment":
                return text(json.dumps(dict(os.environ)))
            case "remember":
                self.memory.append(arguments["text"])
            case "recall":
                return text(json.dumps(self.memory))
            case "big":
                return text("a" + "b" * (arguments["size"] - 2) + "c")
            case "endless-line":
                while True:
                    sys.stdout.write("x" * 1_000_000)
            case "garbled":
                print("this is no message", arguments.get("text", ""), flush=True)
            case "complain":
                print(arguments["text"], file=sys.stderr, flush=True)
            case "grow":
                self.more.append(arguments["name"])
                send({"method": "notifications/tools/list_changed"})
            case "fail":
                return {**text(arguments["text"]), "isError": True}
            case "mixed":
                broken = {"type": "image", "mimeType": "image/png", "data": "no base64!"}
                resource = {"uri": "mem://notes.txt", "mimeType": "text/plain", "blob": "aGVsbG8="}
                sound = {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}
                return {"content": [broken, {"type": "resource", "resource": resource}, sound]}
        return text("done")

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                tells = {"listChanged": True} if "tells" in self.how else {}
                return {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": tells},
                    "serverInfo": {"name": "plain", "version": "1"},
                }
            case "tools/list":
                return self.listed(params.get("cursor"))
            case "tools/call":
                return self.call(params["name"], params.get("arguments") or {})
            case _:
                raise LookupError(method)


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def hang(said: str) -> None:
    print(said, file=sys.stderr, flush=True)
    time.sleep(1_000)


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def serve(server: Server) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        try:
            send({"id": message["id"], "result": server.answer(message["method"], message.get("params") or {})})
        except LookupError:
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


def starts(how: list[str]) -> int:
    """How often it was started, this time too."""
    for key in ("count", "once"):
        if key in how:
            path = Path(how[how.index(key) + 1])
            with path.open("a") as lines:
                lines.write(f"{os.getpid()}\n")
            return len(path.read_text().splitlines())
    return 1


def main(how: list[str]) -> None:
    if starts(how) > 1 and "once" in how:
        sys.exit(3)
    if "stubborn" in how:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "exits" in how:
        print(f"no license for {os.environ.get('LICENSE', 'you')}", file=sys.stderr)
        sys.exit(3)
    if "garbage" in how:
        for n in range(20):
            print(f"Starting, step {n} …", flush=True)
    if "silent" in how or "garbage" in how:
        hang("I am silent")
    serve(Server(how))
    if "stubborn" in how:
        time.sleep(1_000)


if __name__ == "__main__":
    main(sys.argv[1:])
