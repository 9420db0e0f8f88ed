"""`retinue version`"""

from __future__ import annotations

import json
import platform

from retinue import __version__
from retinue.cli.options import Json, examples, single

app = single()


@app.command(epilog=examples("retinue version", "retinue version --json"))
def version(as_json: Json = False) -> None:
    """Say which version this is."""
    said = {"version": __version__, "python": platform.python_version(), "platform": platform.platform()}
    print(json.dumps(said) if as_json else f"retinue {__version__} (Python {said['python']})")
