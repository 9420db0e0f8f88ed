"""PDF and HTML to text, in a process of its own: one that takes too long or grows too large is ended.

A thread could not be ended, and would hold up everything else with what it computes.
"""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec

import msgspec

from retinue.errors import ExtraMissing
from retinue.files.apart import command, environment

_NEEDS = {"pdf": "pypdf", "html": "markdownify"}


@dataclass(frozen=True, slots=True)
class Text:
    """What a file says, and what of it was lost on the way."""

    text: str
    problem: str = ""


async def text_of_pdf(data: bytes, max_pages: int, seconds: float) -> Text | str:
    """Its text page by page, or why there is none."""
    return await _converted("pdf", str(max_pages), data, seconds)


async def text_of_html(page: str, seconds: float, address: str = "") -> Text | str:
    """The page as Markdown, or why there is none."""
    return await _converted("html", address, page.encode(errors="replace"), seconds)


async def _converted(kind: str, option: str, data: bytes, seconds: float) -> Text | str:
    if find_spec(_NEEDS[kind]) is None:
        raise ExtraMissing(what=f"Reading {kind.upper()}", extra="documents")
    return await asyncio.to_thread(_in_a_process, kind, option, data, seconds)


def _in_a_process(kind: str, option: str, data: bytes, seconds: float) -> Text | str:
    try:
        done = subprocess.run(
            command("retinue.files.convert", kind, option, str(seconds)),
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"turning it into text took longer than {seconds:g} s"
    if done.returncode:
        return "it cannot be turned into text"
    return msgspec.json.decode(done.stdout, type=Text | str)
