"""Files beneath one folder, and nowhere else."""

import hashlib
import os
import threading
from pathlib import Path

import pytest

from service.jobs.drops import DropError, DroppedFile, remove, write

FILES = [("a.html", b"<p>"), ("a.sidecar.json", b"{}")]


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_are_written_whole_and_again_under_the_same_names(tmp_path: Path) -> None:
    first = write(str(tmp_path), "finance/nightly", FILES, team="alpha")
    assert first == [
        DroppedFile(name="a.html", bytes=3, sha256=hashlib.sha256(b"<p>").hexdigest()),
        DroppedFile(name="a.sidecar.json", bytes=2, sha256=hashlib.sha256(b"{}").hexdigest()),
    ]
    folder = "alpha/finance/nightly"
    assert names(tmp_path) == [f"{folder}/a.html", f"{folder}/a.sidecar.json"]
    inode = (tmp_path / folder / "a.html").stat().st_ino
    assert write(str(tmp_path), "finance/nightly", FILES, team="alpha") == first
    # Renamed over the old one: who reads the old one goes on reading it.
    assert (tmp_path / folder / "a.html").stat().st_ino != inode
    assert len(names(tmp_path)) == 2
    assert (tmp_path / folder / "a.html").stat().st_mode & 0o777 == 0o640 & ~_umask()


def _umask() -> int:
    old = os.umask(0)
    os.umask(old)
    return old


@pytest.mark.parametrize(
    "folder",
    [
        *("..", "a/../..", "/etc", "a//b", "", ".", "a/./b", ".hidden", "a/", "-x", "a b", "a\0b"),
        *("ä", "/".join("abcdefghi"), "x" * 101, "a\\b", "~"),
    ],
)
def test_no_folder_leads_out(folder: str, tmp_path: Path) -> None:
    with pytest.raises(DropError, match="is refused"):
        write(str(tmp_path), folder, FILES, team="alpha")
    with pytest.raises(DropError, match="is refused"):
        remove(str(tmp_path), folder, [], team="alpha")
    assert names(tmp_path) == []


def test_no_link_is_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.html").write_bytes(b"theirs")
    own = root / "alpha"
    own.mkdir()
    (own / "link").symlink_to(outside)
    (own / "inner").mkdir()
    (own / "inner" / "link").symlink_to(outside, target_is_directory=True)
    for folder in ("link", "inner/link", "link/deeper"):
        with pytest.raises(DropError, match="symbolic link"):
            write(str(root), folder, FILES, team="alpha")
    # Nor where a team's folder would be
    (root / "beta").symlink_to(outside)
    with pytest.raises(DropError, match="symbolic link"):
        write(str(root), "x", FILES, team="beta")
    assert names(outside) == ["a.html"]
    # A file of the same name that is a link is replaced, not written through.
    (own / "inner" / "a.html").symlink_to(outside / "a.html")
    write(str(root), "inner", FILES, team="alpha")
    assert (outside / "a.html").read_bytes() == b"theirs"
    assert not (own / "inner" / "a.html").is_symlink()


def test_the_operators_own_folder_may_be_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    write(str(tmp_path / "link"), "x", FILES, team="alpha")
    assert names(real) == ["alpha/x/a.html", "alpha/x/a.sidecar.json"]


def test_a_folder_that_is_a_file_or_away_is_said(tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "file").write_bytes(b"")
    with pytest.raises(DropError, match="no folder"):
        write(str(tmp_path), "file", FILES, team="alpha")
    with pytest.raises(DropError, match="is not there"):
        write(str(tmp_path / "away"), "x", FILES, team="alpha")
    gone = [DroppedFile(name="a", bytes=0, sha256="")]
    assert remove(str(tmp_path), "never", gone, team="alpha") == 0
    # A disk that is not mounted comes back with the files.
    with pytest.raises(DropError, match="away is not there"):
        remove(str(tmp_path / "away"), "never", gone, team="alpha")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(str(tmp_path), "x", FILES, team="alpha")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DropError, match="No space left on device"):
        write(str(tmp_path), "x", [("a.html", b"newer")], team="alpha")
    assert (tmp_path / "alpha" / "x" / "a.html").read_bytes() == b"<p>"
    assert len(list((tmp_path / "alpha" / "x").iterdir())) == 2


def test_where_the_disk_is_full_no_file_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = os.fsync
    num = 0

    def full(descriptor: int) -> None:
        nonlocal num
        # Of the two folders on the way, of the first file, of the second one
        num += 1
        if num == 4:
            raise OSError(28, "No space left on device")
        brought(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DropError, match="No space left on device"):
        write(str(tmp_path), "x", FILES, team="alpha")
    assert names(tmp_path) == []
    write(str(tmp_path), "x", FILES, team="alpha")
    assert names(tmp_path) == ["alpha/x/a.html", "alpha/x/a.sidecar.json"]


def test_a_repetition_clears_up_after_one_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "alpha" / "x"
    folder.mkdir(parents=True)
    others = [".b.html.0123456789ab.tmp", ".a.html.tmp", "a.html.0123456789ab.tmp", ".a.html.0.tmp"]
    for name in (".a.html.0123456789ab.tmp", ".a.sidecar.json.fedcba987654.tmp", *others):
        (folder / name).write_bytes(b"half")
    write(str(tmp_path), "x", FILES, team="alpha")
    assert names(folder) == sorted([*others, "a.html", "a.sidecar.json"])


def test_readers_see_one_whole_file_or_the_other(tmp_path: Path) -> None:
    contents = [bytes([number]) * 200_000 for number in range(8)]
    write(str(tmp_path), "x", [("a", contents[0])], team="alpha")
    stop = threading.Event()
    seen: list[int] = []

    def look() -> None:
        while not stop.is_set():
            found = (tmp_path / "alpha" / "x" / "a").read_bytes()
            seen.append(len(set(found)) if len(found) == 200_000 else 0)

    reader = threading.Thread(target=look)
    reader.start()
    for content in contents:
        write(str(tmp_path), "x", [("a", content)], team="alpha")
    stop.set()
    reader.join()
    assert set(seen) == {1}


def test_only_files_that_are_still_ours_are_removed(tmp_path: Path) -> None:
    files = [*FILES, ("b", b"1"), ("c", b"2"), ("d", b"3")]
    written = write(str(tmp_path), "x", files, team="alpha")
    folder = tmp_path / "alpha" / "x"
    (folder / "a.html").write_bytes(b"somebody has edited it")
    (folder / "b").unlink()
    (folder / "c").unlink()
    (folder / "c").mkdir()
    (folder / "d").rename(folder / "e")
    (folder / "d").symlink_to(folder / "e")
    (folder / "theirs").write_bytes(b"theirs")
    assert remove(str(tmp_path), "x", written, team="alpha") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["a.html", "c", "d", "e", "theirs"]
    assert remove(str(tmp_path), "x", written, team="alpha") == 0


def test_teams_write_apart_from_each_other(tmp_path: Path) -> None:
    for team, content in (("alpha", b"ours"), ("beta", b"theirs")):
        write(str(tmp_path), "finance", [("a", content)], team=team)
    assert (tmp_path / "alpha/finance/a").read_bytes() == b"ours"
    assert (tmp_path / "beta/finance/a").read_bytes() == b"theirs"
    for team in ("..", "a/b", "", "."):
        with pytest.raises(DropError, match="is refused"):
            write(str(tmp_path), "finance", FILES, team=team)
