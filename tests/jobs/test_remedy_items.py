"""Items of a batch that try remedies, on both databases: from submission to comparison."""

from datetime import date
from typing import Any

import msgspec
import numpy as np
import pytest

from service.db import batches as batch_rows
from service.db.codec import unpack
from service.db.encoded_blocks import EncodedBlock
from service.db.engine import Database
from service.errors import InvalidError
from service.jobs import batches, comparisons, rates, results
from service.jobs.actors import Actor
from service.jobs.batch_documents import RetryIn
from service.jobs.batch_retries import retry
from service.jobs.chunks import ItemSpan, compute_chunk, grid_of
from service.jobs.comparisons import ComparisonQuery
from service.jobs.rate_documents import RateIn
from service.jobs.result_queries import ResultsQuery
from service.model.remedy.remedy_grid import RemedyGrid
from service.reports.money import CostStatus, Money
from tests.jobs.batch_bodies import ACTOR, LIMITS, SEED, cancel, item, read, rows, run, submit
from tests.jobs.completed import complete

FOUND = 176_008.48806366057
RATE = RateIn(
    gpu_type="H100",
    price_per_gpu_hour=Money(amount="1.00", currency="EUR"),
    valid_from=date(2026, 1, 1),
    source="memo",
)
KINDS = ["replace_slow_gpus", "evict_worst", "hot_spares", "rebalance_work", "backup_workers"]


def remedies(**changes: Any) -> dict[str, Any]:
    asked = [{"kind": kind} for kind in KINDS]
    return item(analysis="remedies", **{"remedies": asked, **changes})


def fleet() -> list[dict[str, Any]]:
    """Two clusters of 64 and 1 024 with one slow GPU each."""
    small = {**SEED, "num_gpus": 64}
    return [
        remedies(custom_id="small", scenario=small, remedies=[{"kind": "replace_slow_gpus"}]),
        remedies(custom_id="large"),
    ]


def faults(database: Database, *items: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidError) as caught:
        submit(database, *items)
    return {fault.pointer: fault.code for fault in caught.value.errors}


def test_an_item_has_the_scenario_as_it_is_and_a_point_for_each_remedy(database: Database) -> None:
    batch = run(database, remedies())
    assert batch.state == "succeeded"
    assert batch.points_total == batch.points_done == 6
    found = rows(database, batch=batch.id)
    assert [row.result.remedy for row in found] == [None, *KINDS]
    baseline, replaced, evicted, spare, *_ = found
    assert baseline.result.gpu_hours_lost == pytest.approx(FOUND, rel=1e-12)
    assert baseline.result.remedy_count is None
    assert baseline.result.gpu_hours_given_back is None
    assert baseline.inputs == {"remedy": None, "remedy_setting": None}
    assert replaced.result.gpu_hours_given_back == pytest.approx(FOUND, rel=1e-12)
    assert spare.inputs == {"remedy": "hot_spares", "remedy_setting": {"count": 1}}
    assert spare.result.gpu_hours_given_back == pytest.approx(FOUND - 720, rel=1e-12)
    assert (spare.result.remedy_count, evicted.result.remedy_count) == (1, 1)


def test_without_a_list_every_kind_is_tried(database: Database) -> None:
    batch = run(database, remedies(remedies=[]))
    found = rows(database, batch=batch.id)
    tried = [row.inputs["remedy"] for row in found]
    waiting = ["overlap_buckets"] * 2 + ["prefetch_load"] + ["local_steps"] * 3
    assert tried == [None, *KINDS, *waiting, "delayed_update"]
    assert [row.inputs["remedy_setting"] for row in found[-5:-1]] == [
        None,
        *({"steps": steps} for steps in (10, 100, 500)),
    ]
    # 110 + 300 / 0.7 ms against 80 / H + 30 + 300 / 0.7, at the ideal step of 410.
    slow, kept = 110 + 300 / 0.7, 30 + 300 / 0.7
    for row, steps in zip(found[-4:-1], (10, 100, 500), strict=True):
        after = kept + 80 / steps
        hours = 1024 * 720 * 410 * (1 / after - 1 / slow)
        assert row.result.gpu_hours_given_back == pytest.approx(hours, rel=1e-9)
        gain = row.result.break_even_extra_steps_fraction
        assert gain == pytest.approx(slow / after - 1, rel=1e-9)


