"""A project with an agent that looks, speaks, books and ends: as far as its script says."""

from __future__ import annotations

from pathlib import Path

AGENT = """\
---
name: guide
description: Knows cities.
model: test:trip
tools: [about_city, book]
policy:
  - {tool: book, action: ask}
limits: {max_minutes: 3}
---
You know cities.
"""
TOOLS = '''\
from retinue import tool


@tool(effect="read")
def about_city(city: str) -> str:
    """What is known about a city."""
    if city == "Atlantis":
        raise ValueError("it has sunk")
    return f"{city} is old. " * 100


@tool
def book(hotel: str, eur: int) -> str:
    """Book a hotel."""
    return f"booked for {eur}"
'''
LOOKS = """\
- thinking: I had better look.
  text: Let me see.
  calls: [{tool: about_city, arguments: {city: Porto}}, {tool: about_city, arguments: {city: Atlantis}}]
"""
SPEAKS = "- text: Now I know.\n"
BOOKS = "- calls: [{tool: book, arguments: {hotel: Luz, eur: 120}}]\n"
ENDS = "- calls: [{tool: complete_task, arguments: {result: Off to Porto.}}]\n"


def script(folder: Path, *replies: str) -> None:
    (folder / "scripts/trip.yaml").write_text("".join(replies))


def write_project(folder: Path) -> None:
    for name in ("agents", "tools", "scripts"):
        (folder / name).mkdir()
    (folder / "agents/guide.md").write_text(AGENT)
    (folder / "tools/cities.py").write_text(TOOLS)
    script(folder, LOOKS, SPEAKS, BOOKS, ENDS)
