from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.files.servers import Web, web_server


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    """A server on loopback."""
    async with web_server() as server:
        yield server
