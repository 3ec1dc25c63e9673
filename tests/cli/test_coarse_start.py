"""`trainard coarse-start`."""

import json

from tests.cli.conftest import Program

RUN = ("--num-gpus", "1024", "--step-p50-ms", "458", "--step-p95-ms", "470")
PHASES = ("--load-ms", "30", "--communication-ms", "80")


def test_a_line_for_each_reading(trainard: Program) -> None:
    done = trainard("coarse-start", *RUN, *PHASES)
    assert done.returncode == 0, done.stderr
    first, cv, _, header, _, *lines = done.stdout.splitlines()
    assert first == (
        "lost in 30 days: 0 to 91 351 GPU-hours, and what a GPU costs that is slow all the time"
    )
    assert cv == "transient cv: 0.00 to 5.99 %"
    assert "mean step [ms]" in header
    assert lines[0].split()[3:] == ["normal", "291.92", "5.99", "458.77", "91", "351"]
    assert [line.split()[0] for line in lines[:6]] == [*["each"] * 3, *["common"] * 3]
    assert "unknown: slow_groups: A GPU that is slow" in done.stdout


def test_without_phases_the_cv_has_no_end(trainard: Program) -> None:
    done = trainard("coarse-start", *RUN, "--period-days", "7")
    assert done.stdout.startswith("lost in 7 days: 0 to ")
    assert "transient cv: 0.00 % and more\n" in done.stdout
    assert "note: without load_ms and communication_ms" in done.stdout


def test_a_reading_can_be_evaluated(trainard: Program) -> None:
    found = json.loads(trainard("coarse-start", *RUN, *PHASES, "--format", "json").stdout)
    scenario = json.dumps(found["readings"][0]["overrides"])
    done = trainard("evaluate", "-", "--format", "json", stdin=scenario)
    assert done.returncode == 0, done.stderr


def test_quantiles_that_no_run_has_are_refused(trainard: Program) -> None:
    done = trainard("coarse-start", "--num-gpus", "8", "--step-p50-ms", "2", "--step-p95-ms", "1")
    assert done.returncode == 2
    assert "/step_p95_ms: step_p95_ms is 1, below step_p50_ms 2" in done.stderr
    done = trainard("coarse-start", "--num-gpus", "0", "--step-p50-ms", "2", "--step-p95-ms", "3")
    assert done.returncode == 2
    assert done.stderr.splitlines()[1].startswith("  /num_gpus: ")
