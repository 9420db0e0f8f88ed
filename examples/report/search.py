"""What the report does besides asking models: look for words in the notes, and write a file. Each is a durable run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from retinue import FunctionContext

REPORTS = Path("reports")
MOST_FOUND, MOST_GATHERED = 2, 5
COMMON = frozenset({"and", "are", "for", "from", "how", "that", "the", "they", "was", "what", "why", "with"})


async def search(ctx: FunctionContext, input: dict[str, str]) -> list[dict[str, Any]]:
    """The paragraphs that share the most words with the query."""
    found: list[dict[str, Any]] = await ctx.step("search", search_notes, input["query"], input["folder"], effect="read")
    return found


async def gather(ctx: FunctionContext, input: list[list[dict[str, Any]] | None]) -> list[dict[str, Any]]:
    """The best of all that was found, each once."""
    found = [one for several in input for one in several or ()]
    best = {one["text"]: one for one in sorted(found, key=lambda one: one["score"])}
    return sorted(best.values(), key=lambda one: -int(one["score"]))[:MOST_GATHERED]


async def save(ctx: FunctionContext, input: dict[str, Any]) -> str:
    """The report as a file. Writing it twice is as good as once."""
    return str(await ctx.step("save", save_report, input, effect="idempotent"))


def search_notes(query: str, folder: str) -> list[dict[str, Any]]:
    wanted = words(query)
    found = []
    for path in sorted(Path(folder).glob("*.md")):
        for text in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            if score := len(words(text) & wanted):
                found.append({"file": path.name, "text": " ".join(text.split()), "score": score})
    return sorted(found, key=lambda one: (-one["score"], one["file"]))[:MOST_FOUND]


def words(text: str) -> set[str]:
    """The beginnings of words: keepers are found where a keeper is looked for."""
    return {word[:5] for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in COMMON}


def save_report(report: dict[str, Any]) -> str:
    name = re.sub(r"\W+", "-", report["topic"].lower()).strip("-")[:40] or "report"
    path = REPORTS / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    sources = "".join(f"- {name}\n" for name in dict.fromkeys(source["file"] for source in report["sources"]))
    path.write_text(f"# {report['topic']}\n\n{report['text']}\n\nFrom:\n{sources}", encoding="utf-8")
    return str(path)
