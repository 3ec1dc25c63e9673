"""`trainard overlap-audit`."""

import json

from tests.cli.conftest import Program

STEP = ("--compute-ms", "300", "--communication-ms", "80", "--step-ms")


def test_what_cannot_be_told_names_the_experiments(trainard: Program) -> None:
    done = trainard("overlap-audit", "--load-ms", "30", *STEP, "410", "--no-load-is-prefetched")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("these figures cannot tell (by arithmetic)\n")
    lines = done.stdout.splitlines()
    (shares,) = [line.split() for line in lines if line.startswith("hidden share")]
    assert shares == ["hidden", "share", "[%]", "0.00", "100.00"]
    (transfer,) = [line.split() for line in lines if line.startswith("transfer")]
    assert transfer == ["transfer", "[ms]", "-", "80.00", "80.00"]
    assert any(line.startswith("1. ") for line in lines)
    assert any(line.startswith("because the step takes 80 ms longer") for line in lines)


def test_what_is_settled(trainard: Program) -> None:
    runs = ("--no-communication-step-ms", "370", "--isolated-communication-ms", "60")
    done = trainard("overlap-audit", *STEP, "410", *runs)
    assert done.stdout.startswith("it overlaps (by interventions)\n")
    assert "exposed [ms]        40.00  40.00  40.00" in done.stdout


def test_json_is_the_documents(trainard: Program) -> None:
    done = trainard("overlap-audit", *STEP, "300", "--format", "json", "--confidence", "0.8")
    found = json.loads(done.stdout)
    assert (found["verdict"], found["hidden_share"]["low"]) == ("overlaps", 1)


def test_every_fault_is_named(trainard: Program) -> None:
    done = trainard("overlap-audit", *STEP, "0", "--confidence", "2")
    assert done.returncode == 2
    first, *faults = done.stderr.splitlines()
    assert first == "the command has 2 faults, nothing was done:"
    assert [fault.split(":")[0].strip() for fault in faults] == ["/step_ms", "/confidence"]
    done = trainard("overlap-audit", *STEP, "200")
    assert done.returncode == 2
    assert "/compute_ms: compute_ms is 300, but the whole step takes step_ms 200" in done.stderr


def test_what_a_step_needs_is_required(trainard: Program) -> None:
    done = trainard("overlap-audit", "--compute-ms", "300")
    assert done.returncode == 2
    assert "--communication-ms" in done.stderr