def test_remedies_of_the_whole_fleet_are_sorted_by_what_they_give_back(
    database: Database,
) -> None:
    batch = run(database, *fleet(), item(custom_id="plain"))
    found = rows(
        database,
        batch=batch.id,
        where=("remedy:is_null:false",),
        order_by="-gpu_hours_given_back",
    )
    hours = [row.result.gpu_hours_given_back for row in found]
    assert hours == sorted(hours, reverse=True)
    assert {row.custom_id for row in found} == {"small", "large"}
    of_kind = rows(database, batch=batch.id, where=("remedy:eq:replace_slow_gpus",))
    assert [row.custom_id for row in of_kind] == ["small", "large"]
    with_spares = rows(database, batch=batch.id, where=("num_spare_gpus:ge:1",))
    assert [row.result.remedy for row in with_spares] == ["hot_spares"]


def test_the_headline_is_the_scenario_as_it_is(database: Database) -> None:
    batch = run(database, *fleet())
    with database.read() as connection:
        items = batch_rows.list_items(connection, [batch.id])
    assert [row.headline_point for row in items] == [0, 2]
    assert items[0].axes == [{"remedies": [{"kind": "replace_slow_gpus"}]}]


def test_a_result_says_the_whole_scenario_of_its_remedy(database: Database) -> None:
    batch = run(database, remedies())
    with database.read() as connection:
        detail = results.read_one(connection, ACTOR, f"{batch.id}.3")
    assert detail.provenance.scenario["num_spare_gpus"] == 1
    assert detail.provenance.reproduce["scenario"]["slow_groups"] == (
        {**SEED["slow_groups"][0], "placement": "random"},
    )


def test_remedies_of_a_pipeline_are_points_like_others(database: Database) -> None:
    pipeline = {"schedule": "gpipe", "stages": 8, "microbatches": 4}
    alone = {**SEED, "num_gpus": 64, "slow_groups": [], "pipeline": pipeline}
    kinds = ("more_microbatches", "interleave_stages", "change_schedule", "fewer_stages")
    asked = [{"kind": kind} for kind in kinds]
    batch = run(database, remedies(scenario=alone, remedies=asked))
    assert (batch.state, batch.points_failed) == ("succeeded", 0)
    found = rows(database, batch=batch.id)
    tried = [row.inputs["remedy"] for row in found]
    assert tried == [None, kinds[0], kinds[0], kinds[1], kinds[1], kinds[2], kinds[3]]
    settings = [row.inputs["remedy_setting"] for row in found]
    assert settings[1:5] == [
        *({"microbatch_factor": 2}, {"microbatch_factor": 4}),
        *({"chunks_per_stage": 2}, {"chunks_per_stage": 4}),
    ]
    # (M + P - 1) / M of 300 ms, and 110 beside it
    steps = [row.result.step_mean_ms for row in found]
    by_hand = [300 * (number + 7) / number + 110 for number in (4, 8, 16)]
    assert steps[:3] == pytest.approx(by_hand, rel=1e-12)
    assert steps[6] == pytest.approx(300 * 5 / 2 + 110, rel=1e-12)
    assert [row.result.peak_microbatches_in_flight for row in found[:3]] == [4, 8, 16]
    assert found[1].result.gpu_hours_given_back == pytest.approx(
        64 * 720 * 410 * (1 / steps[1] - 1 / steps[0]), rel=1e-9
    )


def test_remedies_are_compared_by_their_kind_and_setting(database: Database) -> None:
    worse = {**SEED, "slow_groups": [{"count": 1, "speed_fraction": 0.5}]}
    past, new = run(database, remedies()), run(database, remedies(scenario=worse))
    with database.read() as connection:
        query = ComparisonQuery(baseline=past.id, candidate=new.id, columns="gpu_hours_given_back")
        compared = comparisons.compare(connection, ACTOR, query, page_size=50)
    assert compared.matched == 6
    # Headlines alone are added: the scenario as it is, before and after.
    assert compared.summary.items == 1
    spare = next(row for row in compared.items if row.key["remedy"] == "hot_spares")
    assert spare.key["remedy_setting"] == {"count": 1}
    change = spare.difference["gpu_hours_given_back"]
    assert change == pytest.approx(1024 * 720 * (410 / (110 + 300 / 0.7) - 410 / 710), rel=1e-9)


