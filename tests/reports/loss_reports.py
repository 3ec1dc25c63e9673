"""Reports to render: an ordinary night, and what is as large, long, odd or empty as can be."""

import math
from datetime import UTC, date, datetime
from fractions import Fraction
from uuid import UUID

from msgspec import structs

from service.reports.changes import change
from service.reports.cost_changes import CostChange
from service.reports.loss_report import (
    SCHEMA,
    BudgetOutcome,
    Headline,
    LossReport,
    Mover,
    PricedDays,
    RateChange,
    ReportBatch,
    ReportItem,
    ReportNotice,
    ReportRemedy,
    ReportRun,
    Reproduce,
    VolumeCause,
    WaterfallStep,
)
from service.reports.money import CostStatus, Money, money

CURRENCY = "EUR"
EARLY_PRICE, LATE_PRICE = Fraction("2.10"), Fraction("2.25")
EARLY_RATE, LATE_RATE = (
    "0199c0de-0000-7000-8000-0000000000a1",
    "0199c0de-0000-7000-8000-0000000000a2",
)
START_ON = date(2026, 12, 1)

# name, profile, GPUs, load ms, compute ms, communication ms, what is lost by cause as a fraction of
# the nominal step, past loss over new loss
_CLUSTERS: tuple[tuple[str, str, int, float, float, float, dict[str, float], float], ...] = (
    (
        "H100 production",
        "prod-h100",
        1024,
        30,
        300,
        80,
        {"slow_groups": 0.22, "transient": 0.071, "failures": 0.018},
        0.88,
    ),
    (
        "H100 research",
        "research-h100",
        512,
        24,
        310,
        70,
        {"transient": 0.065, "persistent": 0.041, "failures": 0.012},
        1.06,
    ),
    (
        "B200 pre-training",
        "pretrain-b200",
        2048,
        12,
        410,
        95,
        {
            "pipeline_bubble": 0.11,
            "pipeline_imbalance": 0.024,
            "pipeline_p2p": 0.012,
            "transient": 0.034,
            "failures": 0.031,
        },
        1.0,
    ),
    (
        "A100 fine-tuning",
        "tune-a100",
        256,
        35,
        280,
        60,
        {"episodes": 0.083, "transient": 0.052, "node": 0.021},
        0.97,
    ),
    ("H100 vision", "vision-h100", 384, 60, 190, 45, {"spikes": 0.037, "transient": 0.058}, 1.31),
    (
        "H200 long context",
        "long-h200",
        768,
        18,
        520,
        110,
        {"replica": 0.066, "transient": 0.031, "common": 0.009, "failures": 0.022},
        0.93,
    ),
    (
        "A100 speech",
        "speech-a100",
        128,
        22,
        160,
        35,
        {"transient": 0.049, "persistent": 0.018},
        1.02,
    ),
    ("H100 reinforcement", "rl-h100", 320, 40, 240, 50, {"load": 0.0, "replica": 0.12}, 0.82),
    ("B200 evaluation", "eval-b200", 64, 15, 120, 20, {"transient": 0.041}, 1.0),
    (
        "L40S recommendation",
        "rec-l40s",
        192,
        55,
        140,
        90,
        {"transient": 0.072, "spikes": 0.011, "spares": 0.008},
        1.11,
    ),
)


def realistic() -> LossReport:
    """A nightly report against the night before: one item failed, money is known."""
    items = [_item(number, *cluster) for number, cluster in enumerate(_CLUSTERS)]
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


