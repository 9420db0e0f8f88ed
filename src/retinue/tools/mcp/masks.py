"""What must not be read in errors and logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

import msgspec

from retinue.core.secrets import OPEN, SHORTEST

TOKEN = "[token]"


class Masks:
    """Secrets, and what servers gave in exchange for them, by what is shown in their place."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._marks: dict[str, str] = {}
        for name, value in secrets.items():
            self._keep(value, f"{OPEN}{name}}}")
        self._compile()

    def learn(self, value: str, mark: str = TOKEN) -> None:
        """From now on, this is not to be read either."""
        self._keep(value, mark)
        self._compile()

    def hide(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._marks[found[0]], text) if self._marks else text

    def _keep(self, value: str, mark: str) -> None:
        """A value in the forms that it may be printed in: as it is, in a URL, in JSON."""
        in_json = msgspec.json.encode(value).decode()[1:-1]
        for form in (value, quote(value, safe=""), quote(value), quote_plus(value), in_json, repr(value)[1:-1]):
            if len(form) >= SHORTEST:
                self._marks[form] = mark

    def _compile(self) -> None:
        self._pattern = re.compile("|".join(map(re.escape, sorted(self._marks, key=len, reverse=True))))