def test_any_cut_into_chunks_gives_the_same_columns(database: Database) -> None:
    batch = submit(database, remedies())
    with database.read() as connection:
        (row,) = batch_rows.list_items(connection, [batch.id])
    grid = grid_of(*_documents(row))
    assert isinstance(grid, RemedyGrid)
    span = ItemSpan(
        position=0,
        scenario=_documents(row)[0],
        axes=_documents(row)[1],
        first_point=0,
        num_points=6,
    )
    whole = compute_chunk(0, [span], ["num_spare_gpus"])
    later = compute_chunk(2, [span], ["num_spare_gpus"], 2)
    assert (whole.progress, later.progress) == ([(0, 6, 0)], [(0, 2, 0)])
    columns = [{block.column: _values(block) for block in chunk.blocks} for chunk in (whole, later)]
    for name, values in columns[1].items():
        np.testing.assert_array_equal(values, columns[0][name][4:], err_msg=name)


def test_equal_remedies_are_taken_over_and_others_are_not(database: Database) -> None:
    first = run(database, remedies())
    again = run(database, remedies())
    assert again.reused_from == first.id
    fewer = run(database, remedies(remedies=[{"kind": "hot_spares", "counts": [2]}]))
    plain = run(database, item())
    assert fewer.reused_from is None
    assert plain.reused_from is None
    assert len({batch.input_digest for batch in (first, fewer, plain)}) == 3
    assert again.input_digest == first.input_digest
    both = [rows(database, batch=batch.id) for batch in (first, again)]
    assert [row.result for row in both[0]] == [row.result for row in both[1]]


def test_a_retry_computes_the_same_remedies(database: Database) -> None:
    batch = submit(database, remedies())
    cancel(database, batch.id)
    complete(database)
    with database.write() as connection:
        taken_up = retry(connection, ACTOR, batch.id, RetryIn(), LIMITS)
    complete(database)
    assert read(database, taken_up.id).points_done == 6
    assert [row.result.remedy for row in rows(database, batch=taken_up.id)] == [None, *KINDS]


def test_what_does_not_go_with_the_analysis_is_refused(database: Database) -> None:
    axis = {"path": "num_gpus", "values": [8, 16]}
    assert faults(
        database,
        remedies(axes=[axis], headline={"num_gpus": 8}),
        item(custom_id="b", remedies=[{"kind": "hot_spares"}]),
        remedies(custom_id="c", remedies=[{"kind": "hot_spares", "mean_hours": [1]}]),
        remedies(custom_id="d", scenario={**SEED, "num_gpus": 0}),
    ) == {
        "/items/0/axes": "axes_of_remedies",
        "/items/0/headline": "headline_of_remedies",
        "/items/1/remedies": "not_analysed",
        "/items/2/remedies/0/mean_hours": "setting_not_read",
        "/items/3/scenario/num_gpus": "out_of_range",
    }


def test_axes_cannot_smuggle_remedies_in(database: Database) -> None:
    (pointer,) = faults(database, item(axes=[{"remedies": [{"kind": "hot_spares"}]}]))
    assert pointer.startswith("/items/0/axes/0")


def test_what_is_given_back_is_priced_and_withheld(database: Database) -> None:
    with database.write() as connection:
        rates.create_rate(connection, ACTOR, RATE)
    priced = item(analysis="remedies", pricing={"gpu_type": "H100"})
    batch = run(database, priced, currency="EUR", start_on="2026-12-01")
    found = rows(database, batch=batch.id)
    assert found[0].money_given_back is None
    assert found[1].money_given_back == Money(amount="176008.49", currency="EUR")
    viewer = Actor(scopes=frozenset({"results:read"}))
    with database.read() as connection:
        page = results.list_page(connection, viewer, ResultsQuery(batch=batch.id))
    assert {row.money_given_back for row in page.items} == {None}
    assert {row.cost_status for row in page.items} == {CostStatus.WITHHELD}


def test_a_check_counts_the_points(database: Database) -> None:
    with database.read() as connection:
        body = {"name": "x", "items": [remedies()]}
        plan = batches.check(connection, ACTOR, body, LIMITS)
    assert plan.points_total == plan.items[0].points == 6
    assert plan.items[0].headline_point == 0


def _values(block: EncodedBlock) -> Any:
    packed = block.packed
    return unpack(packed.kind, packed.num_rows, packed.data)


def _documents(row: Any) -> tuple[bytes, bytes]:
    return msgspec.json.encode(row.scenario), msgspec.json.encode(row.axes)
