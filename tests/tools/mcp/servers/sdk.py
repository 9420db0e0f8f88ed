"""MCP servers made with the SDK: one over stdio, or those over HTTP that the arguments say."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
from base64 import b64decode
from typing import Any

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

CLIENT = ("me", "s3cret/of me")
FIRST_REFRESH = "refresh-token-1"


class Tokens:
    """An authorization server: who has the client's secret, or the newest refresh token, gets a token."""

    def __init__(self) -> None:
        self.valid: dict[str, list[str]] = {}
        self.refresh = FIRST_REFRESH
        self.given: list[str] = []

    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in self.valid:
            return None
        return AccessToken(token=token, client_id=CLIENT[0], scopes=self.valid[token], resource=None)

    async def give(self, request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        header = request.headers.get("authorization", "")
        secret = b64decode(header.removeprefix("Basic ")).decode() if header else ""
        if secret != "me:s3cret%2Fof%20me":
            return JSONResponse({"error": "invalid_client", "you_sent": [header, secret, form]}, 401)
        answer: dict[str, Any] = {"access_token": secrets.token_urlsafe(20), "token_type": "Bearer", "expires_in": 3600}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self.refresh:
                return JSONResponse({"error": "invalid_grant", "you_sent": form}, 400)
            self.refresh = answer["refresh_token"] = secrets.token_urlsafe(20)
        self.given.append(form["grant_type"])
        self.valid[answer["access_token"]] = form.get("scope", "").split()
        return JSONResponse(answer)


class Header(BaseHTTPMiddleware):
    """Lets in who sends a header."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        if request.headers.get("x-key") != "k3y of the house":
            return PlainTextResponse(f"your key {request.headers.get('x-key')} is wrong", 403)
        return await call_next(request)


class Broken(BaseHTTPMiddleware):
    """Answers calls of one tool with a status of HTTP."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        if b'"several"' in await request.body():
            return PlainTextResponse("", 503)
        return await call_next(request)


def make(address: str = "", tokens: Tokens | None = None) -> MCPServer:
    auth = {
        "issuer_url": address,
        "resource_server_url": f"{address}/mcp",
        "required_scopes": ["tools"],
        "validate_token_resource": False,
    }
    settings = AuthSettings.model_validate(auth) if tokens else None
    server = MCPServer("sdk", auth=settings, token_verifier=tokens)
    runs: list[str] = []

    @server.tool()
    def add(a: int, b: int) -> int:
        """Two numbers together."""
        return a + b

    @server.tool()
    def several() -> list[str]:
        return ["one", "two"]

    @server.tool()
    async def steps(context: Context[Any, Any], count: int) -> str:
        for n in range(count):
            await context.report_progress(n + 1, count, f"step {n + 1}")
        return "done"

    @server.tool()
    async def grow(context: Context[Any, Any], name: str) -> None:
        def new() -> str:
            return "new"

        server.add_tool(new, name)
        await context.notify_tools_changed()

    @server.tool()
    def big(size: int) -> str:
        return "b" * size

    @server.tool()
    def fail(text: str) -> str:
        raise ToolError(text)

    @server.tool()
    async def hang() -> str:
        runs.append("hang")
        try:
            await asyncio.Event().wait()
        finally:
            runs.append("let go")
        return ""

    @server.tool()
    def happened() -> list[str]:
        return runs

    @server.tool()
    def pid() -> int:
        return os.getpid()

    @server.tool()
    def given() -> list[str]:
        return tokens.given if tokens else []

    @server.tool()
    def die() -> None:
        os._exit(9)

    @server.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}"

    @server.resource("notes://today")
    def today() -> str:
        return "rain"

    return server


async def serve(how: str, port: int = 0) -> None:
    here = socket.socket()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    here.bind(("127.0.0.1", port))
    here.listen()
    address = f"http://127.0.0.1:{here.getsockname()[1]}"
    tokens = Tokens() if how.startswith("oauth") else None
    server = make(address, tokens)
    if tokens:
        said = {"issuer": address, "authorization_endpoint": f"{address}/no", "token_endpoint": f"{address}/token"}

        async def metadata(request: Request) -> Response:
            return JSONResponse(said)

        server._custom_starlette_routes.append(Route("/token", tokens.give, methods=["POST"]))
        server._custom_starlette_routes.append(Route("/.well-known/oauth-authorization-server", metadata))
    app = server.streamable_http_app(json_response=how == "json")
    if how == "header":
        app.add_middleware(Header)
    if how == "broken":
        app.add_middleware(Broken)
    print(json.dumps([how, address]), flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="critical")).serve(sockets=[here])


async def serve_all(how: list[str]) -> None:
    """`KIND`, or `KIND:PORT`; where each is, is printed."""
    async with asyncio.TaskGroup() as group:
        for kind, _, port in (one.partition(":") for one in how):
            group.create_task(serve(kind, int(port or 0)))


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(serve_all(sys.argv[1:]))
    else:
        make().run()
