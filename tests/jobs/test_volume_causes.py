"""Causes of what moved between stored batches, evaluated in between, on both databases."""

import math
import time
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from service.db import batches as batch_rows
from service.db import pricings
from service.db.engine import Database
from service.jobs import batches, volume_causes
from service.jobs.actors import Actor
from service.jobs.calibration_acceptance import accept
from service.jobs.calibration_documents import AcceptanceIn
from service.jobs.profile_changes import create_profile, revise_profile
from service.jobs.profile_documents import ProfileIn, RevisionIn
from service.jobs.profiles import read_profile
from service.model.kernel import Results, evaluate
from service.reports.changes import change
from service.reports.loss_report import VolumeCause
from service.reports.volume import Pair, Side
from service.settings import Limits
from tests.api.calibration_tables import stored
from tests.jobs.completed import complete

ACTOR = Actor()
SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}


def a_profile(database: Database, **defaults: Any) -> None:
    with database.write() as connection:
        document = ProfileIn(slug="prod", name="P", gpu_type="H100", defaults=SEED | defaults)
        create_profile(connection, ACTOR, document)


def revise(database: Database, **defaults: Any) -> None:
    with database.write() as connection:
        document = RevisionIn(name="P", gpu_type="H100", defaults=SEED | defaults)
        version = read_profile(connection, ACTOR, "prod").version
        revise_profile(connection, ACTOR, "prod", document, version=version)


def run(database: Database, *items: dict[str, Any]) -> UUID:
    document = {
        "name": "b",
        "start_on": "2026-12-01",
        "reuse": False,
        "items": [
            {"custom_id": f"i{number}", "name": f"n{number}", **item}
            for number, item in enumerate(items)
        ],
    }
    with database.write() as connection:
        batch = batches.submit(connection, ACTOR, document, Limits())
    complete(database)
    return batch.id


def sides(database: Database, batch_id: UUID) -> list[Side]:
    with database.read() as connection:
        batch = batch_rows.find_batch(connection, batch_id)
        assert batch is not None
        items = {row.id: row for row in batch_rows.list_items(connection, [batch_id])}
        found = [
            pricings.list_summaries(connection, ACTOR.team_id, name=f"n{number}", limit=100)
            for number in range(len(items))
        ]
        summaries = [row for rows in found for row in rows if row.batch_id == batch_id]
    return [volume_causes.side_of(batch, items[row.item_id], row) for row in summaries]


def pairs(database: Database, past: UUID, new: UUID) -> list[Pair]:
    both = zip(sides(database, past), sides(database, new), strict=True)
    return [Pair(past=one, new=other) for one, other in both]


def causes(database: Database, found: list[Pair], **options: Any) -> list[list[VolumeCause]]:
    with database.read() as connection:
        told = volume_causes.volume_causes(connection, found, **options)
    for pair, parts in zip(found, told, strict=True):
        difference = change(pair.past.per_30_days, pair.new.per_30_days).difference
        assert math.fsum(part.gpu_hours_per_30_days for part in parts) == difference
    return told


