"""The loss by profile adds all items of each side, so that it equals the headline."""

import math

from service.reports.loss_report import ProfileLoss
from service.reports.report_profiles import profile_totals
from service.reports.report_sides import paired
from tests.reports.report_rows import item, missing, point, side


def test_all_items_of_both_sides_are_added() -> None:
    past = side(
        item("a", profile="pa"),
        item("b", profile="pa", period_days=15),
        item("c", profile="pa"),
        missing("d", "failed", profile="pa"),
        item("gone", profile="pc"),
    )
    new = side(
        item("a", profile="pa", found=point(gpu_hours_lost=130.0)),
        missing("c", "failed", profile="pa"),
        item("d", profile="pa", found=point(gpu_hours_lost=7.0)),
        item("came", profile=None, found=point(gpu_hours_lost=500.0)),
    )
    rows = profile_totals(new, past, paired(past, new))
    assert [
        (
            *(row.profile, row.items),
            *(row.past_gpu_hours_lost_per_30_days, row.gpu_hours_lost_per_30_days),
            *(row.items_appeared, row.items_gone, row.items_failed, row.items_returned),
        )
        for row in rows
    ] == [
        (None, 1, 0.0, 500.0, 1, 0, 0, 0),
        ("pa", 2, 400.0, 137.0, 0, 1, 1, 1),
        ("pc", 0, 100.0, 0.0, 0, 1, 0, 0),
    ]
    assert math.fsum(row.gpu_hours_lost_per_30_days for row in rows) == 637.0


def test_without_a_past_there_is_only_now() -> None:
    assert profile_totals(side(item("a")), None, None) == [
        ProfileLoss(
            profile="prod",
            items=1,
            gpu_hours_lost_per_30_days=100.0,
            past_gpu_hours_lost_per_30_days=None,
            items_appeared=0,
            items_gone=0,
            items_failed=0,
            items_returned=0,
        )
    ]
