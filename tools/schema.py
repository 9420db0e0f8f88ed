"""Write the schema of `store/tables.py` out as SQL, one file for each database. `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from retinue.store.schema import HEAD
from retinue.store.tables import metadata

FOLDER = Path(__file__).parent.parent / "src/retinue/store"


def script(dialect: Dialect) -> str:
    statements = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)).strip())
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            statements.append(str(CreateIndex(index).compile(dialect=dialect)).strip())
    statements.append(
        "CREATE TABLE alembic_version (\n    version_num VARCHAR(32) NOT NULL,\n"
        "    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)\n)"
    )
    statements.append(f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')")
    lines = (line.rstrip() for line in ";\n\n".join(statements).replace("\t", "    ").splitlines())
    return "\n".join(lines) + ";\n"


def main() -> int:
    stale = []
    for name, dialect in (("sqlite", sqlite.dialect()), ("postgresql", postgresql.dialect())):  # type: ignore[no-untyped-call]
        path = FOLDER / f"{name}.sql"
        text = script(dialect)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    if stale:
        print(f"stale: {', '.join(stale)}; run make schema", file=sys.stderr)
    return len(stale)


if __name__ == "__main__":
    raise SystemExit(main())
