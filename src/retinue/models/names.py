"""The models of this process, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from retinue.errors import UnknownTarget
from retinue.models.scripted import ScriptedModel
from retinue.ports.models import Model


class ModelNames:
    """Finds a model by its name. `test` is always there."""

    def __init__(self, models: Mapping[str, Model] | None = None) -> None:
        self._models: dict[str, Model] = {"test": ScriptedModel(), **(models or {})}

    def resolve(self, name: str) -> Model:
        if name not in self._models:
            near = difflib.get_close_matches(name, self._models, n=3) or sorted(self._models)
            raise UnknownTarget(target=f"model:{name}", problem=f"no such model. There is: {', '.join(near)}.")
        return self._models[name]
