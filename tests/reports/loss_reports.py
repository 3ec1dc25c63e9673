"""Reports to render: an ordinary night, and what is as large, long, odd or empty as can be."""

import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import Literal
from uuid import UUID

from msgspec import structs

from service.reports.changes import change
from service.reports.cost_changes import CostChange
from service.reports.loss_report import (
    SCHEMA,
    BudgetOutcome,
    Headline,
    LossReport,
    PricedDays,
    ProfileLoss,
    ReportItem,
    ReportNotice,
    ReportRun,
    Reproduce,
    WaterfallStep,
)
from service.reports.money import CostStatus, Money, money
from tests.reports.loss_report_parts import (
    CLUSTERS,
    CURRENCY,
    EARLY_RATE,
    LATE_PRICE,
    LATE_RATE,
    START_ON,
    amount_of,
    biggest_movers,
    cluster_item,
    nightly_batch,
    no_cost_change,
    past_loss,
    rate_change,
    tried_remedies,
)

BATCH = "0199c0de-0000-7000-8000-000000000004"
BASELINE = "0199c0de-0000-7000-8000-000000000005"


def realistic() -> LossReport:
    """A nightly report against the night before: one item failed, money is known."""
    items = [cluster_item(number, cluster) for number, cluster in enumerate(CLUSTERS)]
    items.append(
        structs.replace(
            items[8],
            custom_id="eval-b200-next",
            name="B200 evaluation, next size",
            result_id=None,
            missing="failed",
            num_gpus=128,
            step_mean_ms=None,
            ideal_step_ms=None,
            efficiency_fraction=None,
            gpu_hours_available=None,
            gpu_hours_lost=None,
            gpu_hours_lost_p10=None,
            gpu_hours_lost_p90=None,
            gpu_hours_lost_se=None,
            gpu_hours_lost_per_30_days=None,
            method=None,
            cost_of_loss=None,
            cost_of_loss_per_30_days=None,
            cost_status=CostStatus.NO_RATE,
            unpriced_days=None,
            change=None,
            cost_change=None,
            volume=[],
            rates=[],
            causes={},
        )
    )
    return _report(items)


def profiles_of(items: list[ReportItem]) -> list[ProfileLoss]:
    """Of items that stand on both sides, or have no numbers on either."""
    known = [item for item in items if item.missing is None]
    rows = [
        ProfileLoss(
            profile=profile,
            items=sum(item.profile == profile for item in known),
            gpu_hours_lost_per_30_days=math.fsum(
                item.gpu_hours_lost_per_30_days or 0 for item in known if item.profile == profile
            ),
            past_gpu_hours_lost_per_30_days=math.fsum(
                past_loss(item) for item in known if item.profile == profile
            ),
            items_appeared=0,
            items_gone=0,
            items_failed=0,
            items_returned=0,
        )
        for profile in dict.fromkeys(item.profile for item in known)
    ]
    return sorted(rows, key=lambda row: -row.gpu_hours_lost_per_30_days)


