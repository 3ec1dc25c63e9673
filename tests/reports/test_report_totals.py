"""The numbers of a report against sums worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.loss_report import LossReport, VolumeCause
from service.reports.money import CostStatus, Money
from service.reports.price_causes import RateKey
from service.reports.report_sides import ReportSide, paired
from service.reports.report_totals import Compared, ReportNumbers, numbers_of, standard_error
from tests.reports.report_rows import item, missing, point, side, window

BATCH = "01934a5e-7d20-7c3a-9b1e-5f0c1a5e8b21"


def euros(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def cause(hours: float, detail: str = "set by the batch", path: str = "compute_ms") -> VolumeCause:
    return VolumeCause(
        cause="template",
        detail=detail,
        path=path,
        past="1",
        new="2",
        gpu_hours_per_30_days=hours,
    )


def numbers(
    new: ReportSide, past: ReportSide | None = None, *, movers: int = 10, **causes: float
) -> ReportNumbers:
    """With one cause for each item named."""
    compared = None
    if past is not None:
        found = paired(past, new)
        compared = Compared(
            past=past,
            paired=found,
            volume=[
                [cause(causes[one.custom_id])] if one.custom_id in causes else []
                for _, one in found.pairs
            ],
            keys={"rate-2.00": RateKey(gpu_type="H100", cost_center=None)},
        )
    return numbers_of(BATCH, new, compared, movers=movers)


def test_costs_of_windows_of_30_days_add_up_to_the_headline() -> None:
    """Half a cent each: rounded alone, all three would be nothing."""
    halves = [
        item(name, found=point(gpu_hours_lost=0.0025), window=window(("2.00", 30)))
        for name in "abc"
    ]
    week = item("d", period_days=7, found=point(gpu_hours_lost=1.0), window=window(("2.00", 7)))
    found = numbers(side(*halves))
    assert [one.cost_of_loss for one in found.items] == [
        euros("0.01"),
        euros("0.01"),
        euros("0.00"),
    ]
    assert found.headline.cost_of_loss_per_30_days == euros("0.02")
    (alone,) = numbers(side(week)).items
    assert (alone.cost_of_loss, alone.cost_of_loss_per_30_days) == (euros("2.00"), euros("8.57"))


def test_the_headline_sums_30_days_of_what_has_numbers() -> None:
    found = numbers(
        side(
            item("a", period_days=15),
            item("b", found=point(gpu_hours_lost=50.0)),
            missing("c", "no_headline"),
        )
    ).headline
    assert found.items == 2
    assert found.gpu_hours_available_per_30_days == 3000.0
    assert found.gpu_hours_lost_per_30_days == 250.0
    assert found.gpu_hours_not_useful_per_30_days == 900.0
    assert found.loss_fraction == 250.0 / 3000.0
    assert (found.cost_of_loss_per_30_days, found.cost_status) == (euros("500.00"), "priced")
    assert (found.items_compared, found.gpu_hours_lost_change) == (0, None)
    assert (found.cost_of_loss_change, found.volume, found.rates) == (None, [], [])


def test_a_batch_without_any_number() -> None:
    found = numbers(side(missing("a", "failed")), side(item("a")))
    assert found.headline.loss_fraction == 0.0
    assert found.headline.gpu_hours_lost_change is None
    assert found.headline.cost_status is CostStatus.NO_RATE
    assert [step.gpu_hours_per_30_days for step in found.waterfall] == [0.0, 0.0, 0.0]
    assert [(one.custom_id, one.kind) for one in found.movers] == [("a", "failed")]
    assert numbers(side(missing("a", "failed"))).movers == []


def test_the_change_is_of_what_both_have() -> None:
    past = side(item("a"), item("b"), item("gone"))
    new = side(
        item("a", found=point(gpu_hours_lost=130.0)),
        item("b", found=point(gpu_hours_lost=90.0)),
        item("came"),
    )
    found = numbers(new, past, a=30.0, b=-10.0)
    change = found.headline.gpu_hours_lost_change
    assert change is not None
    assert (change.past, change.new, change.difference) == (200.0, 220.0, 20.0)
    assert change.relative == pytest.approx(0.1)
    assert found.headline.items_compared == 2
    assert found.headline.gpu_hours_lost_per_30_days == 320.0
    (volume,) = found.headline.volume
    assert (volume.gpu_hours_per_30_days, volume.path) == (20.0, "compute_ms")
    cost = found.headline.cost_of_loss_change
    assert cost is not None
    assert (cost.difference, cost.volume_effect) == (euros("40.00"), euros("40.00"))
    assert cost.price_effect == euros("0.00")
    (rate,) = found.headline.rates
    assert (rate.rate_id, rate.gpu_type, rate.effect) == ("rate-2.00", "H100", euros("0.00"))


def test_movers_changed_came_or_went_the_largest_first() -> None:
    past = side(item("a"), item("same"), item("gone", found=point(gpu_hours_lost=20.0)))
    new = side(
        item("came", found=point(gpu_hours_lost=40.0)),
        item("same"),
        item("a", found=point(gpu_hours_lost=70.0)),
    )
    found = numbers(new, past, a=-30.0).movers
    assert [(one.custom_id, one.kind) for one in found] == [
        ("came", "appeared"),
        ("a", "changed"),
        ("gone", "gone"),
    ]
    came, changed, gone = found
    assert (came.difference_per_30_days, came.past_gpu_hours_lost_per_30_days) == (40.0, None)
    assert (came.cost_difference_per_30_days, came.relative) == (euros("80.00"), None)
    assert changed.difference_per_30_days == -30.0
    assert changed.relative == pytest.approx(-0.3)
    assert changed.cost_difference_per_30_days == euros("-60.00")
    assert changed.main_cause == cause(-30.0)
    assert (gone.difference_per_30_days, gone.new_gpu_hours_lost_per_30_days) == (-20.0, None)
    assert gone.cost_difference_per_30_days == euros("-40.00")
    assert [one.custom_id for one in numbers(new, past, movers=1).movers] == ["came"]


def test_what_failed_or_came_back_is_a_mover() -> None:
    """Its headline has numbers on one side only: nobody may read that nothing moved."""
    past = side(
        item("same"), item("big", found=point(gpu_hours_lost=900.0)), missing("b", "failed")
    )
    new = side(item("same"), missing("big", "failed"), item("b", found=point(gpu_hours_lost=50.0)))
    found = numbers(new, past)
    failed, returned = found.movers
    assert (failed.custom_id, failed.kind) == ("big", "failed")
    assert (failed.past_gpu_hours_lost_per_30_days, failed.new_gpu_hours_lost_per_30_days) == (
        900.0,
        None,
    )
    assert failed.difference_per_30_days == -900.0
    assert failed.cost_difference_per_30_days == euros("-1800.00")
    assert (returned.custom_id, returned.kind, returned.difference_per_30_days) == (
        "b",
        "returned",
        50.0,
    )
    assert returned.cost_difference_per_30_days == euros("100.00")
    head = found.headline
    assert head.gpu_hours_lost_change is not None
    assert head.gpu_hours_lost_change.difference == 0.0
    assert (head.gpu_hours_lost_per_30_days, head.past_gpu_hours_lost_per_30_days) == (
        150.0,
        1000.0,
    )
    assert (head.items_failed, head.items_returned) == (1, 1)
    assert (head.items_appeared, head.items_gone, head.is_compared_in_part) == (0, 0, True)
    assert not numbers(past, past).headline.is_compared_in_part
    alone = numbers(new).headline
    assert (alone.past_gpu_hours_lost_per_30_days, alone.is_compared_in_part) == (None, False)


def test_what_went_has_no_cost_in_another_currency_or_without_a_rate() -> None:
    gone = side(item("gone"), currency="USD")
    (mover,) = numbers(side(missing("a", "failed")), gone).movers
    assert mover.cost_difference_per_30_days is None
    unpriced = side(item("gone", window=window(unpriced=30)))
    (mover,) = numbers(side(missing("a", "failed")), unpriced).movers
    assert mover.cost_difference_per_30_days is None
    without = side(item("gone"), currency=None)
    (mover,) = numbers(side(missing("a", "failed"), currency=None), without).movers
    assert mover.cost_difference_per_30_days is None


def test_the_waterfall_has_what_takes_time_on_either_side() -> None:
    past = side(item("a", found=point(gpu_hours_useful=600.0, gpu_hours_spikes=100.0)))
    found = numbers(side(item("a")), past).waterfall
    assert [
        (step.column, step.gpu_hours_per_30_days, step.past_gpu_hours_per_30_days) for step in found
    ] == [
        ("gpu_hours_useful", 700.0, 600.0),
        ("gpu_hours_transient", 100.0, 100.0),
        ("gpu_hours_spikes", 0.0, 100.0),
        ("gpu_hours_communication", 200.0, 200.0),
    ]
    assert [step.cost_per_30_days for step in found] == [
        euros("1400.00"),
        euros("200.00"),
        euros("0.00"),
        euros("400.00"),
    ]
    alone = numbers(side(item("a"), currency=None)).waterfall
    assert {step.cost_per_30_days for step in alone} == {None}
    assert {step.past_gpu_hours_per_30_days for step in alone} == {None}


HOURS = st.floats(1e-6, 1e9)


@given(st.lists(st.tuples(HOURS, HOURS, HOURS, st.integers(1, 90)), min_size=1, max_size=8))
def test_the_waterfall_sums_to_what_is_available_exactly(
    rows: list[tuple[float, float, float, int]],
) -> None:
    items = [
        item(
            str(place),
            period_days=days,
            found=point(
                gpu_hours_available=useful + waited + exchanged,
                gpu_hours_useful=useful,
                gpu_hours_transient=waited,
                gpu_hours_communication=exchanged,
            ),
        )
        for place, (useful, waited, exchanged, days) in enumerate(rows)
    ]
    found = numbers(side(*items))
    steps = math.fsum(step.gpu_hours_per_30_days for step in found.waterfall)
    assert steps == found.headline.gpu_hours_available_per_30_days


def test_items_have_their_own_window_and_30_days() -> None:
    past = side(item("a", period_days=15))
    new = side(
        item("a", period_days=15, found=point(gpu_hours_lost=110.0)),
        missing("m", "not_computed", window=window(("2.00", 20), unpriced=10)),
    )
    found, none = numbers(new, past, a=20.0).items
    assert found.result_id == f"{BATCH}.3"
    assert (found.gpu_hours_lost, found.gpu_hours_lost_per_30_days) == (110.0, 220.0)
    assert (found.cost_of_loss, found.cost_of_loss_per_30_days) == (
        euros("220.00"),
        euros("440.00"),
    )
    assert (found.num_gpus, found.method, found.unpriced_days) == (8, "quadrature", 0)
    assert found.causes == {
        "gpu_hours_useful": 700.0,
        "gpu_hours_transient": 100.0,
        "gpu_hours_communication": 200.0,
    }
    assert found.change is not None
    assert found.change.difference == 20.0
    assert found.cost_change is not None
    assert found.cost_change.difference == euros("40.00")
    assert found.volume == [cause(20.0)]
    assert [rate.effect for rate in found.rates] == [euros("0.00")]
    assert (none.missing, none.result_id, none.num_gpus, none.causes) == (
        "not_computed",
        None,
        None,
        {},
    )
    assert (none.cost_of_loss, none.cost_status, none.unpriced_days) == (None, "partly_priced", 10)
    assert (none.gpu_hours_lost, none.gpu_hours_lost_per_30_days, none.change) == (None, None, None)


def test_an_item_without_a_rate_has_no_cost() -> None:
    (found,) = numbers(side(item("a", window=window(unpriced=30)))).items
    assert (found.cost_of_loss, found.cost_status) == (None, "no_rate")


def test_errors_of_one_seed_are_added_and_those_of_several_are_independent() -> None:
    drawn = {name: item(name, found=point(gpu_hours_lost_se=3.0)) for name in "ab"}
    other = item("c", seed=1, found=point(gpu_hours_lost_se=8.0))
    assert standard_error([*drawn.values(), other]) == 10.0
    assert standard_error([item("a")]) is None
    assert standard_error([]) is None


def test_the_document_has_what_is_computed() -> None:
    # What is not rounded is only for the budget.
    fields = set(ReportNumbers.__struct_fields__) - {"exact_cost"}
    assert fields <= set(LossReport.__struct_fields__)
