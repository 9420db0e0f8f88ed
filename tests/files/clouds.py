"""Servers that speak what is needed of the wire formats of Google Cloud Storage and Azure Blob Storage.

Written from their documentation: the XML API of Google with its bearer token, and of Azure `Put Blob`, `Get Blob`,
`Get Blob Properties` and `Blob Batch` with its shared-key signature. Both refuse what is not signed right.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from urllib.parse import unquote

from aiohttp import web
from aiohttp.test_utils import TestServer

from retinue.files.config import Options

ACCOUNT = "retinuetests"
KEY = base64.b64encode(b"a key that only the tests know").decode()
TOKEN = "a-token-that-only-the-tests-know"


class Cloud:
    """A server with one bucket, `files`. With `failing` it answers all with that status."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.failing = 0
        self.url = ""

    def options(self) -> Options:
        """What a client must know."""
        raise NotImplementedError

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    def has(self, key: str) -> web.Response:
        body = self.objects[key]
        return web.Response(
            body=body,
            headers={
                "ETag": f'"{hashlib.md5(body).hexdigest()}"',
                "Last-Modified": formatdate(usegmt=True),
                "Content-Length": str(len(body)),
            },
        )

    def error(self, status: int, code: str) -> web.Response:
        text = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{code}.</Message></Error>'
        return web.Response(status=status, text=text, content_type="application/xml")


class Google(Cloud):
    def options(self) -> Options:
        return {"base_url": self.url, "bearer_token": TOKEN}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        _, bucket, key = unquote(request.path).split("/", 2)
        self.asked.append(f"{request.method} {key}")
        if self.failing:
            return self.error(self.failing, "InternalError")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.error(401, "AuthenticationRequired")
        if bucket != "files":
            return self.error(404, "NoSuchBucket")
        if request.method == "PUT":
            if request.headers.get("x-goog-if-generation-match") == "0" and key in self.objects:
                return self.error(412, "PreconditionFailed")
            self.objects[key] = await request.read()
        if key not in self.objects:
            return self.error(404, "NoSuchKey")
        if request.method == "DELETE":
            del self.objects[key]
            return web.Response(status=204)
        return self.has(key)


class Azure(Cloud):
    def options(self) -> Options:
        return {"endpoint": f"{self.url}/{ACCOUNT}", "account_name": ACCOUNT, "account_key": KEY}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        _, _, container, *rest = unquote(request.path).split("/", 3)
        key = "".join(rest)
        self.asked.append(f"{request.method} {key}")
        if self.failing:
            return self.error(self.failing, "InternalError")
        if request.headers.get("Authorization") != f"SharedKey {ACCOUNT}:{_signature(request)}":
            return self.error(403, "AuthenticationFailed")
        if container != "files":
            return self.error(404, "ContainerNotFound")
        if request.method == "POST":
            return self._batch(await request.text())
        if request.method == "PUT":
            if request.headers.get("If-None-Match") == "*" and key in self.objects:
                return self.error(409, "BlobAlreadyExists")
            self.objects[key] = await request.read()
            answer = self.has(key)
            return web.Response(status=201, headers={name: answer.headers[name] for name in ("ETag", "Last-Modified")})
        return self.has(key) if key in self.objects else self.error(404, "BlobNotFound")

    def _batch(self, body: str) -> web.Response:
        """Deletes, each answered in its own part."""
        parts = []
        for number, path in enumerate(re.findall(r"^DELETE (\S+) HTTP", body, re.MULTILINE)):
            self.asked.append(f"DELETE {unquote(path).split('/', 3)[3]}")
            gone = self.objects.pop(unquote(path).split("/", 3)[3], None)
            status = "404 The specified blob does not exist." if gone is None else "202 Accepted"
            code = "x-ms-error-code: BlobNotFound\r\n" if gone is None else ""
            head = f"Content-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
            parts.append(f"--batch\r\n{head}HTTP/1.1 {status}\r\n{code}x-ms-version: 2023-11-03\r\n\r\n")
        kind = {"Content-Type": "multipart/mixed; boundary=batch"}
        return web.Response(status=202, body="".join(parts).encode() + b"--batch--\r\n", headers=kind)


def _signature(request: web.Request) -> str:
    """What the key makes of the request."""
    headers = request.headers
    lines = [request.method]
    for name in ("Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date"):
        lines.append("" if headers.get(name) == "0" else headers.get(name, ""))
    for name in ("If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"):
        lines.append(headers.get(name, ""))
    lines += sorted(f"{name.lower()}:{value}" for name, value in headers.items() if name.lower().startswith("x-ms-"))
    lines.append(f"/{ACCOUNT}{request.rel_url.raw_path}")
    text = "\n".join([*lines, *sorted(f"{name}:{value}" for name, value in request.query.items())])
    return base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()


@asynccontextmanager
async def cloud_server(cloud: Cloud) -> AsyncIterator[None]:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", cloud.answer)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    cloud.url = f"http://127.0.0.1:{server.port}"
    try:
        yield
    finally:
        await server.close()