def _report(items: list[ReportItem]) -> LossReport:
    known = [item for item in items if item.missing is None]
    past = math.fsum(_past(item) for item in known)
    lost = math.fsum(item.gpu_hours_lost_per_30_days or 0 for item in known)
    available = math.fsum(item.gpu_hours_available or 0 for item in known)
    useful = math.fsum(item.causes["gpu_hours_useful"] for item in known)
    changes = [item.cost_change for item in known if item.cost_change]
    cost = sum((_amount(item.cost_of_loss_per_30_days) for item in known), Fraction(0))
    past_cost = sum((_amount(found.past) for found in changes), Fraction(0))
    volume_effect = sum((_amount(found.volume_effect) for found in changes), Fraction(0))
    price_effect = sum((_amount(found.price_effect) for found in changes), Fraction(0))
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
        rates=[_rate_change(money(price_effect, CURRENCY))],
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
        batch=_batch("0199c0de-0000-7000-8000-000000000004", 30, "1.9"),
        baseline=_batch("0199c0de-0000-7000-8000-000000000005", 29, "1.8"),
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
        movers=_movers(known),
        remedies=_remedies(known),
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
            gpu_hours_budget_per_30_days=700_000.0,
            cost_of_loss_per_30_days=money(cost, CURRENCY),
            cost_budget_per_30_days=Money(amount="2000000.00", currency=CURRENCY),
        ),
        reproduce=Reproduce(
            commands=[
                "trainard submit nightly.json --wait",
                "trainard report make --batch 0199c0de-0000-7000-8000-000000000004"
                " --baseline 0199c0de-0000-7000-8000-000000000005",
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
            cost_of_loss_change=_no_cost_change(),
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
                cost_change=_no_cost_change(),
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
        budget=structs.replace(report.budget, status="within") if report.budget else None,
    )


def extreme() -> LossReport:
    """1 000 items with hostile names, gains, huge and tiny numbers, every cause at once."""
    report = realistic()
    first = report.items[0]
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
            for power, (kind, sign) in enumerate(
                [("appeared", 1), ("gone", -1), ("changed", 0), ("appeared", 1)] * 3
            )
        ],  # type: ignore[arg-type]  # the kinds are those of Mover
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


def _item(
    number: int, name: str, profile: str, num_gpus: int, load: float, compute: float,
    communication: float, causes: dict[str, float], past_ratio: float,
) -> ReportItem:  # fmt: skip
    ideal = load + compute + communication
    step = ideal * (1 + sum(causes.values()))
    available = num_gpus * 24.0 * 30
    lost = available * (1 - ideal / step)
    past = lost * past_ratio
    cost = _priced(lost)
    shown, shown_past = money(cost, CURRENCY), money(Fraction(past) * EARLY_PRICE, CURRENCY)
    price_effect = money(cost - Fraction(lost) * EARLY_PRICE, CURRENCY)
    difference = _amount(shown) - _amount(shown_past)
    moved = change(past, lost)
    hours = {cause: available * ideal * share / step for cause, share in causes.items()}
    hours["load"] = hours.get("load", 0.0) + available * load / step
    hours |= {
        "useful": available * compute / step,
        "communication": available * communication / step,
    }
    return ReportItem(
        custom_id=profile,
        name=name,
        profile=profile,
        profile_revision=3 + number,
        result_id=f"0199c0de-0000-7000-8000-000000000004.{number}",
        missing=None,
        start_on=START_ON,
        period_days=30,
        num_gpus=num_gpus,
        step_mean_ms=step,
        ideal_step_ms=ideal,
        efficiency_fraction=ideal / step,
        gpu_hours_available=available,
        gpu_hours_lost=lost,
        gpu_hours_lost_p10=0.93 * lost,
        gpu_hours_lost_p90=1.08 * lost,
        gpu_hours_lost_se=lost * 0.004 if number % 3 == 1 else 0.0,
        gpu_hours_lost_per_30_days=lost,
        method="monte_carlo" if number % 3 == 1 else "quadrature",
        cost_of_loss=shown,
        cost_of_loss_per_30_days=shown,
        cost_status=CostStatus.PRICED,
        unpriced_days=0,
        change=moved,
        cost_change=CostChange(
            past=shown_past,
            new=shown,
            difference=money(difference, CURRENCY),
            relative=float(difference / _amount(shown_past)),
            volume_effect=money(difference - _amount(price_effect), CURRENCY),
            price_effect=price_effect,
            status="priced",
            past_status=CostStatus.PRICED,
            new_status=CostStatus.PRICED,
        ),
        volume=_volume(number, profile, moved.difference or 0.0),
        rates=[_rate_change(price_effect)],
        gpu_type=name.split()[0],
        cost_center="research" if "research" in profile else None,
        price_days=[
            PricedDays(
                first_on=START_ON,
                days=17,
                rate_id=EARLY_RATE,
                price_per_gpu_hour=_price(EARLY_PRICE),
            ),
            PricedDays(
                first_on=date(2026, 12, 18),
                days=13,
                rate_id=LATE_RATE,
                price_per_gpu_hour=_price(LATE_PRICE),
            ),
        ],
        causes={f"gpu_hours_{name}": amount for name, amount in hours.items() if amount},
    )


