"""`python -m retinue` is the command line."""

from __future__ import annotations

from retinue.cli.main import main

if __name__ == "__main__":
    main()
