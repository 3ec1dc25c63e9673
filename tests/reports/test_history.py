from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from service.reports.history import HistoryRow, Run, loss_history, previous_runs
from service.reports.loss_report import VolumeCause
from service.reports.money import CostStatus, Money
from service.reports.pricing import PricedWindow, RateLine
from service.reports.sampling import Sampling

FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))


def run(batch_id: UUID, lost: float, *, period_days: int = 30, price: str = "1.00") -> Run:
    line = RateLine(rate_id="r", price=Decimal(price), days=period_days)
    return Run(
        scenario="one slow GPU",
        batch_id=batch_id,
        batch_name="nightly",
        batch_created_at=datetime(2026, 12, 1, tzinfo=UTC),
        point=7,
        profile="prod",
        profile_revision=1,
        custom_id="a",
        start_on=date(2026, 12, 1),
        period_days=period_days,
        num_gpus=64,
        ideal_step_ms=410.0,
        step_mean_ms=538.5714285714287,
        efficiency_fraction=0.7612732095490715,
        gpu_hours_available=1536.0 * period_days,
        gpu_hours_lost=lost,
        gpu_hours_not_useful=2 * lost,
        model_version="1.0",
        currency="EUR",
        window=PricedWindow(lines=(line,)),
    )


def euros(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def test_a_run_has_a_day_and_30_days() -> None:
    (row,) = loss_history([run(FIRST, 11000.53, price="2.10")])
    assert row.result_id == f"{FIRST}.7"
    assert row.end_on == date(2026, 12, 31)
    assert row.gpu_hours_lost_per_30_days == 11000.53
    assert row.gpu_hours_not_useful_per_30_days == 22001.06
    assert row.gpu_hours_lost_per_day == pytest.approx(366.684333)
    assert row.cost_of_loss_per_30_days == euros("23101.11")
    assert row.cost_of_loss_per_day == euros("770.04")
    assert row.cost_status is CostStatus.PRICED
    assert row.change is None
    decoded = msgspec.json.decode(msgspec.json.encode([row]), type=list[HistoryRow])
    assert decoded == [row]


def test_windows_of_other_lengths_are_compared_on_30_days() -> None:
    _, row = loss_history([run(FIRST, 300.0), run(SECOND, 70.0, period_days=7, price="1.50")])
    assert row.gpu_hours_lost_per_30_days == pytest.approx(300.0)
    found = row.change
    assert found is not None
    assert found.gpu_hours_lost_per_30_days.difference == 0.0
    assert found.cost_of_loss_per_30_days.volume_effect == euros("0.00")
    assert found.cost_of_loss_per_30_days.price_effect == euros("150.00")
    assert found.window_overlaps
    assert not found.ideal_changed
    assert not found.profile_revision_changed
    assert not found.model_version_changed
    assert found.previous_result_id == f"{FIRST}.7"


def test_what_changed_beside_the_loss_is_said() -> None:
    new = msgspec.structs.replace(
        run(SECOND, 200.0),
        ideal_step_ms=300.0,
        profile_revision=2,
        model_version="1.1",
        start_on=date(2026, 12, 31),
    )
    change = loss_history([run(FIRST, 200.0), new])[1].change
    assert change is not None
    assert change.ideal_changed
    assert change.profile_revision_changed
    assert change.model_version_changed
    assert not change.window_overlaps
    split = change.lost_split
    assert split is not None
    assert split.gpu_hours_ideal is not None
    assert split.gpu_hours_excess is not None
    assert split.gpu_hours_ideal + split.gpu_hours_excess == pytest.approx(0, abs=1e-9)
    assert split.gpu_hours_ideal > 0


def test_the_run_before_is_of_the_same_profile_in_another_batch() -> None:
    other = msgspec.structs.replace(run(SECOND, 5.0), profile=None)
    rows = loss_history([run(FIRST, 1.0), other, run(THIRD, 2.0), run(THIRD, 3.0)])
    assert rows[1].change is None
    for row in rows[2:]:
        assert row.change is not None
        assert row.change.gpu_hours_lost_per_30_days.past == 1.0


def test_runs_that_share_a_name_follow_their_own_custom_id() -> None:
    def twin(batch_id: UUID, custom_id: str, lost: float, *, shares_name: bool = True) -> Run:
        return replace(run(batch_id, lost), custom_id=custom_id, shares_name=shares_name)

    runs = [
        *(twin(FIRST, "n1", 655.0), twin(FIRST, "n2", 1432.0)),
        # The other one is away for a night: nobody else has the name, or did in the batch before.
        twin(SECOND, "n2", 1432.0, shares_name=False),
        *(twin(THIRD, "n2", 1432.0), twin(THIRD, "n1", 655.0), twin(THIRD, "n3", 5.0)),
    ]
    past = [None if one is None else (one.batch_id, one.custom_id) for one in previous_runs(runs)]
    assert past == [None, None, (FIRST, "n2"), (SECOND, "n2"), (FIRST, "n1"), None]
    alone = [twin(FIRST, "x", 1.0, shares_name=False), twin(SECOND, "y", 2.0, shares_name=False)]
    assert previous_runs(alone) == [None, alone[0]]
    assert [one.series[2] for one in (*runs[:1], *alone)] == ["n1", None, None]


def test_withheld_history_shows_no_money() -> None:
    rows = loss_history([run(FIRST, 1.0), run(SECOND, 2.0)], withhold=True)
    assert rows[1].cost_of_loss_per_day is rows[1].cost_of_loss_per_30_days is None
    assert rows[1].cost_status is CostStatus.WITHHELD
    assert rows[1].change is not None
    assert rows[1].change.cost_of_loss_per_30_days.status == "withheld"


def test_nothing_has_no_history() -> None:
    assert loss_history([]) == []


def test_a_run_shows_the_spread_of_its_own_window() -> None:
    sampled = replace(
        run(FIRST, 70.0, period_days=7),
        gpu_hours_lost_p10=60.0,
        gpu_hours_lost_p50=69.0,
        gpu_hours_lost_p90=80.0,
        gpu_hours_lost_se=0.5,
    )
    (row,) = loss_history([sampled])
    assert (row.gpu_hours_lost_p10, row.gpu_hours_lost_p50, row.gpu_hours_lost_p90) == (60, 69, 80)
    assert row.gpu_hours_lost_se == 0.5


@pytest.mark.parametrize(
    ("past", "new", "seeds", "expected"),
    [
        # Over 7 days 0.7 is 3 over 30.
        ((4.0, 30), (0.7, 7), (0, 1), (5.0, "independent")),
        ((4.0, 30), (0.7, 7), (0, 0), (5.0, "common_seed")),
        ((4.0, 30), (0.0, 30), (0, 0), (4.0, "independent")),
        ((0.0, 30), (0.0, 30), (0, 0), (0.0, "exact")),
        ((None, 30), (3.0, 30), (None, 0), (None, "independent")),
        ((None, 30), (0.0, 30), (None, None), (None, "exact")),
    ],
)
def test_a_change_states_its_standard_error(
    past: tuple[float | None, int],
    new: tuple[float | None, int],
    seeds: tuple[int | None, int | None],
    expected: tuple[float | None, Sampling],
) -> None:
    runs = [
        replace(run(batch_id, lost, period_days=days), gpu_hours_lost_se=error, seed=seed)
        for batch_id, lost, (error, days), seed in zip(
            (FIRST, SECOND), (300.0, 100.0), (past, new), seeds, strict=True
        )
    ]
    change = loss_history(runs)[1].change
    assert change is not None
    assert change.sampling == expected[1]
    assert change.standard_error_per_30_days == (
        None if expected[0] is None else pytest.approx(expected[0])
    )


def test_a_change_beyond_all_numbers_has_an_error_all_the_same() -> None:
    runs = [
        replace(run(FIRST, -1.5e308), gpu_hours_lost_se=3.0),
        replace(run(SECOND, 1.5e308), gpu_hours_lost_se=4.0),
    ]
    change = loss_history([replace(one, window=None, currency=None) for one in runs])[1].change
    assert change is not None
    assert change.gpu_hours_lost_per_30_days.difference is None
    assert change.standard_error_per_30_days == 5.0


def test_scenarios_follow_their_own() -> None:
    """Runs of many scenarios in one list are each compared with the same one's."""
    runs = [
        replace(run(batch, float(place)), scenario=name, point=place)
        for batch in (FIRST, SECOND)
        for place, name in enumerate(("a", "b"))
    ]
    rows = loss_history(runs)
    previous = [row.change.previous_result_id if row.change else None for row in rows]
    assert previous == [None, None, f"{FIRST}.0", f"{FIRST}.1"]
    assert [row.scenario for row in rows] == ["a", "b", "a", "b"]
    # A part of a longer history knows the runs before it.
    assert loss_history(runs[2:], runs[:2]) == rows[2:]


def test_causes_stand_where_a_report_has_told_them() -> None:
    cause = VolumeCause(
        cause="template", detail="d", path=None, past=None, new=None, gpu_hours_per_30_days=1.0
    )
    told = {(SECOND, 7, FIRST, 7): [cause]}
    changes = [row.change for row in loss_history([run(FIRST, 1.0), run(SECOND, 2.0)], told=told)]
    assert changes[1] is not None
    assert (changes[1].causes_status, changes[1].volume) == ("told", [cause])
    (_, row) = loss_history([run(FIRST, 1.0), run(SECOND, 2.0)])
    assert row.change is not None
    assert (row.change.causes_status, row.change.volume) == ("not_told", None)
    assert [(rate.rate_id, rate.past_days, rate.new_days) for rate in row.change.rates] == [
        ("r", 30, 30)
    ]
