"""Bodies with files: on disk part by part, within limits, and gone afterwards whatever happens."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from litestar.testing import TestClient

from service.api.uploads import (
    UPLOADS_AT_ONCE,
    UPLOADS_OF_CALLER,
    FormWriter,
    UploadSlots,
    clean_name,
    most_bytes,
)
from service.app import create_app
from service.db.engine import Database
from service.errors import (
    MalformedError,
    OverLimitError,
    TooLargeError,
    TrainardError,
    UnavailableError,
)
from service.settings import Limits, Settings
from tests.api.conftest import BASE_URL

PATH = "/v1/calibrations"
LIMITS = Limits(calibration_bytes=100_000, calibration_files=3)
BOUNDARY = "--------7d3f0c9b"


def part(content: bytes, name: str = "file", filename: str | None = "a.csv") -> bytes:
    said = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename else "")
    head = f"--{BOUNDARY}\r\nContent-Disposition: {said}\r\n\r\n"
    return head.encode() + content + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


def written(folder: Path, body: bytes, piece: int = 1 << 20) -> list[Any]:
    writer = FormWriter(folder, BOUNDARY, LIMITS)
    try:
        for start in range(0, len(body), piece):
            writer.feed(body[start : start + piece])
        return writer.finished()
    finally:
        writer.close()


@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 20])
def test_files_lie_on_disk_as_they_were_sent(tmp_path: Path, piece: int) -> None:
    """Whatever way the body is cut, and although a file looks like the end of another."""
    contents = [b"", b"\r\n--" + BOUNDARY[:-1].encode() + b"\r\n" * 40, os.urandom(3_000)]
    body = b"".join(part(content, filename=f"{n}.bin") for n, content in enumerate(contents))
    found = written(tmp_path, b"preamble\r\n" + body + END + b"epilogue", piece)
    assert [file.name for file in found] == ["0.bin", "1.bin", "2.bin"]
    for file, content in zip(found, contents, strict=True):
        assert Path(file.path).read_bytes() == content
        assert (file.num_bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert stat.S_IMODE(Path(file.path).stat().st_mode) == 0o600


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    names = ["x/trace.json", "y\\trace.json", "trace.json"]
    body = b"".join(part(b"1", filename=name.replace("\\", "\\\\")) for name in names)
    found = written(tmp_path, body + END)
    assert [file.name for file in found] == ["trace.json", "trace.json (2)", "trace.json (3)"]


@pytest.mark.parametrize(
    ("filename", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\runs\\r.csv", "r.csv"),
        ("a\nb\x00c.csv", "a\ufffdb\ufffdc.csv"),
        ("dir/", "file"),
        ("n" * 500, "n" * 200),
        ("été.csv", "été.csv"),
    ],
)
def test_a_name_is_the_last_part_of_a_path_that_can_be_shown(filename: str, shown: str) -> None:
    assert clean_name(filename) == shown


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        (b"", MalformedError, "cut off: after 0 bytes it ends before its first file"),
        (part(b"1,2")[:-2], MalformedError, 'it ends in the file "a.csv"'),
        (part(b"1,2"), MalformedError, "its last boundary is missing"),
        (END, MalformedError, "the body has no file: send parts named file"),
        (part(b"1", name="profile"), MalformedError, 'part 1 of the body is named "profile"'),
        (part(b"1") + part(b"1", filename=None), MalformedError, "part 2 of the body has no file"),
        (part(b"1") * 4, TooLargeError, "more than 3 files"),
        (part(b"1" * 140_000), TooLargeError, "but the limit of all files is 100000 bytes"),
        (f"--{BOUNDARY}\rx\r\n".encode(), MalformedError, "the body is no multipart/form-data: "),
        (
            f"--{BOUNDARY}\r\nX: {'a' * 9_000}\r\n\r\n".encode(),
            MalformedError,
            "the body is no multipart/form-data: maximum segment header length",
        ),
        # Latin-1, and half a surrogate pair
        *(
            (
                part(b"1,2", filename="été.csv").replace("é".encode(), in_other),
                MalformedError,
                "a filename, or another part of the header of a file, is no UTF-8",
            )
            for in_other in (b"\xe9", b"\xed\xa0\x80")
        ),
    ],
)
def test_what_is_no_form_of_files_is_refused(
    tmp_path: Path, body: bytes, error: type[TrainardError], said: str
) -> None:
    with pytest.raises(error) as caught:
        written(tmp_path, body)
    assert said in caught.value.detail
    assert "Error(" not in caught.value.detail


def test_a_full_disk_is_said_with_what_had_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/dev/full takes no byte, as a full disk does."""
    opened = os.open
    monkeypatch.setattr("service.api.uploads.os.open", lambda *_: opened("/dev/full", os.O_WRONLY))
    with pytest.raises(UnavailableError) as caught:
        written(tmp_path, part(b"1") + END)
    assert "the disk for uploads is full" in caught.value.detail


