"""Parts of the reports in loss_reports: clusters, items, movers, remedies."""

from datetime import UTC, date, datetime
from fractions import Fraction
from uuid import UUID

from service.reports.changes import change
from service.reports.cost_changes import CostChange
from service.reports.loss_report import (
    CauseKind,
    Mover,
    PricedDays,
    RateChange,
    ReportBatch,
    ReportItem,
    ReportRemedy,
    VolumeCause,
)
from service.reports.money import CostStatus, Money, money

CURRENCY = "EUR"
EARLY_PRICE, LATE_PRICE = Fraction("2.10"), Fraction("2.25")
EARLY_RATE, LATE_RATE = (
    "0199c0de-0000-7000-8000-0000000000a1",
    "0199c0de-0000-7000-8000-0000000000a2",
)
START_ON = date(2026, 12, 1)

Cluster = tuple[str, str, int, float, float, float, dict[str, float], float]
# name, profile, GPUs, load ms, compute ms, communication ms, what is lost by cause as a fraction of
# the nominal step, past loss over new loss
CLUSTERS: tuple[Cluster, ...] = (
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


def cluster_item(number: int, cluster: Cluster) -> ReportItem:
    """The item of a cluster."""
    name, profile, num_gpus, load, compute, communication, causes, past_ratio = cluster
    ideal = load + compute + communication
    step = ideal * (1 + sum(causes.values()))
    available = num_gpus * 24.0 * 30
    lost = available * (1 - ideal / step)
    past = lost * past_ratio
    cost = priced_hours(lost)
    shown, shown_past = money(cost, CURRENCY), money(Fraction(past) * EARLY_PRICE, CURRENCY)
    price_effect = money(cost - Fraction(lost) * EARLY_PRICE, CURRENCY)
    difference = amount_of(shown) - amount_of(shown_past)
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
            relative=float(difference / amount_of(shown_past)),
            volume_effect=money(difference - amount_of(price_effect), CURRENCY),
            price_effect=price_effect,
            status="priced",
            past_status=CostStatus.PRICED,
            new_status=CostStatus.PRICED,
        ),
        volume=volume_causes(number, profile, moved.difference or 0.0),
        rates=[rate_change(price_effect)],
        gpu_type=name.partition(" ")[0],
        cost_center="research" if "research" in profile else None,
        price_days=[
            PricedDays(
                first_on=START_ON,
                days=17,
                rate_id=EARLY_RATE,
                price_per_gpu_hour=price_of(EARLY_PRICE),
            ),
            PricedDays(
                first_on=date(2026, 12, 18),
                days=13,
                rate_id=LATE_RATE,
                price_per_gpu_hour=price_of(LATE_PRICE),
            ),
        ],
        causes={f"gpu_hours_{name}": amount for name, amount in hours.items() if amount},
    )


def volume_causes(number: int, profile: str, difference: float) -> list[VolumeCause]:
    if not difference:
        return []
    revision = f"{profile}@{2 + number} -> {profile}@{3 + number}"
    moved = ("variability.transient.cv", "0.05", "0.062")
    parts: list[tuple[CauseKind, str, tuple[str | None, str | None, str | None], float]] = [
        ("profile_revision", revision, moved, 0.75),
        ("model_version", "1.8 -> 1.9", (None, None, None), 0.25),
    ]
    return [
        VolumeCause(
            cause=cause,
            detail=detail,
            path=path,
            past=past,
            new=new,
            gpu_hours_per_30_days=difference * share,
        )
        for cause, detail, (path, past, new), share in parts
    ]


def biggest_movers(items: list[ReportItem]) -> list[Mover]:
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
            past_gpu_hours_lost_per_30_days=past_loss(item),
            new_gpu_hours_lost_per_30_days=item.gpu_hours_lost_per_30_days,
            difference_per_30_days=(item.gpu_hours_lost_per_30_days or 0) - past_loss(item),
            relative=item.change.relative if item.change else None,
            cost_difference_per_30_days=item.cost_change.difference if item.cost_change else None,
            main_cause=item.volume[0],
        )
        for item in moved[:8]
    ]


def tried_remedies(items: list[ReportItem]) -> list[ReportRemedy]:
    tried: list[tuple[str, str | None, float]] = [
        ("replace_slow_gpus", None, 0.9),
        ("backup_workers", "count 8", 0.31),
        ("checkpoint_optimal", None, 0.06),
        ("local_steps", "steps 4", 0.22),
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
                priced_hours((item.gpu_hours_lost or 0) * share), CURRENCY
            ),
            cost_status=CostStatus.PRICED,
        )
        for item in items[:1]
        for kind, setting, share in tried
    ]


def nightly_batch(batch_id: str, day: int, model_version: str) -> ReportBatch:
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
        items_total=len(CLUSTERS) + 1,
        points_total=len(CLUSTERS) + 1,
        points_failed=1 if day == 30 else 0,
        items_without_headline=0,
        run_id=UUID("0199c0de-0000-7000-8000-000000000003"),
        scheduled_for=datetime(2026, 11, day, 1, 30, tzinfo=UTC),
        reused_from=None,
    )


def rate_change(effect: Money) -> RateChange:
    return RateChange(
        rate_id=LATE_RATE,
        gpu_type="H100",
        cost_center=None,
        price_per_gpu_hour=price_of(LATE_PRICE),
        past_days=0,
        new_days=13,
        effect=effect,
    )


def no_cost_change() -> CostChange:
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


def past_loss(item: ReportItem) -> float:
    return item.change.past or 0.0 if item.change else 0.0


def priced_hours(hours: float) -> Fraction:
    return Fraction(repr(hours)) * (17 * EARLY_PRICE + 13 * LATE_PRICE) / 30


def price_of(price: Fraction) -> Money:
    return Money(amount=f"{float(price):.2f}", currency=CURRENCY)


def amount_of(found: Money | None) -> Fraction:
    return Fraction(found.amount) if found else Fraction(0)