def shown(parts: list[VolumeCause]) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(part.cause, part.path, part.past, part.new) for part in parts]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many points each evaluation had."""
    counts: list[int] = []

    def counted(columns: Any, **options: Any) -> Results:
        counts.append(columns.num_points)
        return evaluate(columns, **options)

    monkeypatch.setattr("service.jobs.volume_causes.evaluate", counted)
    return counts


def test_what_a_calibration_moved_is_told_apart(database: Database) -> None:
    """It was accepted into the second revision; the third was written by hand."""
    a_profile(database)
    past = run(database, {"profile": "prod"})
    made = stored(database, ACTOR, "night 3")
    taken = ["compute_ms", "communication"]
    document = AcceptanceIn(profile="prod", profile_version=1, take=taken)
    with database.write() as connection:
        defaults = accept(connection, ACTOR, made.id, document).defaults
    kept = {name: defaults[name] for name in taken}
    revise(database, **kept, load_ms=60)
    new = run(database, {"profile": "prod"})
    (parts,) = causes(database, pairs(database, past, new))
    assert [(part.cause, part.detail, part.path) for part in parts] == [
        ("profile_revision", "prod@1 -> prod@3", "load_ms"),
        ("calibration", "prod@1 -> prod@3: night 3", "communication.allreduce_ms"),
        ("calibration", "prod@1 -> prod@3: night 3", "compute_ms"),
    ]


def test_what_the_profile_and_the_batch_moved_is_told_apart(
    database: Database, evaluated: list[int]
) -> None:
    a_profile(database)
    past = run(database, {"profile": "prod"})
    revise(database, load_ms=60, compute_ms=330)
    overrides = {"num_gpus": 2048, "period_days": 20}
    new = run(database, {"profile": "prod", "overrides": overrides})
    alone = run(database, {"profile": "prod@1", "overrides": {"compute_ms": 330}})
    (found,) = pairs(database, past, new)
    (parts,) = causes(database, [found])
    assert shown(parts) == [
        ("profile_revision", "compute_ms", "300.0", "330.0"),
        ("profile_revision", "load_ms", "30.0", "60.0"),
        ("template", "num_gpus", "1024", "2048"),
        ("window", "period_days", "30", "20"),
    ]
    assert parts[0].detail == "prod@1 -> prod@2"
    assert evaluated == [3]
    (single,) = sides(database, alone)
    expected = single.per_30_days - found.past.per_30_days
    assert parts[0].gpu_hours_per_30_days == pytest.approx(expected, rel=1e-9)
    # On 30 days a window's length alone moves nothing here.
    assert parts[3].gpu_hours_per_30_days == pytest.approx(0, abs=1e-6)


def test_a_point_of_an_axis_has_the_inputs_of_its_axis(
    database: Database, evaluated: list[int]
) -> None:
    a_profile(database)
    axes = [{"path": "num_gpus", "values": [64, 1024, 2048]}]
    past = run(database, {"profile": "prod", "axes": axes})
    again = run(database, {"profile": "prod", "axes": [{"path": "num_gpus", "values": [8, 1024]}]})
    new = run(database, {"profile": "prod", "axes": axes, "headline": {"num_gpus": 2048}})
    both = [*pairs(database, past, again), *pairs(database, past, new)]
    parts = causes(database, both)
    assert parts[0] == []
    assert shown(parts[1]) == [("template", "num_gpus", "1024", "2048")]
    assert evaluated == []


def test_where_nothing_or_one_input_moved_nothing_is_evaluated(
    database: Database, evaluated: list[int]
) -> None:
    """Also of 200 items at once, in a moment."""
    a_profile(database)
    items = [{"profile": "prod", "overrides": {"num_gpus": 64 + n}} for n in range(200)]
    past, same = run(database, *items), run(database, *items)
    revise(database, compute_ms=310)
    new = run(database, *items)
    unchanged, changed = pairs(database, past, same), pairs(database, past, new)
    began = time.process_time()
    assert causes(database, unchanged) == [[] for _ in range(200)]
    told = causes(database, changed)
    assert time.process_time() - began < 3
    assert {(*shown(parts)[0], len(parts)) for parts in told} == {
        ("profile_revision", "compute_ms", "300.0", "310.0", 1)
    }
    assert evaluated == []


def test_scenarios_in_between_that_are_refused_are_told_together(database: Database) -> None:
    """20 000 slow GPUs do not fit into 64: the size has to move with them."""
    small = SEED | {"num_gpus": 64, "slow_groups": [{"count": 32, "speed_fraction": 0.7}]}
    large = small | {
        "num_gpus": 30_000,
        "load_ms": 40,
        "slow_groups": [{"count": 20_000, "speed_fraction": 0.7}],
    }
    past, new = run(database, {"scenario": large}), run(database, {"scenario": small})
    (parts,) = causes(database, pairs(database, past, new))
    assert shown(parts) == [
        ("template", "load_ms", "40.0", "30.0"),
        ("joint", None, None, None),
    ]
    assert parts[1].detail == "num_gpus, slow_groups.0.count"


def test_another_model_is_a_cause_of_its_own(database: Database, evaluated: list[int]) -> None:
    a_profile(database)
    past = run(database, {"profile": "prod"})
    new = run(database, {"profile": "prod", "overrides": {"load_ms": 60}})
    (found,) = pairs(database, past, new)
    old = replace(found.past, model_version="2.9", gpu_hours_lost=found.past.gpu_hours_lost - 1000)
    only_model = Pair(past=old, new=replace(found.past))
    ancient = Pair(past=old, new=replace(found.new, model_version="2.95"))
    parts = causes(database, [Pair(past=old, new=found.new), only_model, ancient])
    assert shown(parts[0]) == [
        ("model_version", None, None, None),
        ("template", "load_ms", "30.0", "60.0"),
    ]
    assert parts[0][0].detail == f"2.9 -> {found.new.model_version}"
    assert parts[0][0].gpu_hours_per_30_days == pytest.approx(1000, rel=1e-9)
    assert shown(parts[1]) == [("model_version", None, None, None)]
    # Nobody can evaluate under 2.95 any more.
    assert shown(parts[2]) == [("joint", None, None, None)]
    assert parts[2][0].detail == "2.9 -> 2.95, load_ms"
    assert evaluated == [1]


def test_what_would_take_too_long_is_told_together(
    database: Database, evaluated: list[int]
) -> None:
    a_profile(database)
    past = run(database, {"profile": "prod"})
    new = run(database, {"profile": "prod", "overrides": {"load_ms": 60, "num_gpus": 2048}})
    (parts,) = causes(database, pairs(database, past, new), longest_s=1e-9)
    assert [(part.cause, part.detail) for part in parts] == [("joint", "load_ms, num_gpus")]
    assert evaluated == []


def test_an_item_of_remedies_stands_for_its_scenario(database: Database) -> None:
    a_profile(database)
    item = {"profile": "prod", "analysis": "remedies"}
    past = run(database, item)
    revise(database, load_ms=60)
    new = run(database, item)
    (parts,) = causes(database, pairs(database, past, new))
    assert shown(parts) == [("profile_revision", "load_ms", "30.0", "60.0")]


def test_with_the_same_draws_a_small_difference_is_the_inputs(database: Database) -> None:
    """Twelve simulated items of which each moves by less than two standard errors of its own."""
    pipeline = {
        "schedule": "1f1b",
        "stages": 4,
        "microbatches": 8,
        "p2p_ms": 1,
        "per_op_jitter": {"kind": "lognormal", "cv": 0.3},
    }
    drawn = {"num_gpus": 64, "draws": 64, "pipeline": pipeline}
    a_profile(database, **drawn)
    items = [{"profile": "prod", "overrides": {"seed": seed}} for seed in range(3)]
    past = run(database, *items)
    revise(database, **drawn | {"pipeline": pipeline | {"p2p_ms": 1.2}})
    found = pairs(database, past, run(database, *items))
    moved = [pair.new.per_30_days - pair.past.per_30_days for pair in found]
    errors = [math.hypot(pair.past.se_per_30_days, pair.new.se_per_30_days) for pair in found]
    assert all(0 < part < 2 * error for part, error in zip(moved, errors, strict=True))
    for parts in causes(database, found):
        assert [(part.cause, part.path) for part in parts] == [
            ("profile_revision", "pipeline.p2p_ms")
        ]
    # Other seeds and nothing else: that is sampling, however much it is.
    others = [{"profile": "prod", "overrides": {"seed": seed + 7}} for seed in range(3)]
    reseeded = pairs(database, run(database, *items), run(database, *others))
    for parts in causes(database, reseeded):
        assert [(part.cause, part.path) for part in parts] == [("sampling", "seed")]
