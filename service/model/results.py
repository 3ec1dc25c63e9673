"""The output columns: name, unit, kind and sentence. The only list of them in the product."""

from typing import Literal

from msgspec import Struct

Kind = Literal["float64", "int64", "bool", "enum"]

METHODS = ("closed_form", "quadrature", "monte_carlo", "recursion")


class Column(Struct, frozen=True, kw_only=True):
    """One output column. `labels` are the values of an enum, stored as their position."""

    name: str
    unit: str
    sentence: str
    kind: Kind = "float64"
    labels: tuple[str, ...] = ()


def _ms(name: str, sentence: str) -> Column:
    return Column(name=name, unit="ms", sentence=sentence)


def _fraction(name: str, sentence: str) -> Column:
    return Column(name=name, unit="", sentence=sentence)


def _gpu_hours(name: str, sentence: str) -> Column:
    return Column(name=f"gpu_hours_{name}", unit="GPU-hours", sentence=sentence)


_ATTRIBUTION = (
    _gpu_hours("useful", "The share of the window spent on nominal compute."),
    _gpu_hours("transient", "Lost to variability from step to step: waiting for an unlucky GPU."),
    _gpu_hours("slow_groups", "Lost to persistently slow GPUs: everybody waits for them."),
    _gpu_hours("communication", "Spent on exposed communication."),
    _gpu_hours("load", "Spent on exposed data loading."),
)

ATTRIBUTION_COLUMNS = tuple(column.name for column in _ATTRIBUTION)
"""These, and only these, sum to `gpu_hours_available`."""

COLUMNS: tuple[Column, ...] = (
    _ms("ideal_step_ms", "Load + compute + communication at nominal speed, nobody waits."),
    _ms("step_mean_ms", "Expected step: everybody waits for the slowest GPU."),
    _ms("slowest_compute_mean_ms", "Expected compute time of the slowest GPU."),
    _ms("step_p50_ms", "Half of the steps are shorter."),
    _ms("step_p95_ms", "95 % of the steps are shorter."),
    _ms("step_p99_ms", "99 % of the steps are shorter."),
    _fraction("efficiency_fraction", "Ideal step over expected step."),
    _fraction("useful_compute_fraction", "Nominal compute over expected step."),
    _fraction(
        "displayed_utilization_fraction",
        "What a utilization gauge shows: kernels are resident while they wait.",
    ),
    _gpu_hours("available_per_day", "24 hours of every GPU held."),
    _gpu_hours("lost_per_day", "Available per day times (1 - efficiency)."),
    _gpu_hours("available", "Every GPU held, over the loss window."),
    _gpu_hours("lost", "Available times (1 - efficiency), over the loss window."),
    _gpu_hours("not_useful", "Available minus useful, over the loss window."),
    _gpu_hours(
        "above_nominal",
        "Lost against the same communication and synchronization at nominal speed.",
    ),
    *_ATTRIBUTION,
    Column(
        name="method",
        unit="",
        sentence="How the expected step was found.",
        kind="enum",
        labels=METHODS,
    ),
)

COLUMN_NAMES = tuple(column.name for column in COLUMNS)
