from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.models.server import Server, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server
