"""The settings that remedies of a pipeline are tried with where none are named."""

import pytest

from service.model import nominal_makespans
from service.model.parts.pipeline import MAX_CHUNKS
from service.model.questions.pipeline_candidates import SCHEDULE_NAMES
from service.model.remedy import pipeline_choices
from service.model.remedy.pipeline_choices import best_schedule
from service.model.remedy.remedies import applicable
from service.model.remedy.remedy_choices import with_settings
from service.model.remedy.remedy_kinds import Kind, RemedyRequest
from tests.model.piped_scenarios import STEP, piped, put, result

ALONE = {**STEP, "pipeline": None}


def settings(request: RemedyRequest, **pipeline: object) -> list[dict[str, float | str] | None]:
    return [remedy.setting for remedy in with_settings(piped(dict(pipeline)), request)]


def test_factors_and_counts_of_micro_batches() -> None:
    kind: Kind = "more_microbatches"
    assert settings(RemedyRequest(kind=kind)) == [
        {"microbatch_factor": 2},
        {"microbatch_factor": 4},
    ]
    both = RemedyRequest(kind=kind, microbatch_factors=(3,), microbatches=(20, 40))
    assert settings(both) == [{"microbatch_factor": 3}, {"microbatches": 20}, {"microbatches": 40}]
    counts = RemedyRequest(kind=kind, microbatches=(20,))
    assert settings(counts) == [{"microbatches": 20}]


@pytest.mark.parametrize(("now", "tried"), [(1, [2, 4]), (2, [4]), (4, [8]), (64, [MAX_CHUNKS])])
def test_chunks(now: int, tried: list[int]) -> None:
    request = RemedyRequest(kind="interleave_stages")
    found = settings(request, schedule="looped_bfs", chunks_per_stage=now, microbatches=8)
    assert found == [{"chunks_per_stage": chunks} for chunks in tried]
    asked = RemedyRequest(kind="interleave_stages", chunks_per_stage=(3,))
    assert settings(asked) == [{"chunks_per_stage": 3}]
    alone = put(piped(), ALONE)
    assert [each.setting for each in with_settings(alone, request)] == [
        {"chunks_per_stage": 2},
        {"chunks_per_stage": 4},
    ]


def test_stages_and_schedules_that_are_named() -> None:
    assert settings(RemedyRequest(kind="fewer_stages", stages=(4, 2))) == [
        {"stages": 4},
        {"stages": 2},
    ]
    assert settings(RemedyRequest(kind="fewer_stages")) == [None]
    named = RemedyRequest(kind="change_schedule", schedules=("gpipe", "zbv"))
    assert settings(named) == [{"schedule": "gpipe"}, {"schedule": "zbv"}]


@pytest.mark.parametrize(
    ("schedule", "microbatches", "p2p_ms"),
    [("1f1b", 16, 0.0), ("gpipe", 16, 1.0), ("naive", 1, 0.0), ("1f1b", 12, 5.0)],
)
def test_the_best_schedule_is_the_shortest_of_all_that_fit(
    schedule: str, microbatches: int, p2p_ms: float
) -> None:
    """Brute force: every schedule alone, with the scenario's chunks or the only ones it takes."""
    base = piped({"schedule": schedule, "microbatches": microbatches, "p2p_ms": p2p_ms})
    passes: dict[str, tuple[float, float]] = {}
    for name in SCHEDULE_NAMES:
        request = RemedyRequest(kind="change_schedule", schedules=(name,))
        changes, _ = applicable(base, [request])
        if changes and name != "dualpipe":
            there = put(base, changes[0].overrides)
            passes[name] = (
                round(result(there, "pipeline_makespan_ms"), 6),
                result(there, "peak_microbatches_in_flight"),
            )
    own = round(result(base, "pipeline_makespan_ms"), 6)
    best = best_schedule(base)
    if best is None:
        assert min(passes.values())[0] >= own
        return
    assert passes[best] == min(passes.values())
    assert passes[best][0] < own


def test_no_schedule_is_better_than_the_best_or_than_none() -> None:
    base = piped()
    best = best_schedule(base)
    assert best is not None
    (change,) = applicable(base, [RemedyRequest(kind="change_schedule")])[0]
    assert change.remedy.schedule == best
    again = change.scenario
    assert best_schedule(again) is None
    (left_out,) = applicable(again, [RemedyRequest(kind="change_schedule")])[1]
    assert "no other schedule" in left_out.reason
    assert best_schedule(put(base, ALONE)) is None


def test_only_what_there_is_time_for_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    base = piped()
    best = best_schedule(base)
    assert best is not None
    # Formulas alone: 1f1b is as quick as gpipe, of interleaved ones the chunks are missing.
    monkeypatch.setattr(pipeline_choices, "MOST_STEPS", 10)
    untried = best_schedule(base)
    assert untried not in {None, "1f1b", "gpipe", "naive"}
    # Where all were looked at, the best one has none above it.
    monkeypatch.setattr(pipeline_choices, "MOST_STEPS", 10**9)
    assert best_schedule(base) == best
    # Of 30 000 micro-batches no plan is put into an order to choose by.
    monkeypatch.undo()
    monkeypatch.setattr(nominal_makespans, "makespans", None)
    long = piped({"stages": 4, "microbatches": 30_000}, num_gpus=4)
    assert best_schedule(long) in SCHEDULE_NAMES
