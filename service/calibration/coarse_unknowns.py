"""What quantiles of step times leave open, and what to do about it."""

from collections.abc import Sequence
from typing import Final

from service.calibration.findings import Family, Remark, Unknown

RECORD: Final = (
    "Record each rank's own compute for some hundred steps (`trainard recorder` prints the code) "
    "and calibrate with it."
)
HEAVY_RATIO: Final = 1.5
"""p95 over p50 above which steps probably hold something beside jitter."""


def unknown_of(load_ms: float | None, communication_ms: float | None) -> list[Unknown]:
    """Fields that the quantiles do not tell."""
    found = [
        Unknown(
            path="slow_groups",
            reason="A GPU that is slow in every step makes all steps longer alike: neither p50 nor "
            "p95 nor their ratio shows it.",
            what_to_do=RECORD,
        ),
        Unknown(
            path="variability.persistent",
            reason="What stays with a GPU is in every step alike, and so in compute_ms here.",
            what_to_do=RECORD,
        ),
        Unknown(
            path="variability.transient",
            reason="Whether steps differ because single GPUs do or because all do together changes "
            "the loss from all to nothing, and their quantiles are the same.",
            what_to_do=RECORD,
        ),
        Unknown(
            path="variability.autocorrelation",
            reason="Quantiles do not tell in which order the steps came.",
            what_to_do=RECORD,
        ),
    ]
    for path, value in (("load_ms", load_ms), ("communication.allreduce_ms", communication_ms)):
        if value is None:
            found.append(
                Unknown(
                    path=path,
                    reason="It was not given, and counts as compute.",
                    what_to_do="Time it within the step, without what compute hides.",
                )
            )
    return found


def warnings_of(
    ratio: float, *, left_out: Sequence[Family], phases_are_known: bool
) -> list[Remark]:
    """What the reader of the readings should know; `ratio` is p95 over p50."""
    found = [
        Remark(
            code="persistent_is_invisible",
            detail="the upper end of the loss holds only if no GPU is slow all the time: that is "
            "invisible in the quantiles of steps, and would be lost in addition",
        )
    ]
    if ratio == 1:
        found.append(
            Remark(
                code="no_spread",
                detail="p95 is p50, which rules out jitter and says nothing about slow GPUs: with "
                "one of them every step is equally long too",
            )
        )
    if ratio > HEAVY_RATIO:
        found.append(
            Remark(
                code="heavy_tail",
                detail=f"p95 is {ratio:.3g} times p50: look whether every twentieth step writes a "
                "checkpoint, evaluates or stalls, which is no jitter",
            )
        )
    if not phases_are_known:
        found.append(
            Remark(
                code="phases_unknown",
                detail="without load_ms and communication_ms the whole step counts as compute: "
                "the cv is of a longer compute time, and has no upper end",
            )
        )
    found += [
        Remark(
            code="family_left_out",
            detail=f"no {family} law has these quantiles: its cv would be above what a scenario "
            "takes",
        )
        for family in left_out
    ]
    return found