def _report(items: list[ReportItem]) -> LossReport:
    known = [item for item in items if item.missing is None]
    past = math.fsum(past_loss(item) for item in known)
    lost = math.fsum(item.gpu_hours_lost_per_30_days or 0 for item in known)
    available = math.fsum(item.gpu_hours_available or 0 for item in known)
    useful = math.fsum(item.causes["gpu_hours_useful"] for item in known)
    changes = [item.cost_change for item in known if item.cost_change]
    cost = sum((amount_of(item.cost_of_loss_per_30_days) for item in known), Fraction(0))
    past_cost = sum((amount_of(found.past) for found in changes), Fraction(0))
    volume_effect = sum((amount_of(found.volume_effect) for found in changes), Fraction(0))
    price_effect = sum((amount_of(found.price_effect) for found in changes), Fraction(0))
    whole = CostChange(
        past=money(past_cost, CURRENCY),
        new=money(cost, CURRENCY),
        difference=money(cost - past_cost, CURRENCY),
        relative=float((cost - past_cost) / past_cost) if past_cost else None,
        volume_effect=money(volume_effect, CURRENCY),
        price_effect=money(price_effect, CURRENCY),
        status="priced",
        past_status=CostStatus.PRICED,
        new_status=CostStatus.PRICED,
    )
    columns = sorted({column for item in known for column in item.causes})
    headline = Headline(
        items=len(items),
        items_compared=len(known),
        gpu_hours_available_per_30_days=available,
        gpu_hours_lost_per_30_days=lost,
        gpu_hours_lost_se_per_30_days=412.0,
        loss_fraction=lost / available if available else 0.0,
        gpu_hours_not_useful_per_30_days=available - useful,
        cost_of_loss_per_30_days=money(cost, CURRENCY),
        cost_status=CostStatus.PRICED,
        gpu_hours_lost_change=change(past, lost),
        cost_of_loss_change=whole,
        volume=[cause for item in known for cause in item.volume],
        rates=[rate_change(money(price_effect, CURRENCY))],
    )
    return LossReport(
        report_id=UUID("0199c0de-0000-7000-8000-000000000001"),
        schema=SCHEMA,
        name="Nightly loss, all clusters",
        made_at=datetime(2026, 11, 30, 1, 31, 7, 204_000, tzinfo=UTC),
        run=ReportRun(
            schedule_id=UUID("0199c0de-0000-7000-8000-000000000002"),
            schedule="nightly-loss",
            run_id=UUID("0199c0de-0000-7000-8000-000000000003"),
            kind="scheduled",
            attempt=1,
            scheduled_for=datetime(2026, 11, 30, 1, 30, tzinfo=UTC),
            local_time="2026-11-30T02:30:00+01:00",
            zone="Europe/Paris",
            tzdata_version="2026.2",
        ),
        batch=nightly_batch(BATCH, 30, "1.9"),
        baseline=nightly_batch(BASELINE, 29, "1.8"),
        baseline_missing=None,
        headline=headline,
        waterfall=[
            WaterfallStep(
                column=column,
                gpu_hours_per_30_days=math.fsum(item.causes.get(column, 0.0) for item in known),
                past_gpu_hours_per_30_days=0.97
                * math.fsum(item.causes.get(column, 0.0) for item in known),
                cost_per_30_days=None
                if column == "gpu_hours_useful"
                else money(
                    Fraction(math.fsum(item.causes.get(column, 0.0) for item in known))
                    * LATE_PRICE,
                    CURRENCY,
                ),
            )
            for column in columns
        ],
        items=items,
        movers=biggest_movers(known),
        remedies=tried_remedies(known),
        warnings=[
            ReportNotice(
                code="failed_points",
                detail="1 of 11 points failed: it is in no sum",
                params={"failed": 1, "total": 11},
                pointer="/items/10",
            ),
            ReportNotice(
                code="a_code_of_tomorrow", detail="Something that no catalog has yet", pointer=""
            ),
        ],
        budget=BudgetOutcome(
            status="over",
            gpu_hours_lost_per_30_days=lost,
            gpu_hours_budget_per_30_days=600_000.0,
            cost_of_loss_per_30_days=money(cost, CURRENCY),
            cost_budget_per_30_days=Money(amount="2000000.00", currency=CURRENCY),
        ),
        profiles=profiles_of(items),
        reproduce=Reproduce(
            commands=[
                "trainard submit nightly.json --wait",
                f"trainard report make --batch {BATCH} --baseline {BASELINE}",
            ],
            model_version="1.9",
            input_digest="sha256:" + "9f" * 32,
            seeds=[0],
            profiles=[f"{item.profile}@{item.profile_revision}" for item in known],
            rate_ids=[EARLY_RATE, LATE_RATE],
            rates_as_of=datetime(2026, 11, 30, 1, 31, tzinfo=UTC),
            trainard_version="0.1.0",
        ),
    )


def without_baseline() -> LossReport:
    """The first night of a schedule: nothing to compare with, no budget."""
    report = realistic()
    return structs.replace(
        report,
        baseline=None,
        baseline_missing="no_earlier_run",
        budget=None,
        movers=[],
        warnings=[],
        headline=structs.replace(
            report.headline,
            items_compared=0,
            gpu_hours_lost_change=None,
            cost_of_loss_change=None,
            volume=[],
            rates=[],
        ),
        waterfall=[
            structs.replace(step, past_gpu_hours_per_30_days=None) for step in report.waterfall
        ],
        items=[
            structs.replace(item, change=None, cost_change=None, volume=[], rates=[])
            for item in report.items
        ],
    )


def without_rate() -> LossReport:
    """The same night in a team that has entered no rate."""
    report = realistic()
    nothing = CostStatus.NO_RATE
    return structs.replace(
        report,
        run=None,
        batch=structs.replace(report.batch, currency=None, rates_as_of=None, run_id=None),
        headline=structs.replace(
            report.headline,
            cost_of_loss_per_30_days=None,
            cost_status=nothing,
            cost_of_loss_change=no_cost_change(),
            rates=[],
        ),
        waterfall=[structs.replace(step, cost_per_30_days=None) for step in report.waterfall],
        items=[
            structs.replace(
                item,
                cost_of_loss=None,
                cost_of_loss_per_30_days=None,
                cost_status=nothing,
                unpriced_days=30,
                cost_change=no_cost_change(),
                rates=[],
                price_days=[
                    PricedDays(first_on=START_ON, days=30, rate_id=None, price_per_gpu_hour=None)
                ],
            )
            for item in report.items
        ],
        movers=[
            structs.replace(mover, cost_difference_per_30_days=None) for mover in report.movers
        ],
        remedies=[
            structs.replace(remedy, cost_given_back_per_30_days=None, cost_status=nothing)
            for remedy in report.remedies
        ],
        budget=BudgetOutcome(
            status="unknown",
            gpu_hours_lost_per_30_days=None,
            gpu_hours_budget_per_30_days=None,
            cost_of_loss_per_30_days=None,
            cost_budget_per_30_days=Money(amount="2000000.00", currency=CURRENCY),
        ),
        reproduce=structs.replace(report.reproduce, rate_ids=[], rates_as_of=None),
    )