def _volume(number: int, profile: str, difference: float) -> list[VolumeCause]:
    if not difference:
        return []
    parts = [
        ("profile_revision", f"{profile}@{2 + number} -> {profile}@{3 + number}",
         "variability.transient.cv", "0.05", "0.062", 0.75),
        ("model_version", "1.8 -> 1.9", None, None, None, 0.25),
    ]  # fmt: skip
    return [
        VolumeCause(
            cause=cause,  # type: ignore[arg-type]  # one of CauseKind
            detail=detail,
            path=path,
            past=past,
            new=new,
            gpu_hours_per_30_days=difference * share,
        )
        for cause, detail, path, past, new, share in parts
    ]


def _movers(items: list[ReportItem]) -> list[Mover]:
    moved = sorted(
        (item for item in items if item.change and item.change.difference),
        key=lambda item: -abs((item.change and item.change.difference) or 0),
    )
    return [
        Mover(
            custom_id=item.custom_id,
            name=item.name,
            profile=item.profile,
            kind="changed",
            past_gpu_hours_lost_per_30_days=_past(item),
            new_gpu_hours_lost_per_30_days=item.gpu_hours_lost_per_30_days,
            difference_per_30_days=(item.gpu_hours_lost_per_30_days or 0) - _past(item),
            relative=item.change.relative if item.change else None,
            cost_difference_per_30_days=item.cost_change.difference if item.cost_change else None,
            main_cause=item.volume[0],
        )
        for item in moved[:8]
    ]


def _remedies(items: list[ReportItem]) -> list[ReportRemedy]:
    tried: list[tuple[str, str | None, float]] = [
        ("replace_slow_gpus", None, 0.9),
        ("backup_workers", "count=8", 0.31),
        ("checkpoint_optimal", None, 0.06),
        ("local_steps", "steps=4", 0.22),
    ]
    return [
        ReportRemedy(
            custom_id=item.custom_id,
            name=item.name,
            kind=kind,
            setting=setting,
            gpu_hours_given_back=(item.gpu_hours_lost or 0) * share,
            gpu_hours_given_back_se=120.0 if kind == "local_steps" else 0.0,
            gpu_hours_given_back_per_30_days=(item.gpu_hours_lost or 0) * share,
            cost_given_back_per_30_days=money(
                _priced((item.gpu_hours_lost or 0) * share), CURRENCY
            ),
            cost_status=CostStatus.PRICED,
        )
        for item in items[:1]
        for kind, setting, share in tried
    ]


def _batch(batch_id: str, day: int, model_version: str) -> ReportBatch:
    return ReportBatch(
        batch_id=UUID(batch_id),
        name="nightly-loss",
        state="partially_failed" if day == 30 else "succeeded",
        start_on=START_ON,
        currency=CURRENCY,
        pricing=1,
        rates_as_of=datetime(2026, 11, day, 1, 31, tzinfo=UTC),
        model_version=model_version,
        input_digest="sha256:" + "9f" * 32,
        created_at=datetime(2026, 11, day, 1, 30, tzinfo=UTC),
        ended_at=datetime(2026, 11, day, 1, 31, tzinfo=UTC),
        items_total=len(_CLUSTERS) + 1,
        points_total=len(_CLUSTERS) + 1,
        points_failed=1 if day == 30 else 0,
        items_without_headline=0,
        run_id=UUID("0199c0de-0000-7000-8000-000000000003"),
        scheduled_for=datetime(2026, 11, day, 1, 30, tzinfo=UTC),
        reused_from=None,
    )


def _rate_change(effect: Money) -> RateChange:
    return RateChange(
        rate_id=LATE_RATE,
        gpu_type="H100",
        cost_center=None,
        price_per_gpu_hour=_price(LATE_PRICE),
        past_days=0,
        new_days=13,
        effect=effect,
    )


def _no_cost_change() -> CostChange:
    return CostChange(
        past=None,
        new=None,
        difference=None,
        relative=None,
        volume_effect=None,
        price_effect=None,
        status="no_rate",
        past_status=CostStatus.NO_RATE,
        new_status=CostStatus.NO_RATE,
    )


def _past(item: ReportItem) -> float:
    return item.change.past or 0.0 if item.change else 0.0


def _priced(hours: float) -> Fraction:
    return Fraction(repr(hours)) * (17 * EARLY_PRICE + 13 * LATE_PRICE) / 30


def _price(price: Fraction) -> Money:
    return Money(amount=f"{float(price):.2f}", currency=CURRENCY)


def _amount(found: Money | None) -> Fraction:
    return Fraction(found.amount) if found else Fraction(0)
