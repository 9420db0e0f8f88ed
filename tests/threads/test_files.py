"""Files in what is said: what the model is shown of each, and what is on record of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from retinue import Retinue
from retinue.core import events as e
from retinue.core.messages import File, Text
from retinue.errors import BadFile
from retinue.files.config import FilesConfig
from retinue.files.texts import fenced
from retinue.ports.models import Takes
from retinue.settings import Settings
from retinue.testing import SetClock
from tests.files.samples import LATIN_1, PNG, pdf, zipped
from tests.outside import data_of

from .talk import Heard, counts, ends, say

OVER = b"x" * 2048
SHOWN = Text(text=fenced("gruss.txt", "text/plain", "Grüße aus Köln, schöne Straße"))
PAGES = Text(text=fenced("report.pdf", "application/pdf", "[Page 1 of 1]\nthe figures"))


def note(name: str, media_type: str) -> Text:
    return Text(text=f'[File "{name}" ({media_type}) is attached and cannot be shown to you.]')


@pytest.mark.parametrize(
    ("data", "media_type", "name", "shown", "warning"),
    [
        (PNG, "image/png", "photo.png", None, None),
        (LATIN_1, "text/plain", "gruss.txt", SHOWN, None),
        (pdf("the figures"), "application/pdf", "report.pdf", PAGES, None),
        (zipped({"a": b"b"}), "application/zip", "a.zip", note("a.zip", "application/zip"), "the model takes no"),
        (OVER, "text/plain", "long.txt", note("long.txt", "text/plain"), "it has 2.0 KB, the limit is 1.5 KB"),
    ],
)
async def test_C8_a_file_is_shown_as_the_model_takes_it_or_it_is_said_why_not(
    clock: SetClock, ann: Heard, data: bytes, media_type: str, name: str, shown: Text | None, warning: str | None
) -> None:
    ann.takes = Takes(media=frozenset({"image/*"}))
    settings = Settings(files=FilesConfig(max_mb=1.5 / 1024))
    async with Retinue.open("sqlite://", clock=clock, models={"ann": ann}, settings=settings, grace=0) as app:
        file = await app.service.threads.upload(data, media_type, name)
        said = await say(app, [file, Text(text="What is it?")], "model:ann")
        assert (await ends(app, said)).status == "completed"
        assert ann.shown[-1].messages[-1].parts == (shown or file, Text(text="What is it?"))
        assert ann.shown[-1].files == ({} if shown else {file.uri: PNG})
        warned = await data_of(app.get(said.answers[0].run_id), e.Warned)
        assert [(one.code, one.message.partition(": ")[0]) for one in warned] == ([("file", name)] if warning else [])
        assert not warning or warning in warned[0].message


async def test_C8_a_file_that_is_gone_is_a_note_or_the_end_of_the_run(app: Retinue, ann: Heard, tmp_path: Path) -> None:
    file = await app.service.threads.upload(b"some text", "text/plain", "notes.txt")
    shutil.rmtree(tmp_path / "files")
    said = await say(app, [file], "model:ann")
    assert (await ends(app, said)).status == "completed"
    assert ann.shown[-1].messages[-1].parts == (note("notes.txt", "text/plain"),)
    (warned,) = await data_of(app.get(said.answers[0].run_id), e.Warned)
    assert warned.message == "notes.txt: it is not there any more"
    needed = await say(app, [File(uri=file.uri, media_type="text/plain", name="notes.txt", required=True)], "model:ann")
    outcome = await ends(app, needed)
    assert (outcome.status, outcome.reason, len(ann.shown)) == ("failed", "invalid", 1)
    assert outcome.error
    assert outcome.error.message == "notes.txt cannot be used: it is not there any more"


async def test_C8_somebody_elses_file_looks_like_none_and_nothing_is_stored(app: Retinue) -> None:
    file = await app.service.threads.upload(b"a secret", "text/plain", "diary.txt", owner="ann")
    before = await counts(app)
    with pytest.raises(BadFile, match=r"diary\.txt cannot be used: there is no such file"):
        await say(app, [file], owner="bob")
    with pytest.raises(BadFile, match="there is no such file"):
        await say(app, [File(uri=f"file:sha256/{'0' * 64}", media_type="text/plain", name="none.txt")], owner="bob")
    assert await counts(app) == before


@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "s3://bucket/x", "https://example.org/x", "ftp://host/x", "x.txt"]
)
async def test_C15_a_file_outside_the_roots_is_refused_and_nothing_is_stored(app: Retinue, uri: str) -> None:
    with pytest.raises(BadFile, match=r"outside the roots .* `roots` under \[files\]|no kind that can be read"):
        await say(app, [File(uri=uri, media_type="text/plain"), Text(text="What is it?")])
    assert await counts(app) == {}


async def test_C15_a_file_inside_the_roots_is_read_where_it_is(clock: SetClock, ann: Heard, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some notes")
    settings = Settings(files=FilesConfig(roots=(str(tmp_path),)))
    async with Retinue.open("sqlite://", clock=clock, models={"ann": ann}, settings=settings, grace=0) as app:
        said = await say(app, [File(uri=(tmp_path / "notes.txt").as_uri(), media_type="text/plain")], "model:ann")
        assert (await ends(app, said)).status == "completed"
        assert ann.shown[-1].messages[-1].parts == (Text(text=fenced("notes.txt", "text/plain", "some notes")),)
