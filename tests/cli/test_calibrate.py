"""`trainard calibrate`: read on this machine, or sent to a service and accepted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from service.calibration.findings import (
    Experiment,
    HiddenShare,
    OverlapAudit,
    Proposal,
    SpikesFound,
)
from service.cli.calibration_formats import findings_text
from service.cli.calibration_sending import stored
from service.db.engine import Database
from tests.api.calibration_tables import SLOW_RANK, findings, table
from tests.api.served import served
from tests.calibration.reading.kineto_traces import all_reduce, gemm, step, whole
from tests.cli.conftest import Program


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "timings.csv"
    made.write_bytes(table())
    return made


@pytest.fixture
def address(sqlite_database: Database, tmp_path: Path) -> Iterator[str]:
    with served(sqlite_database, spool_folder=str(tmp_path / "spool")) as (found, _):
        yield found


def test_files_are_read_where_they_are(trainard: Program, file: Path) -> None:
    done = trainard("calibrate", str(file), "--confidence", "0.8", "--format", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["confidence"] == 0.8
    assert [one["rank"] for one in told["outliers"]] == [SLOW_RANK]
    assert told["source"]["files"][0]["name"] == str(file)


def test_few_steps_of_traces_tell_the_overlap_alone(trainard: Program, tmp_path: Path) -> None:
    """A third of 300 us of transfer lies beside compute, on both ranks and in all four steps."""
    paths = []
    for rank in (0, 1):
        events = []
        for number in range(4):
            start = 1_000 * number
            events += [step(number, start, 1_000), gemm(start, 600), all_reduce(start + 500, 300)]
        paths.append(tmp_path / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(whole(events, rank)))
    done = trainard("calibrate", *map(str, paths), "--overlap-only")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("it overlaps (by traces)\n")
    assert "hidden share [%]    33.33         33.33" in done.stdout


def test_every_reason_to_refuse_is_said_with_its_place(trainard: Program, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("step,rank,compute_ms\n0,0,300\n0,0,301\n")
    done = trainard("calibrate", str(bad))
    assert done.returncode == 2
    assert "nothing was done" in done.stderr
    assert "[duplicate_row]" in done.stderr
    assert f"{bad}:3" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.csv"], "does not exist"),
        (["."], "is a directory"),
        ([], "Missing argument"),
        (["FILE", "--name", "x"], "add --store"),
        (["FILE", "--confidence", "1"], "confidence"),
        (["FILE", "--confidence", "nan"], "'nan' is no finite number"),
        (["FILE", "--overlap-off-step-ms", "-inf"], "'-inf' is no finite number"),
    ],
)
def test_what_cannot_be_asked_is_said(
    trainard: Program, file: Path, arguments: list[str], said: str
) -> None:
    done = trainard("calibrate", *(str(file) if part == "FILE" else part for part in arguments))
    assert done.returncode == 2
    assert said in done.stderr


def test_it_is_stored_and_accepted(trainard: Program, file: Path, address: str) -> None:
    sent = ["calibrate", str(file), "--url", address, "--accept-into", "prod", "--skip-steps", "2"]
    nameless = trainard(*sent, "--idempotency-key", "a-run")
    assert nameless.returncode == 2
    assert "--gpu-type: there is no profile 'prod'; to make it, say what GPUs" in nameless.stderr
    assert "nothing was done" in nameless.stderr
    with httpx.Client(base_url=address) as client:
        assert client.get("/v1/calibrations").json()["items"] == []
    made = trainard(*sent, "--idempotency-key", "a-run", "--gpu-type", "H100", "--format", "json")
    assert made.returncode == 0, made.stderr
    # The service, in this process too, writes its log there.
    (line,) = [line for line in made.stdout.splitlines() if line.startswith("{")]
    document = json.loads(line)
    assert f"Stored as {document['id']}." in made.stderr
    assert "Accepted as prod@1." in made.stderr
    assert document["options"]["skip_steps"] == 2
    again = trainard(*sent, "--idempotency-key", "a-run")
    assert "Accepted as prod@2." in again.stderr
    with httpx.Client(base_url=address) as client:
        (listed,) = client.get("/v1/calibrations").json()["items"]
    assert (listed["id"], listed["name"]) == (document["id"], "timings.csv")


def test_what_is_stored_although_no_revision_is_made_is_said(
    trainard: Program, file: Path, address: str
) -> None:
    whole = {"slug": "p", "name": "P", "gpu_type": "H100"}
    # Eight GPUs are no multiple of sixteen
    sizes = {"num_gpus": 32, "gpus_per_node": 16, "tensor_parallel_size": 16}
    defaults = {"compute_ms": 300, **sizes}
    with httpx.Client(base_url=address) as client:
        made = client.post("/v1/cluster-profiles", json={**whole, "defaults": defaults})
        assert made.status_code == 201, made.text
        done = trainard("calibrate", str(file), "--url", address, "--accept-into", "p")
        (listed,) = client.get("/v1/calibrations").json()["items"]
    assert done.returncode == 2
    assert f"no revision was made; it stays stored as {listed['id']}" in done.stderr
    assert "nothing was done" not in done.stderr


def test_what_can_be_read_once_only_is_refused(
    trainard: Program, file: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Its other end is not there: whoever opened it would wait for ever
    for name in (str(pipe), "/dev/null"):
        done = trainard("calibrate", name)
        assert done.returncode == 2
        assert f"{name}: it is no regular file" in done.stderr
    # Standard input is one where a shell has put it there
    by_shell = ["/bin/sh", "-c", '"$0" -m service calibrate /dev/stdin < "$1"']
    root = Path(__file__).parents[2]
    told = subprocess.run(
        [*by_shell, sys.executable, str(file)], cwd=root, capture_output=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert b"24 steps (0 to 23) of 8 ranks" in told.stdout


def test_several_files_are_refused_in_good_english(trainard: Program, tmp_path: Path) -> None:
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for rank, path in enumerate(files):
        path.write_text(f"step,rank,compute_ms\n0,{rank},nan\n")
    done = trainard("calibrate", *map(str, files))
    assert done.returncode == 2
    assert "this set of 2 files has " in done.stderr


def test_a_connection_that_breaks_is_tried_again_with_the_same_key(file: Path) -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        assert table() in request.read()
        if len(keys) == 1:
            raise httpx.ReadError("gone")
        return httpx.Response(201, json={"id": "1"}, request=request)

    query = {"name": None, "load_is_prefetched": True, "skip_steps": 3}
    with httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x") as client:
        assert stored(client, [file], query, key=None) == {"id": "1"}
    assert len(set(keys)) == 1 < len(keys)


def changed(**values: Any) -> str:
    return findings_text(msgspec.structs.replace(findings(), **values))


def test_the_text_tells_what_a_reader_needs() -> None:
    text = findings_text(findings())
    assert text.startswith("24 steps (0 to 23) of 8 ranks\ntimings.csv: csv, 192 rows, ")
    for said in (
        "persistent: stays with a rank",
        f"\n{SLOW_RANK}     slow, always",
        "Slowest rank to the median: 1.4",
        "Most often the slowest: rank 3, in 100.00 % of the steps",
        "one normal law for all would say",
        "\nproposed ",
        "Not told by these timings:\n  load_ms: ",
        "note: 24 steps: ",
    ):
        assert said in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_the_text_tells_what_is_rare_too() -> None:
    (outlier,) = findings().outliers
    of_part = msgspec.structs.replace(
        outlier, kind="changed", from_step=3, to_step=9, node=1, stage=2
    )
    text = changed(outliers=[of_part] * 21)
    assert "changed, steps 3 to 9, node 1, stage 2" in text
    assert "\nand 1 more\n" in text
    assert "No rank stands apart." in changed(outliers=[])
    estimate = findings().compute_ms
    spikes = SpikesFound(
        probability=msgspec.structs.replace(estimate, value=0.001),
        slowdown=msgspec.structs.replace(estimate, value=4.0),
        num_spikes=7,
    )
    assert "Spikes: 7; probability 0.001 a rank and step, 4 times as long" in changed(spikes=spikes)
    audit = OverlapAudit(
        verdict="cannot_tell",
        route="arithmetic",
        hidden_share=HiddenShare(low=0.1, high=0.75, naive_ratio=None),
        communication_ms=None,
        wait_ms=None,
        exposed_ms=None,
        num_collectives_per_step=None,
        reasons=["it is so"],
        experiments=[Experiment(name="more_steps", what_to_do="do it", what_it_tells="that")],
    )
    text = changed(overlap=audit)
    assert "(by arithmetic); 10.00 to 75.00 % of it is hidden\n  because it is so\n" in text
    assert "  to settle it: do it (that)" in text
    text = changed(
        proposal=Proposal(overrides={}, values=[], unknown=[]), held_out=None, warnings=[]
    )
    assert text.endswith("Nothing is proposed.")
    source = msgspec.structs.replace(
        findings().source,
        steps_have_gaps=True,
        num_gpus_per_rank=4,
        world_size=16,
        missing_cells=3,
        left_out=[],
    )
    assert changed(source=source).startswith(
        "24 steps (0 to 23, with gaps) of 8 ranks of 4 GPUs each; the job has 16; 3 cells are "
        "missing\n"
    )
    long = msgspec.structs.replace(findings().proposal.values[0], value=["a" * 100])
    proposal = msgspec.structs.replace(findings().proposal, values=[long])
    assert "aaa…  " in changed(proposal=proposal)
