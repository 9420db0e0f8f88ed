"""Files in buckets (C15): on a real S3 server, and on what speaks like Google's and Azure's."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import boto3
import pytest
from moto import settings
from moto.server import ThreadedMotoServer

from retinue.core.messages import File
from retinue.errors import BadSettings, ExtraMissing, FileMissing, FilesUnavailable
from retinue.files.attach import RunAttachments
from retinue.files.config import FilesConfig, Options
from retinue.files.content import key_of, uri_of
from retinue.files.local import LocalFiles
from retinue.files.remote import Bucket, RemoteFiles
from retinue.files.stores import open_files
from retinue.files.texts import fenced
from retinue.ports.files import Files
from retinue.ports.models import Takes
from tests.files.clouds import KEY, TOKEN, Azure, Cloud, Google, cloud_server

SECRET = "a-secret-key-of-the-tests"
DEAD = "http://127.0.0.1:9"
NAMELESS = f"http://{'x' * 64}.invalid"  # too long a name to be asked for


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A real S3 server, with a bucket `files`."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    keys = {"aws_access_key_id": "tests", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=url, **keys).create_bucket(Bucket="files")
    yield url
    server.stop()


@dataclass
class Place:
    """Where a bucket is and what a client must know."""

    scheme: str
    options: Options
    cloud: Cloud | None = None

    def bucket(self, name: str = "files", prefix: str = "some/where", **options: str) -> Bucket:
        return Bucket(f"{self.scheme}://{name}/{prefix}", {**self.options, **options})


@pytest.fixture(params=["s3", "gs", "az"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    if request.param == "s3":
        url = request.getfixturevalue("s3")
        keys: Options = {"access_key_id": "tests", "secret_access_key": SECRET, "region": "us-east-1", "endpoint": url}
        yield Place("s3", keys)
    else:
        cloud = Google() if request.param == "gs" else Azure()
        async with cloud_server(cloud):
            yield Place(request.param, cloud.options(), cloud)


@pytest.fixture
def files(place: Place) -> Files:
    return open_files(f"{place.scheme}://files/some/where", place.options)


async def test_C15_what_was_put_can_be_got_under_the_same_name_as_from_a_folder(files: Files, tmp_path: str) -> None:
    uri = await files.put(b"some bytes")
    assert await files.get(uri) == b"some bytes"
    assert uri == uri_of(b"some bytes")
    assert await files.put(b"some bytes") == uri != await files.put(b"others")
    assert await files.get(await files.put(b"")) == b""


async def test_the_same_bytes_can_be_put_by_many_at_once(files: Files) -> None:
    data = b"x" * 6_000_000  # more than one part of a multipart upload
    (uri,) = set(await asyncio.gather(*(files.put(data) for _ in range(8))))
    assert await files.get(uri) == data


async def test_what_is_there_is_not_written_again(place: Place) -> None:
    bucket = place.bucket()
    uri = await RemoteFiles(bucket).put(b"once and no more")
    await bucket.put(key_of(uri), b"written by somebody else")
    assert await RemoteFiles(bucket).put(b"once and no more") == uri
    assert await bucket.read(key_of(uri)) == b"written by somebody else"


async def test_what_is_new_costs_one_request(place: Place) -> None:
    if place.cloud:
        uri = await RemoteFiles(place.bucket()).put(b"new")
        assert place.cloud.asked == [f"PUT some/where/{key_of(uri)}"]


async def test_C15_two_prefixes_of_a_bucket_do_not_know_each_other(place: Place) -> None:
    uri = await RemoteFiles(place.bucket(prefix="one")).put(b"in one")
    with pytest.raises(FileMissing):
        await RemoteFiles(place.bucket(prefix="two")).get(uri)
    assert await place.bucket(prefix="").read(f"one/{key_of(uri)}") == b"in one"


@pytest.mark.parametrize("uri", ["file:sha256/" + "0" * 64, "file:sha256/../../etc/passwd", "http://x", ""])
async def test_a_file_that_is_not_there_is_a_typed_error(files: Files, uri: str) -> None:
    with pytest.raises(FileMissing, match="--fresh"):
        await files.get(uri)
    if uri.endswith("0"):
        await files.delete(uri)


async def test_what_is_wanted_no_more_is_deleted(place: Place) -> None:
    files = RemoteFiles(place.bucket(), still_wanted=0)
    uri = await files.put(b"wanted no more")
    await files.delete(uri)
    with pytest.raises(FileMissing):
        await files.get(uri)
    assert await files.put(b"wanted no more") == uri
    assert await files.get(uri) == b"wanted no more"


async def test_what_was_put_a_moment_ago_is_not_deleted(files: Files) -> None:
    uri = await files.put(b"wanted again")
    await files.delete(uri)
    assert await files.get(uri) == b"wanted again"


@dataclass
class Interrupted(Bucket):
    """A bucket where something happens between the look and the deletion, or right after it."""

    inner: Bucket
    before: list[bytes] = field(default_factory=list)
    after: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.__dict__.update(self.inner.__dict__)

    async def delete(self, key: str) -> None:
        for data in self.before:
            await self._want(data)
        self.before = []
        await super().delete(key)
        for data in self.after:
            await self._want(data)
        self.after = []

    async def _want(self, data: bytes) -> None:
        await RemoteFiles(self.inner, still_wanted=0).put(data)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_is_put_while_it_is_deleted_stays(place: Place, when: str) -> None:
    """To both sides the file is old; the deleter holds a mark of this minute for young."""
    data = f"wanted {when}".encode()
    await RemoteFiles(place.bucket()).put(data)
    bucket = Interrupted(place.bucket(), **{when: [data]})
    await _OldFiles(bucket).delete(uri_of(data))
    assert await RemoteFiles(place.bucket()).get(uri_of(data)) == data


class _OldFiles(RemoteFiles):
    """Holds all files to be old, and all marks to be young."""

    async def _is_wanted(self, key: str) -> bool:
        return key.endswith(".wanted") and await self._bucket.age(key) is not None


async def refused(files: RemoteFiles) -> set[str]:
    """What is said of a put, a get and a deletion. No secret is in it."""
    said = set()
    for work in (files.put(b"data"), files.get(uri_of(b"data")), files.delete(uri_of(b"data"))):
        with pytest.raises(FilesUnavailable) as caught:
            await work
        said.add(caught.value.problem)
        assert not any(secret in str(caught.value) for secret in (SECRET, KEY, TOKEN))
    return said


async def test_a_bucket_that_is_not_there_is_said(place: Place) -> None:
    assert await refused(RemoteFiles(place.bucket("nothing"))) == {"there is no such bucket"}


async def test_a_server_that_cannot_be_reached_is_said(place: Place) -> None:
    endpoint = "base_url" if place.scheme == "gs" else "endpoint"
    for url, problem in (
        (DEAD, "its server cannot be reached"),
        (NAMELESS, "its server has no address"),
    ):
        assert await refused(RemoteFiles(place.bucket(**{endpoint: url}))) == {problem}


@pytest.mark.parametrize("cloud", [Google(), Azure()])
async def test_a_server_that_fails_is_said(cloud: Cloud) -> None:
    async with cloud_server(cloud):
        cloud.failing = 500
        scheme = "gs" if isinstance(cloud, Google) else "az"
        said = await refused(RemoteFiles(Bucket(f"{scheme}://files", cloud.options())))
    assert said == {"its server answered 500", "its server answered InternalError"}


async def test_wrong_credentials_are_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    if place.scheme == "s3":
        monkeypatch.setattr(settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
    wrong = {"gs": {"bearer_token": "wrong"}, "az": {"account_key": "d3Jvbmc="}, "s3": {"access_key_id": "wrong"}}
    said = await refused(RemoteFiles(place.bucket(**wrong[place.scheme])))
    assert all(problem.startswith("access is denied (") for problem in said)


async def test_missing_credentials_are_said(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    bucket = Bucket("s3://files", {"endpoint": s3, "region": "us-east-1", "metadata_endpoint": DEAD})
    (problem,) = await refused(RemoteFiles(bucket))
    assert problem == "there are no credentials: set them in the environment, or under [files.s3]"


@pytest.mark.parametrize(
    ("url", "options", "problem"),
    [
        ("s3://files", {"endpint": "x"}, "[files.s3]: endpint is no setting of such a bucket"),
        ("gs://files", {"service_account_key": '{"private_key": "SECRET"}'}, "[files.gs]: Generic GCS error"),
        ("az://files", {"account_name": "a", "account_key": "SECRET!"}, "[files.az]: Generic MicrosoftAzure error"),
        ("az://files", {}, "Account must be specified"),
        ("s3://", {}, "it is no bucket"),
        ("ftp://files", {}, "it is no bucket"),
    ],
)
def test_wrong_settings_are_said_when_they_are_read(url: str, options: Options, problem: str) -> None:
    with pytest.raises(BadSettings) as caught:
        open_files(url, options)
    assert problem in str(caught.value)
    assert "SECRET" not in str(caught.value)


async def test_C15_a_file_uri_in_a_bucket_is_read_inside_the_roots_only(place: Place) -> None:
    await place.bucket("files", "open").put("a b.txt", b"inside")
    await place.bucket("files", "open").put("large.txt", b"x" * 3000)
    await place.bucket("files", "closed").put("a.txt", b"outside")
    config = FilesConfig(roots=(f"{place.scheme}://files/open",), max_mb=0.002, **{place.scheme: place.options})  # type: ignore[arg-type]
    attachments = RunAttachments(open_files("memory"), config)

    async def opened(key: str) -> tuple[str, str]:
        uri = f"{place.scheme}://files/{key}"
        shown = await attachments.open(File(uri=uri, media_type="text/plain"), Takes())
        return str(getattr(shown.parts[0], "text", "")), shown.problem

    assert await opened("open/a b.txt") == (fenced("a b.txt", "text/plain", "inside"), "")
    for key, problem in {
        "open/large.txt": "large.txt: it has 2.9 KB, the limit is 2.0 KB",
        "open/none.txt": "none.txt: it is not there",
        "open/a//b.txt": "b.txt: no bucket has a file of that name",
        "closed/a.txt": "a.txt: it lies outside the roots",
        "open/../closed/a.txt": "a.txt: it lies outside the roots",
    }.items():
        assert (await opened(key))[1].startswith(problem)


def test_C15_a_store_is_opened_by_what_the_settings_say(tmp_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_files(str(tmp_path)), LocalFiles)
    assert isinstance(open_files("s3://bucket/prefix", {"region": "us-east-1"}), RemoteFiles)
    with pytest.raises(BadSettings, match="names no folder"):
        open_files("")
    monkeypatch.setitem(sys.modules, "obstore", None)
    for name in [name for name in sys.modules if name.startswith(("obstore.", "retinue.files.remote"))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ExtraMissing, match=r"retinue\[files\]"):
        open_files("s3://bucket/prefix")