def test_a_caller_has_few_uploads_and_all_have_some() -> None:
    slots = UploadSlots()
    held = [slots.taken(f"caller {n // UPLOADS_OF_CALLER}") for n in range(UPLOADS_AT_ONCE)]
    for slot in held:
        slot.__enter__()
    with pytest.raises(OverLimitError), slots.taken("caller 0"):
        pass
    with pytest.raises(UnavailableError), slots.taken("another"):
        pass
    for slot in held:
        slot.__exit__(None, None, None)
    with slots.taken("another"):
        pass
    assert vars(slots) == {"_of_caller": {}}


@pytest.fixture(scope="module")
def spooling(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Path]]:
    """A service that takes little, and the folder where uploads lie."""
    folder = tmp_path_factory.mktemp("uploads")
    path, spool = folder / "trainard.db", folder / "spool"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    settings = Settings(limits=LIMITS, spool_folder=str(spool))
    with TestClient(create_app(settings, database), base_url=BASE_URL) as client:
        yield client, spool
    assert list(spool.iterdir()) == []
    database.close()
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("headers", "body", "slug"),
    [
        ({}, b"", "unsupported-media-type"),
        ({"Content-Type": "text/csv"}, b"1", "unsupported-media-type"),
        (
            {
                "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
                "Content-Encoding": "gzip",
            },
            b"",
            "unsupported-media-type",
        ),
        ({"Content-Type": "multipart/form-data"}, b"1", "malformed-request"),
        ({"Content-Type": 'multipart/form-data; boundary=""'}, b"1", "malformed-request"),
        (
            {"Content-Type": f"multipart/form-data; boundary={'a' * 71}"},
            b"1",
            "malformed-request",
        ),
        (
            {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
            part(b"1"),
            "malformed-request",
        ),
        (
            {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"},
            part(b"1" * most_bytes(LIMITS)) + END,
            "too-large",
        ),
    ],
)
def test_requests_that_bring_no_files_are_refused(
    spooling: tuple[Any, Path],
    problem_of: Callable[[httpx.Response, str], Any],
    headers: dict[str, str],
    body: bytes,
    slug: str,
) -> None:
    client, spool = spooling
    problem_of(client.post(PATH, headers=headers, content=body), slug)
    assert not list(spool.glob("trainard-spool-*/*/*"))


def test_more_than_is_announced_is_counted(
    spooling: tuple[Any, Path], problem_of: Callable[[httpx.Response, str], Any]
) -> None:
    """A body without a length: what counts is what comes."""
    client, _ = spooling

    def pieces() -> Iterator[bytes]:
        yield part(b"1" * 90_000)[:-2]
        yield b"1" * 90_000
        yield b"\r\n" + END

    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    found = problem_of(client.post(PATH, headers=headers, content=pieces()), "too-large")
    assert "100000 bytes" in found["detail"]
