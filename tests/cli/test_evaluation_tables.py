"""What `trainard evaluate` shows of one scenario."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Program

SCENARIO: dict[str, Any] = {
    "num_gpus": 256,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {"persistent": {"kind": "normal", "cv": 0.05}},
}


def rows(text: str, label: str) -> dict[str, list[str]]:
    """The lines of the table under a label, by their first word."""
    (section,) = (part for part in text.split("\n\n") if part.startswith(label))
    return {line.split()[0]: line.split() for line in section.splitlines()[3:]}


def shown(trainard: Program, *arguments: str, **changes: Any) -> str:
    done = trainard("evaluate", "-", *arguments, stdin=json.dumps({**SCENARIO, **changes}))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_views_are_labelled(trainard: Program) -> None:
    text = shown(trainard, total_steps=1_000_000, period_days=7)
    assert "gpu_hours_lost" in rows(text, "Fixed window: 7 days")
    work = rows(text, "Fixed work: 1 000 000 steps")
    assert set(work) == {
        "days_to_finish",
        "gpu_hours_for_total_steps",
        "gpu_hours_extra_for_total_steps",
        "gpu_hours_per_1000_steps",
    }
    assert "step_mean_ms" in rows(text, "The step")


def test_a_scenario_without_total_steps_has_hours_for_a_thousand(trainard: Program) -> None:
    work = rows(shown(trainard), "Fixed work: a thousand steps")
    assert set(work) == {"gpu_hours_per_1000_steps"}


def test_causes_that_cost_nothing_have_no_row(trainard: Program) -> None:
    window = rows(shown(trainard), "Fixed window: 30 days")
    assert "gpu_hours_persistent" in window
    assert "gpu_hours_useful" in window
    assert not {"gpu_hours_failures", "gpu_hours_transient", "gpu_hours_lost_se"} & set(window)


def test_the_spread_has_a_table_of_its_own(trainard: Program) -> None:
    json_text = shown(trainard, "--format", "json")
    result = json.loads(json_text)["points"][0]["result"]
    text = shown(trainard)
    spread = rows(text, "Spread over clusters")
    assert set(spread) == {"p10", "p50", "p90", "mean"}
    for name, opposite in (("p10", "p90"), ("p90", "p10")):
        lost = round(result[f"gpu_hours_lost_{name}"])
        efficiency = result[f"efficiency_fraction_{opposite}"]
        assert spread[name][1:] == [*f"{lost:,}".split(","), "0", f"{100 * efficiency:.2f}"]
    assert "closed form" in text or "quadrature" in text


def test_without_a_spread_there_is_no_table_of_it(trainard: Program) -> None:
    assert "Spread over clusters" not in shown(trainard, variability={})


EXTRAS = ("--show", "sensitivity", "--show", "model-spread", "--show", "independent-ranks")


def test_extras_are_tables_under_labels(trainard: Program) -> None:
    text = shown(trainard, *EXTRAS)
    sensitivity = rows(text, "Sensitivity of the")
    assert "variability.persistent.cv" in sensitivity
    assert "not moved: failures" not in text
    assert "not moved: num_spare_gpus: it is 0, of which 10 % is nothing" in text
    assert set(rows(text, "Choice of the tail")) == {"normal", "lognormal", "gamma"}
    assert rows(text, "Independent draws")["persistent"][1] == "256"


def test_ends_and_families_that_break_a_rule_say_so(trainard: Program) -> None:
    variability = {"transient": {"kind": "lognormal", "cv": 0.4}}
    text = shown(trainard, *EXTRAS, variability=variability, tensor_parallel_size=2)
    assert "a normal factor allows at most 0.3" in text
    assert rows(text, "Choice of the tail")["normal"][1] == "-"


def test_extras_as_json_are_named_as_the_service_names_them(trainard: Program) -> None:
    found = json.loads(shown(trainard, *EXTRAS, "--format", "json"))
    assert found["sensitivity"]["inputs"][0]["gpu_hours_change"] > 0
    assert found["model_spread"]["lowest"] < found["model_spread"]["highest"]
    assert [row["source"] for row in found["independent_ranks"]] == ["persistent"]
    assert found["points"][0]["result"]["gpu_hours_lost"] > 0


@pytest.mark.parametrize("place", ["axes", "csv"])
def test_extras_are_of_one_scenario(trainard: Program, place: str) -> None:
    axes = [{"path": "num_gpus", "values": [8, 16]}] if place == "axes" else []
    text = json.dumps({"scenario": SCENARIO, "axes": axes})
    form = "csv" if place == "csv" else "table"
    refused = trainard("evaluate", "-", "--show", "sensitivity", "--format", form, stdin=text)
    assert refused.returncode == 2
    assert "one scenario without axes" in refused.stderr


def test_too_many_draws_are_refused_in_their_place(trainard: Program) -> None:
    scenario = {**SCENARIO, "num_gpus": 16, "num_spare_gpus": 1, "draws": 30_000}
    refused = trainard("evaluate", "-", "--show", "sensitivity", stdin=json.dumps(scenario))
    assert refused.returncode == 2
    assert "/draws" in refused.stderr


RING: dict[str, Any] = {
    "kind": "ring",
    "message_bytes": 1e9,
    "link": {"latency_us": 10, "bandwidth_gigabytes_per_s": 50},
}


def test_communication_has_a_table_of_its_own(trainard: Program) -> None:
    text = shown(trainard, communication=RING, overlap={"kind": "buckets", "num_buckets": 8})
    found = rows(text, "Communication")
    # 2 x 255 latencies of 10 us, and 2 x 255/256 of the bytes.
    assert found["communication_latency_ms"][1:3] == ["5.10", "ms"]
    assert found["communication_bandwidth_ms"][1] == "39.84"
    assert found["collective_algorithm"][1] == "ring"
    assert found["num_data_parallel_ranks"][1] == "256"
    assert "break_even_extra_steps_fraction" not in found
    assert not set(found) & set(rows(text, "The step"))
    assert not {name for name in rows(text, "Fixed window") if name.startswith("communication")}


def test_without_communication_there_is_no_such_table(trainard: Program) -> None:
    nothing = {"kind": "fixed", "allreduce_ms": 0}
    assert "\nCommunication\n" not in shown(trainard, communication=nothing)
    stale = {"kind": "bounded_staleness", "staleness": 1, "delay_ms": 400}
    text = shown(trainard, communication=nothing, synchronization=stale)
    assert "break_even_extra_steps_fraction" in rows(text, "Communication")


def test_what_is_to_be_noted_follows_the_tables(trainard: Program) -> None:
    assert "note: " not in shown(trainard)
    slow = {**RING, "link": {"latency_us": 1000, "bandwidth_gigabytes_per_s": 50}}
    text = shown(trainard, communication=slow, overlap={"kind": "buckets", "num_buckets": 100})
    *_, hurts, idle = text.split("\n\n")
    assert hurts.startswith("note: overlap hurts: a step takes")
    assert idle.startswith("note: GPUs idle: ")


PIPED: dict[str, Any] = {
    "num_gpus": 8,
    "compute_ms": 120,
    "communication": {"kind": "fixed", "allreduce_ms": 0},
    "pipeline": {"schedule": "1f1b", "stages": 8, "microbatches": 4},
    "variability": {},
    "draws": 64,
}


def test_a_pipeline_has_a_group_of_its_own(trainard: Program) -> None:
    text = shown(trainard, **PIPED)
    pipeline = rows(text, "The pipeline")
    assert pipeline["pipeline_makespan_ms"][1:3] == ["330.00", "ms"]
    assert pipeline["bubble_fraction"][1] == "63.64"
    assert pipeline["busy_gpus_mean"][1] == "2.90909"
    assert {name for name in pipeline if name.startswith("pipeline_idle_")} == {
        "pipeline_idle_ms",
        *(f"pipeline_idle_{part}_ms" for part in ("fill", "imbalance", "p2p", "jitter")),
    }
    assert "pipeline_makespan_ms" not in rows(text, "The step")
    assert "note: 4 micro-batches never fill 8 stages" in text
    assert "The pipeline" not in shown(trainard)


def test_a_sampled_makespan_has_its_error_beside_it(trainard: Program) -> None:
    jitter = {"per_op_jitter": {"kind": "gamma", "cv": 0.2}}
    changes = {**PIPED, "pipeline": {**PIPED["pipeline"], **jitter}}
    result = json.loads(shown(trainard, "--format", "json", **changes))["points"][0]["result"]
    pipeline = rows(shown(trainard, **changes), "The pipeline")
    line = pipeline["pipeline_makespan_ms"]
    assert line[2] == "±"
    assert float(line[1]) == pytest.approx(result["pipeline_makespan_ms"], abs=0.005)
    assert float(line[3]) == pytest.approx(result["pipeline_makespan_ms_se"], rel=0.01)
    assert "pipeline_makespan_ms_se" not in pipeline


def test_a_grid_of_pipelines_tells_how_many_gpus_work(trainard: Program) -> None:
    axes = [{"path": "pipeline.microbatches", "values": [1, 3, 4]}]
    grid = {"scenario": {**PIPED, "scaling": "weak"}, "axes": axes}
    done = trainard("evaluate", "-", stdin=json.dumps(grid))
    header, _, *lines = done.stdout.splitlines()
    assert header.split()[-4:] == ["bubble_fraction", "[%]", "busy_gpus_mean", "[GPUs]"]
    assert [round(float(line.split()[-1]), 2) for line in lines] == [1.0, 2.4, 2.91]
    plain = {"scenario": SCENARIO, "axes": [{"path": "num_gpus", "values": [8, 16]}]}
    assert "busy_gpus_mean" not in trainard("evaluate", "-", stdin=json.dumps(plain)).stdout
