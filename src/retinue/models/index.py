"""Python package indexes, as pip and uv are configured to use them: which wheels a package has, and their hashes."""

from __future__ import annotations

import configparser
import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from retinue.errors import PullFailed
from retinue.models.fetch import Fetch, shown

PUBLIC = "https://pypi.org/simple"
"""What pip and uv take when nothing is configured."""

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
FIRST = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
MORE = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A file that an index offers."""

    filename: str
    url: str
    sha256: str | None = None


def wheels_of(package: str, fetch: Fetch, environ: Mapping[str, str]) -> list[Wheel]:
    """The wheels that the first of the configured indexes has which knows the package."""
    problems = []
    for index in indexes(environ):
        url = f"{index.rstrip('/')}/{package}/"
        try:
            page = fetch.page(url, accept=ACCEPT)
        except PullFailed as error:
            problems.append(error.problem)
            continue
        wheels = list(_wheels(page.text, page.media_type, page.url))
        if wheels:
            return wheels
        problems.append(f"{shown(url)} has no wheel")
    raise PullFailed(name=fetch.name, problem=f"no package index gave {package}: {'; '.join(problems)}")


def indexes(environ: Mapping[str, str]) -> list[str]:
    """Where packages come from here: the environment before the files of uv and pip, and the main one before others."""
    configured = [_from_uv(environ), _from_pip(environ)]
    first = [environ[name] for name in FIRST if environ.get(name)]
    first += [index for found in configured for index in found.first]
    more = [url for name in MORE for url in environ.get(name, "").split()]
    more += [index for found in configured for index in found.more]
    named = [*(first[:1] or [PUBLIC]), *more]
    # uv takes `name=url` for an index that has a name
    return list(dict.fromkeys(url.partition("=")[2] if "=" in url.partition("://")[0] else url for url in named))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Configured:
    first: Sequence[str] = ()
    more: Sequence[str] = ()


def _from_pip(environ: Mapping[str, str]) -> _Configured:
    """What pip's files say; the ones of the environment over the user's over the machine's, as pip has it."""
    parser = configparser.RawConfigParser()
    for path in _pip_files(environ):
        try:
            parser.read(path, "utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip says what is wrong with it
    first = more = ""
    for section in ("global", "install", "download"):
        first = parser.get(section, "index-url", fallback=first)
        more = parser.get(section, "extra-index-url", fallback=more)
    return _Configured(first=first.split(), more=more.split())


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    chosen = environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    home = Path(environ.get("HOME") or "~").expanduser()
    if sys.platform == "win32":
        yield Path(environ.get("PROGRAMDATA", "C:/ProgramData")) / "pip" / "pip.ini"
        yield Path(environ.get("APPDATA", home)) / "pip" / "pip.ini"
        yield Path(sys.prefix) / "pip.ini"
    else:
        for folder in reversed(environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
            yield Path(folder) / "pip" / "pip.conf"
        yield Path("/etc/pip.conf")
        yield home / ".pip" / "pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
        yield Path(sys.prefix) / "pip.conf"
    if chosen:
        yield Path(chosen)


def _from_uv(environ: Mapping[str, str]) -> _Configured:
    """What uv's own file of the user or the machine says."""
    home = Path(environ.get("HOME") or "~").expanduser()
    named = environ.get("UV_CONFIG_FILE")
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    for path in [Path(named)] if named else [user, Path("/etc/uv/uv.toml")]:
        try:
            says = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            continue
        listed = [index for index in says.get("index", []) if isinstance(index, dict) and index.get("url")]
        first = [str(index["url"]) for index in listed if index.get("default")]
        more = [str(index["url"]) for index in listed if not index.get("default") and not index.get("explicit")]
        pip_like = says.get("extra-index-url", [])
        return _Configured(
            first=[*first, *([str(says["index-url"])] if says.get("index-url") else [])],
            more=[*more, *(map(str, pip_like) if isinstance(pip_like, list) else [])],
        )
    return _Configured()


def _wheels(text: str, media_type: str, page: str) -> Iterator[Wheel]:
    links = _from_json(text) if media_type.endswith("json") else _from_html(text)
    for filename, href, sha256 in links:
        url, _, fragment = urljoin(page, href).partition("#")
        # A page of the network names files of the network, never of this machine.
        at_home = urlsplit(url).scheme in ("http", "https") or urlsplit(page).scheme == urlsplit(url).scheme == "file"
        if filename.endswith(".whl") and at_home:
            in_url = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
            yield Wheel(filename=filename, url=url, sha256=sha256 or in_url)


def _from_json(text: str) -> Iterator[tuple[str, str, str | None]]:
    """The simple API as JSON (PEP 691)."""
    try:
        files = json.loads(text)["files"]
        for file in files:
            if not file.get("yanked"):
                sha256 = file.get("hashes", {}).get("sha256")
                yield str(file["filename"]), str(file["url"]), str(sha256) if sha256 else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def _from_html(text: str) -> Iterator[tuple[str, str, str | None]]:
    """The simple API as HTML (PEP 503)."""
    for attributes in _Links.of(text):
        href = attributes.get("href")
        if href and "data-yanked" not in attributes:
            yield unquote(urlsplit(href).path.rpartition("/")[2]), href, None


class _Links(HTMLParser):
    """The attributes of the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[dict[str, str | None]] = []

    @classmethod
    def of(cls, text: str) -> list[dict[str, str | None]]:
        parser = cls()
        parser.feed(text)
        return parser._found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self._found.append(dict(attrs))
