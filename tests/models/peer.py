"""A real model behind a real server that is not ours: llama.cpp's, which speaks OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import xllamacpp

KEY = "peer-key"
TEMPLATE = """\
{% if tools %}<|im_start|>system
Functions:{% for tool in tools %} {{ tool.function | tojson }}{% endfor %}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ "user" if message.role == "tool" else message.role }}
{{ message.content or "" }}{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""The model's own has no place for tools: llama.cpp would leave them out."""


@dataclass(frozen=True)
class Peer:
    """Where it is: `base_url` is what OPENAI_BASE_URL would be."""

    base_url: str
    key: str = KEY
    model: str = "smollm2"


@asynccontextmanager
async def peer(model: Path) -> AsyncIterator[Peer]:
    """A server in a process of its own, until this is left."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.models.peer",
        str(model),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    try:
        address = (await process.stdout.readline()).decode().strip()
        assert address.startswith("http://127.0.0.1:"), "the peer did not start"
        yield Peer(f"{address}/v1")
    finally:
        process.stdin.close()
        await process.wait()


def main(model: str) -> None:
    """Serve until nobody holds the other end of the input."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.chat_template = TEMPLATE
    params.model_alias = {Peer.model}
    params.n_ctx, params.n_parallel = 2048, 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [KEY]
    params.warmup, params.ui, params.verbosity = False, False, 0
    params.endpoint_metrics = True
    server = xllamacpp.Server(params)
    server.handle_metrics()  # one that ends before its loop has begun never ends
    print(server.listening_address, flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main(sys.argv[1])