def all_failed() -> LossReport:
    """Not one item has numbers."""
    failed = realistic().items[-1]
    report = _report([failed])
    return structs.replace(
        report,
        headline=structs.replace(
            report.headline,
            items=0,
            items_compared=0,
            gpu_hours_lost_se_per_30_days=None,
            cost_of_loss_per_30_days=None,
            cost_status=CostStatus.NO_RATE,
            gpu_hours_lost_change=None,
            cost_of_loss_change=None,
            rates=[],
        ),
        batch=structs.replace(
            report.batch, state="failed", items_total=1, points_total=1, points_failed=1
        ),
        baseline=None,
        baseline_missing="not_a_known_reason",
        budget=structs.replace(
            report.budget, status="unknown", reason_unknown="items_without_numbers"
        )
        if report.budget
        else None,
    )


def extreme() -> LossReport:
    """1 000 items with hostile names, gains, huge and tiny numbers, every cause at once."""
    report = realistic()
    first = report.items[0]
    kinds: list[tuple[Literal["changed", "appeared", "gone"], int]] = [
        ("appeared", 1),
        ("gone", -1),
        ("changed", 0),
        ("appeared", 1),
    ]
    hostile = (
        '=cmd|"/c calc"!A1 <script>alert(1)</script> & Zeichen \u202e\u0007 中文 🧮' + "n" * 60
    )
    items = [
        structs.replace(
            first,
            custom_id=f"item-{number:04d}",
            name=hostile if number % 2 else "",
            profile=None,
            profile_revision=None,
            gpu_hours_lost=-first.gpu_hours_lost if number == 1 and first.gpu_hours_lost else 1e-7,
            gpu_hours_lost_per_30_days=1e14 if number == 2 else -4.2e-9,
            gpu_hours_lost_p10=None,
            gpu_hours_lost_p90=None,
            gpu_hours_lost_se=None,
            cost_of_loss=money(
                -amount_of(first.cost_of_loss) if number == 1 else Fraction(0), CURRENCY
            ),
            cost_of_loss_per_30_days=Money(amount="123456789012345678901234.50", currency=CURRENCY),
            method=None,
            volume=[],
        )
        for number in range(1_000)
    ]
    causes = [
        WaterfallStep(
            column=f"gpu_hours_{name}",
            gpu_hours_per_30_days=hours,
            past_gpu_hours_per_30_days=None,
            cost_per_30_days=None,
        )
        for name, hours in (
            ("useful", 4.1e14), ("spares", 1e12), ("backup_workers", -3e12), ("failures", 2e13),
            ("episodes", 3e13), ("transient", 9e13), ("spikes", 8e11), ("replica", 5e13),
            ("common", 7e11), ("persistent", 6e13), ("node", 4e13), ("slow_groups", 9e13),
            ("communication", 8e13), ("load", 2e13), ("extra_steps", 1e12),
            ("pipeline_bubble", 7e13), ("pipeline_imbalance", 3e13), ("pipeline_p2p", 1e13),
        )
    ]  # fmt: skip
    return structs.replace(
        report,
        name=hostile,
        items=items,
        waterfall=causes,
        movers=[
            structs.replace(
                report.movers[0],
                name=hostile,
                kind=kind,
                difference_per_30_days=sign * 10.0**power,
                past_gpu_hours_lost_per_30_days=None,
                relative=None,
                main_cause=None,
                cost_difference_per_30_days=None,
            )
            for power, (kind, sign) in enumerate(kinds * 3)
        ],
        headline=structs.replace(
            report.headline,
            gpu_hours_lost_per_30_days=-1e14,
            loss_fraction=-0.1,
            gpu_hours_lost_se_per_30_days=0.0,
            cost_status=CostStatus.PARTLY_PRICED,
            cost_of_loss_per_30_days=None,
            gpu_hours_lost_change=change(1e14, 1e14),
        ),
        remedies=[structs.replace(report.remedies[0], kind="a_kind_of_tomorrow", setting=None)],
        reproduce=structs.replace(
            report.reproduce, commands=["trainard submit '" + hostile + "'" * 3], seeds=[]
        ),
    )
