"""`trainard link-presets` and `trainard nccl-tests`."""

import json
from pathlib import Path
from typing import get_args

import pytest

from service.model.parts.link_presets import LinkPreset
from tests.cli.conftest import Program
from tests.model.exchange.nccl_outputs import PLAIN, SIZES


def test_every_preset_has_a_line(trainard: Program) -> None:
    done = trainard("link-presets")
    assert done.returncode == 0, done.stderr
    header, _, *lines = done.stdout.splitlines()
    assert "bandwidth [GB/s]" in header
    assert [line.split()[0] for line in lines] == list(get_args(LinkPreset))
    (consumer,) = [line for line in lines if line.startswith("internet_consumer")]
    assert consumer.split()[1:4] == ["assumed", "0.0025", "0.9415"]


def test_sources_stand_below(trainard: Program) -> None:
    done = trainard("link-presets", "--sources")
    assert "\nnvlink_4_2026_11 (2026-11-30): H100: 450 GB/s line rate" in done.stdout


def test_presets_as_json(trainard: Program) -> None:
    found = json.loads(trainard("link-presets", "--format", "json").stdout)["items"]
    assert [item["name"] for item in found] == list(get_args(LinkPreset))


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.txt"
    path.write_text(PLAIN)
    return str(path)


def test_an_output_becomes_a_communication(trainard: Program, log: str) -> None:
    done = trainard("nccl-tests", log)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "note: rows of size 0 were left out: 1\n"
    found = json.loads(done.stdout)
    assert found == {
        "kind": "measured",
        "sizes_bytes": list(SIZES),
        "times_ms": pytest.approx([0.04006, 0.05403, 1.1012]),
        "measured_num_ranks": 8,
    }
    # And with a message it is one that a scenario takes.
    scenario = {
        "num_gpus": 8,
        "compute_ms": 300,
        "communication": {**found, "message_bytes": 134217728},
    }
    done = trainard("evaluate", "-", "--format", "json", stdin=json.dumps(scenario))
    assert done.returncode == 0, done.stderr


def test_a_table_to_read(trainard: Program, log: str) -> None:
    done = trainard("nccl-tests", log, "--column", "out_of_place", "--format", "table")
    header, _, *lines = done.stdout.splitlines()
    assert header.split() == ["size", "[bytes]", "time", "[ms]", "bus", "bandwidth", "[GB/s]"]
    assert lines[-1].split() == ["134217728", "1.0896", "215.57"]


def test_without_a_list_of_ranks_the_number_is_left_open(trainard: Program) -> None:
    text = "\n".join(line for line in PLAIN.splitlines() if "Rank" not in line)
    done = trainard("nccl-tests", "-", stdin=text)
    assert "measured_num_ranks" not in json.loads(done.stdout)
    assert "set measured_num_ranks" in done.stderr


def test_an_output_that_cannot_be_used_is_refused(trainard: Program) -> None:
    done = trainard("nccl-tests", "-", stdin=PLAIN[: PLAIN.index("  1101.2")])
    assert done.returncode == 2
    assert done.stdout == ""
    first, fault = done.stderr.splitlines()
    assert first == "<stdin> has 1 fault, nothing was done:"
    assert fault.startswith("  /text: line 19: 9 values, but the header names 13")


def test_bytes_that_are_no_text_are_refused(trainard: Program, tmp_path: Path) -> None:
    path = tmp_path / "log.bin"
    path.write_bytes(b"\xff\xfe#")
    done = trainard("nccl-tests", str(path))
    assert done.returncode == 2
    assert "this is not UTF-8: invalid start byte at byte 0" in done.stderr


def test_a_file_beyond_the_limit_is_refused(trainard: Program, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("#" * 2_000_000)
    done = trainard("nccl-tests", str(path))
    assert done.returncode == 2
    assert "/: more than 1048576 bytes, which is the limit" in done.stderr
