import json
from typing import Any

import pytest

from tests.cli.conftest import Program

SCENARIO: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}
QUESTION: dict[str, Any] = {
    "scenario": SCENARIO,
    "unknown": {"path": "num_gpus"},
    "seek": "largest",
    "target": {"column": "efficiency_fraction", "at_least": 0.9},
}


def asked(**changes: Any) -> str:
    return json.dumps({**QUESTION, **changes})


def test_the_answer_is_a_sentence_and_both_neighbors(trainard: Program) -> None:
    done = trainard("solve", "-", stdin=asked())
    assert done.returncode == 0, done.stderr
    sentence, _, header, _, kept, broken = done.stdout.splitlines()
    assert sentence.startswith("500 is the largest num_gpus with efficiency_fraction at least 0.9")
    assert "at 501 it is 0.89999" in sentence
    assert "efficiency_fraction [%]" in header
    assert kept.split()[:2] == ["500", "yes"]
    assert broken.split()[:2] == ["501", "no"]


def test_json_carries_all_digits(trainard: Program) -> None:
    done = trainard("solve", "-", "--format", "json", stdin=asked())
    found = json.loads(done.stdout)
    assert (found["value"], found["at_neighbor"]["value"]) == (500, 501)
    assert found["at_value"]["result"]["efficiency_fraction"] >= 0.9
    assert found["scenario"]["num_gpus"] == 500


def test_real_numbers_are_shown_with_their_digits(trainard: Program) -> None:
    text = asked(
        unknown={"path": "variability.transient.cv"},
        target={"column": "gpu_hours_lost", "at_most": 50_000},
    )
    done = trainard("solve", "-", stdin=text)
    assert "0.03060911994  yes" in done.stdout


def test_no_such_value_is_an_answer(trainard: Program) -> None:
    scenario = {**SCENARIO, "slow_groups": [{"count": 1, "speed_fraction": 0.7}], "variability": {}}
    done = trainard("solve", "-", stdin=asked(scenario=scenario))
    assert done.returncode == 0
    assert done.stdout.startswith("no num_gpus from 1 to 10000000 has efficiency_fraction")
    assert "comes nearest at 1" in done.stdout
    assert "note: efficiency_fraction does not move with num_gpus" in done.stderr


@pytest.mark.parametrize(
    ("text", "pointer", "word"),
    [
        ("", "/", "no JSON"),
        ("{}", "/scenario", "missing_field"),
        (asked(scenario={"num_gpus": 0, "compute_ms": 1}), "/scenario/num_gpus", "0"),
        (asked(unknown={"path": "num_gpu"}), "/unknown/path", "num_gpu"),
        (asked(target={"column": "gpu_hours_lost"}), "/target", "exactly one"),
        (
            asked(unknown={"path": "num_gpus", "maximum": 0}),
            "/unknown/maximum",
            "out_of_range",
        ),
        (
            asked(
                scenario={**SCENARIO, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]},
                unknown={"path": "num_gpus", "maximum": 64},
            ),
            "/scenario/slow_groups/0/count",
            "too_many_slow_gpus",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_place(
    trainard: Program, text: str, pointer: str, word: str
) -> None:
    refused = trainard("solve", "-", stdin=text)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert f"  {pointer}" in refused.stderr
    assert word in refused.stderr
    assert "Traceback" not in refused.stderr
