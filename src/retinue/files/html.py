"""A page as Markdown. Runs in a process of its own, see `convert`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from markdownify import MarkdownConverter

from retinue.files.documents import Text

_UNREAD = ["script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "head", "title"]
_LINKS = {"a": "href", "img": "src"}
_leads_somewhere = re.compile(r"(https?://|mailto:|[^:]*$)", re.IGNORECASE)


def read(page: str, address: str) -> Text:
    """Its text under its title, with links as they lead from its address."""
    soup = BeautifulSoup(page, "html.parser")
    heading = f"# {' '.join(soup.title.get_text().split())}" if soup.title else ""
    for tag in soup.find_all(_UNREAD):
        tag.decompose()
    for tag in soup.find_all(list(_LINKS)):
        _settle(tag, _LINKS[tag.name], address)
    text = re.sub(r"\n{3,}", "\n\n", _markdown(soup)).strip()
    return Text(text if text.startswith(heading) else f"{heading}\n\n{text}".strip())


def _settle(tag: Tag, attribute: str, address: str) -> None:
    """The whole link; none for a script, or for a picture that is spelt out in it."""
    link = str(tag.get(attribute, ""))
    try:
        tag[attribute] = urljoin(address, link)
    except ValueError:
        tag[attribute] = ""
    if not _leads_somewhere.match(str(tag[attribute])):
        del tag[attribute]


def _markdown(soup: BeautifulSoup) -> str:
    convert: Any = MarkdownConverter(heading_style="ATX", bullets="-")
    try:
        return str(convert.convert_soup(soup))
    except RecursionError:  # tags in tags in tags
        return soup.get_text("\n", strip=True)
