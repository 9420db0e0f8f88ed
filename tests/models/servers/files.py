"""A web server for files: a Python package index, a hub of models; with the faults that such servers have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """One address. `breaks` are numbers of bytes after which the connection is cut, one for each time it is asked."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    ranges: bool = True
    says: int | None = None
    """The length that it claims to have."""


@dataclass
class FileServer:
    """What is served, and what was asked."""

    port: int = 0
    served: dict[str, Served] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ranges(self) -> list[str | None]:
        """From where each file was asked for."""
        return [headers.get("range") for method, _, headers in self.asked if method == "GET"]


@contextmanager
def file_server() -> Iterator[FileServer]:
    state = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self.answer(None)

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            self.answer(state.served.get(path))

        def answer(self, served: Served | None) -> None:
            path = self.path.partition("?")[0]
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.asked.append((self.command, self.path, headers))
            served = state.served.get(path, Served(status=404))
            body, status, more = served.body, served.status, dict(served.headers)
            begin = int(headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
            if begin and served.ranges and status == 200:
                if begin >= len(body):
                    body, status, more = b"", 416, {"Content-Range": f"bytes */{len(body)}"}
                else:
                    body, status = body[begin:], 206
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if served.says is None else served.says))
            for name, value in more.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            cut = served.breaks.pop(0) if served.breaks else None
            self.wfile.write(body[:cut])
            if cut is not None or served.says is not None:
                self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
