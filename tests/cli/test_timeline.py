import json
from pathlib import Path
from typing import Any

import pytest

from service.cli.timeline import timeline_sentence
from service.model.pipeline_timeline import timeline_of
from service.model.scenario import decode_scenario
from tests.cli.conftest import Program

PIPELINE: dict[str, Any] = {
    "schedule": "1f1b",
    "stages": 2,
    "microbatches": 2,
    "forward_ms": 1,
    "backward_ms": 2,
}
SCENARIO: dict[str, Any] = {"num_gpus": 6, "load_ms": 2, "pipeline": PIPELINE}
SLOW = {**SCENARIO, "slow_groups": [{"count": 1, "speed_fraction": 0.5, "placement": 1}]}


def test_the_example_is_a_picture_that_fits(trainard: Program, example: Path) -> None:
    done = trainard("timeline", str(example / "pipeline.json"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1f1b, 8 stages, 4 micro-batches, replica 0 of 1, at nominal speed"
    assert lines[1].startswith("the pass takes 330.00 ms, the step 330.00 ms; 2.91 of 8 stages")
    assert lines[3] == "stage 0 0123..................aa.bb.cc.dd"
    assert lines[10] == "stage 7 .......0aa1bb2cc3dd.............."
    assert lines[-1].split() == ["7", "1", "120.00", "210.00", "63.64", "1"]
    assert max(map(len, lines)) <= 120


def test_a_drawn_step_and_a_nominal_one(trainard: Program) -> None:
    text = json.dumps(SLOW)
    drawn = trainard("timeline", "-", stdin=text).stdout
    assert "replica 0 of 3, one drawn step" in drawn
    assert "the pass takes 15.00 ms, the step 17.00 ms" in drawn
    other = trainard("timeline", "-", "--replica", "2", stdin=text).stdout
    assert "the pass takes 9.00 ms, the step 17.00 ms" in other
    nominal = trainard("timeline", "-", "--nominal", stdin=text).stdout
    assert "at nominal speed" in nominal
    assert "the pass takes 9.00 ms, the step 11.00 ms" in nominal


def test_a_trace_is_written_beside_the_picture(trainard: Program, tmp_path: Path) -> None:
    trace = tmp_path / "step.json"
    text = json.dumps({"scenario": SCENARIO})
    done = trainard("timeline", "-", "--chrome-trace", str(trace), stdin=text)
    assert done.stdout.splitlines()[-1].startswith(f"{trace}: open it in ui.perfetto.dev")
    slices = [event for event in json.loads(trace.read_bytes())["traceEvents"] if "ts" in event]
    assert len(slices) == 8 + 2


def test_json_has_every_start_and_end(trainard: Program) -> None:
    done = trainard("timeline", "-", "--format", "json", stdin=json.dumps(SCENARIO))
    found = json.loads(done.stdout)
    assert found["stages"][1]["operations"][0] == {
        "kind": "forward",
        "chunk": 0,
        "microbatch": 0,
        "backward_chunk": None,
        "backward_microbatch": None,
        "start_ms": 3,
        "end_ms": 4,
    }


def test_chunks_are_named_and_a_step_without_a_length_is_not() -> None:
    pipeline = {**PIPELINE, "schedule": "interleaved_1f1b", "chunks_per_stage": 2}
    local = {"kind": "local_steps", "steps": 2}
    asked = decode_scenario({**SCENARIO, "pipeline": pipeline, "synchronization": local})
    first, second = timeline_sentence(timeline_of(asked)).splitlines()
    assert "2 micro-batches, 2 chunks a stage, replica" in first
    assert "the step" not in second


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", [], "no JSON"),
        ("[]", [], "/scenario"),
        ('{"num_gpus": 8, "compute_ms": 1}', [], "[no_pipeline]"),
        (json.dumps({"scenario": {**SCENARIO, "num_gpus": 7}}), [], "/scenario/num_gpus"),
        (json.dumps(SCENARIO), ["--replica", "3"], "replica 3, but there are 3"),
        (json.dumps(SCENARIO), ["--replica", "-1"], "-1"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    trainard: Program, text: str, options: list[str], said: str
) -> None:
    done = trainard("timeline", "-", *options, stdin=text)
    assert done.returncode == 2
    assert said in done.stderr
