"""Files of a real service on this machine: whole, resumed, checked, refused."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import rich_click as click

from service.cli import export_download
from service.cli.child_service import running_service
from service.cli.export_download import fetch
from service.cli.export_progress import progress_bar
from tests.cli.conftest import Program
from tests.jobs.batch_bodies import SEED, SIZES, item
from tests.reports.export_readers import READERS

FAST = {**SEED, "slow_groups": []}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One service for all tests of this file."""
    folder = tmp_path_factory.mktemp("service")
    url = f"sqlite:///{folder / 'trainard.db'}"
    with running_service(url, port=0, log=folder / "service.log") as found:
        yield found


def batch_of(address: str, **changes: Any) -> str:
    body = {"name": "b", "items": [item(axes=[SIZES], **changes)]}
    headers = {"Prefer": "wait=30"}
    answer = httpx.post(f"{address}/v1/scenario-batches", json=body, headers=headers, timeout=60)
    found: dict[str, Any] = answer.json()
    assert found["state"] == "succeeded", answer.text
    return str(found["id"])


@pytest.fixture(scope="module")
def batch_id(address: str) -> str:
    return batch_of(address)


def rows_in(path: Path) -> list[dict[str, Any]]:
    name = {"arrows": "arrow"}.get(path.suffix[1:], path.suffix[1:])
    return READERS[name](path.read_bytes())


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrows"])
def test_a_file_is_saved_and_checked(
    trainard: Program, address: str, batch_id: str, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"results.{ending}"
    done = trainard("export", batch_id, "--output", str(path), "--url", address)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    size = f"{path.stat().st_size:,}".replace(",", " ")
    assert done.stdout == f"{path}: 15 rows, {size} bytes, SHA-256 {digest}\n"
    assert [int(row["num_gpus"]) for row in rows_in(path)] == [2**n for n in range(3, 18)]
    told = json.loads(Path(f"{path}.sidecar.json").read_text())
    assert (told["sha256"], told["rows"]) == (digest, 15)
    assert told["batches"][0]["id"] == batch_id
    assert sorted(found.name for found in tmp_path.iterdir()) == [
        path.name,
        f"{path.name}.sidecar.json",
    ]


def test_filters_order_and_comparison_are_passed_on(
    trainard: Program, address: str, batch_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.csv"
    filters = ("--where", "num_gpus:ge:64", "--where", "num_gpus:le:128", "--name", "one-slow")
    query = ("--order-by", "-num_gpus", "--format", "csv", "--url", address)
    done = trainard("export", batch_id, *filters, *query, "--output", str(path))
    assert done.returncode == 0, done.stderr
    assert [int(row["num_gpus"]) for row in rows_in(path)] == [128, 64]
    other = batch_of(address, scenario=FAST)
    compared = tmp_path / "compared.jsonl"
    order = ("--order-by", "-past.gpu_hours_lost")
    done = trainard(
        "export", batch_id, "--compare", other, *order, "--output", str(compared), "--url", address
    )
    assert done.returncode == 0, done.stderr
    rows = rows_in(compared)
    assert [row["num_gpus"] for row in rows] == [2**n for n in range(3, 18)][::-1]
    assert all(row["new.gpu_hours_lost"] == 0 for row in rows)


def test_a_file_is_not_replaced_unless_asked_for(
    trainard: Program, address: str, batch_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.csv"
    path.write_text("precious")
    arguments = ("export", batch_id, "--output", str(path), "--url", address)
    done = trainard(*arguments)
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert path.read_text() == "precious"
    assert trainard(*arguments, "--force").returncode == 0
    assert len(rows_in(path)) == 15


def test_what_is_refused_is_said(
    trainard: Program, address: str, batch_id: str, tmp_path: Path
) -> None:
    out = ("--output", str(tmp_path / "x.csv"), "--url", address)
    faulty = trainard("export", "--where", "colour:eq:1", *out)
    assert faulty.returncode == 2
    assert "unknown column 'colour'" in faulty.stderr
    unknown = trainard("export", "00000000-0000-7000-8000-000000000001", *out)
    assert unknown.returncode == 1
    assert "there is no batch 00000000-0000-7000-8000-000000000001" in unknown.stderr
    mixed = trainard("export", batch_id, "--compare", batch_id, "--name", "x", *out)
    assert mixed.returncode == 2
    assert "takes no filters" in mixed.stderr
    nowhere = ("--output", str(tmp_path / "x.csv"), "--url", "http://127.0.0.1:9")
    nobody = trainard("export", *nowhere)
    assert nobody.returncode == 1
    assert "no service answers at http://127.0.0.1:9" in nobody.stderr
    assert not (tmp_path / "x.csv").exists()


class Breaking(httpx.BaseTransport):
    """The real service behind a line that breaks after so many bytes of each answer with a file."""

    def __init__(self, address: str, after: int | None) -> None:
        self.address = address
        self.after = after
        self.ranges: list[str] = []
        self.posts = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.posts += request.method == "POST"
        headers = dict(request.headers)
        headers.pop("host")
        found = httpx.request(
            request.method,
            self.address + request.url.raw_path.decode(),
            headers=headers,
            content=request.read(),
        )
        if not request.url.path.endswith("/content"):
            return httpx.Response(found.status_code, headers=found.headers, content=found.content)
        self.ranges.append(request.headers["range"])
        return httpx.Response(found.status_code, headers=found.headers, stream=self._cut(found))

    def _cut(self, found: httpx.Response) -> Any:
        after = self.after

        class Cut(httpx.SyncByteStream):
            def __iter__(self) -> Iterator[bytes]:
                yield found.content[:after]
                if after is not None and after < len(found.content):
                    raise httpx.ReadError("the line broke")

        return Cut()


def client_over(transport: Breaking) -> httpx.Client:
    return httpx.Client(transport=transport, base_url=transport.address)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_download, "RECONNECT_S", 0.0)
    monkeypatch.setattr(export_download, "ASK_EVERY_S", 0.02)


def saved(client: httpx.Client, batch_id: str, path: Path) -> Any:
    with progress_bar() as on_progress:
        return fetch(client, {"format": "csv", "batch": batch_id}, path, on_progress)


def test_a_line_that_breaks_is_taken_up_where_it_broke(
    address: str, batch_id: str, tmp_path: Path
) -> None:
    transport = Breaking(address, after=1000)
    with client_over(transport) as client:
        export = saved(client, batch_id, tmp_path / "a.csv")
    data = (tmp_path / "a.csv").read_bytes()
    assert len(data) == export["bytes"] > 3000
    assert hashlib.sha256(data).hexdigest() == export["sha256"]
    assert transport.ranges == [f"bytes={begin}-" for begin in range(0, len(data), 1000)]
    assert transport.posts == 1


def test_the_next_call_goes_on_with_the_same_file(
    address: str, batch_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    broken = Breaking(address, after=0)
    with client_over(broken) as client, pytest.raises(click.ClickException, match="to go on"):
        saved(client, batch_id, path)
    remembered = json.loads(Path(f"{path}.part.json").read_text())
    whole = httpx.get(f"{address}/v1/exports/{remembered['export_id']}/content").content
    Path(f"{path}.part").write_bytes(whole[:1234])
    transport = Breaking(address, after=None)
    with client_over(transport) as client:
        saved(client, batch_id, path)
    assert (transport.posts, transport.ranges) == (0, ["bytes=1234-"])
    assert path.read_bytes() == whole
    assert not Path(f"{path}.part.json").exists()


def test_a_part_of_something_else_is_not_gone_on_with(
    address: str, batch_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    part, memory = Path(f"{path}.part"), Path(f"{path}.part.json")
    gone = "00000000-0000-7000-8000-000000000001"
    ours = {"address": f"{address}/", "body": {"format": "csv", "batch": batch_id}, "key": "k"}
    for text in (
        "no json",
        json.dumps({**ours, "body": {"format": "csv"}}),
        json.dumps({**ours, "export_id": gone}),
    ):
        part.write_bytes(b"something else")
        memory.write_text(text)
        transport = Breaking(address, after=None)
        with client_over(transport) as client:
            saved(client, batch_id, path)
        assert (transport.posts, transport.ranges) == (1, ["bytes=0-"])
        assert len(rows_in(path)) == 15


def test_bytes_that_were_changed_are_noticed(address: str, batch_id: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with (
        client_over(Breaking(address, after=0)) as client,
        contextlib.suppress(click.ClickException),
    ):
        saved(client, batch_id, path)
    Path(f"{path}.part").write_bytes(b"x" * 100)
    transport = Breaking(address, after=None)
    with client_over(transport) as client:
        with pytest.raises(click.ClickException, match="what was received is deleted"):
            saved(client, batch_id, path)
        assert list(tmp_path.iterdir()) == []
        saved(client, batch_id, path)
    assert len(rows_in(path)) == 15


def test_a_part_that_is_too_long_begins_again(address: str, batch_id: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with (
        client_over(Breaking(address, after=0)) as client,
        contextlib.suppress(click.ClickException),
    ):
        saved(client, batch_id, path)
    Path(f"{path}.part").write_bytes(b"x" * 1_000_000)
    transport = Breaking(address, after=None)
    with client_over(transport) as client:
        saved(client, batch_id, path)
    assert transport.ranges == ["bytes=0-"]
    assert len(rows_in(path)) == 15


def test_a_file_with_costs_is_not_waited_for_by_a_key_that_lost_them(tmp_path: Path) -> None:
    made = {"id": "e", "state": "queued", "rows": 0, "content_url": None}
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        if request.method == "POST":
            return httpx.Response(202, json=made)
        return httpx.Response(200, json={**made, "state": "succeeded", "rows": None})

    path = tmp_path / "results.csv"
    with httpx.Client(base_url="http://test", transport=httpx.MockTransport(answer)) as client:
        for _ in range(2):
            with pytest.raises(click.ClickException, match="needs the scope costs:read"):
                fetch(client, {"format": "csv"}, path, lambda *_: None)
    # The second call asks for a file of its own.
    assert asked == ["POST", "GET"] * 2
    assert not path.exists()
