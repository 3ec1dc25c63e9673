"""Which items of two batches are one scenario."""

from service.reports.report_sides import Paired, paired
from tests.reports.report_rows import item, missing, point, side


def names(found: Paired) -> dict[str, list[object]]:
    return {
        "pairs": [(old.custom_id, new.custom_id) for old, new in found.pairs],
        "appeared": [one.custom_id for one in found.appeared],
        "gone": [one.custom_id for one in found.gone],
        "failed": [(old.custom_id, one.custom_id) for old, one in found.failed],
        "returned": [(old.custom_id, one.custom_id) for old, one in found.returned],
        "ambiguous": list(found.ambiguous),
    }


def test_items_are_paired_by_name_and_profile() -> None:
    past = side(
        item("1", name="a"),
        item("2", name="b", profile=None),
        item("4", name="d"),
    )
    new = side(
        item("x", name="b", profile=None),
        item("y", name="a", profile_revision=2),
        item("v", name="d", profile="other"),
    )
    assert names(paired(past, new)) == {
        "pairs": [("1", "y"), ("2", "x")],
        "appeared": ["v"],
        "gone": ["4"],
        "failed": [],
        "returned": [],
        "ambiguous": [],
    }


def test_what_has_no_numbers_on_a_side_neither_came_nor_went() -> None:
    past = side(item("a"), missing("b", "failed"), missing("c", "failed"), missing("d", "failed"))
    new = side(missing("a", "failed"), item("b"), missing("c", "failed"))
    found = paired(past, new)
    assert names(found) == {
        "pairs": [],
        "appeared": [],
        "gone": [],
        "failed": [("a", "a")],
        "returned": [("b", "b")],
        "ambiguous": [],
    }


def test_items_that_share_a_key_are_told_apart_by_their_custom_ids() -> None:
    past = side(item("1", name="a"), item("2", name="a"), item("3", name="b"))
    new = side(
        item("2", name="a"),
        item("4", name="a"),
        item("5", name="b"),
        item("3", name="b"),
        item("6", name="c"),
        item("7", name="c"),
    )
    assert names(paired(past, new)) == {
        "pairs": [("2", "2"), ("3", "3")],
        "appeared": ["4", "5", "6", "7"],
        "gone": ["1"],
        "failed": [],
        "returned": [],
        "ambiguous": ["a", "b", "c"],
    }


def test_hours_are_of_30_days_and_0_where_there_are_none() -> None:
    short = item(period_days=15)
    assert short.lost_per_30_days == 200.0
    assert short.hours_per_30_days("gpu_hours_useful") == 1400.0
    assert short.hours_per_30_days("gpu_hours_spares") == 0.0
    assert missing("a", "failed").lost_per_30_days == 0.0
    assert item(found=point(gpu_hours_lost=None)).lost_per_30_days == 0.0
