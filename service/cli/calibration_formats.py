"""Findings of a calibration as text: in the order in which a reader needs them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from service.calibration.findings import (
    Components,
    Estimate,
    Findings,
    Outlier,
    OverlapAudit,
    Proposal,
)
from service.reports.digits import NOTHING, milliseconds, percent, whole
from service.reports.tables import Heading, text_table

Show = Callable[[float], str]

MOST_OUTLIERS: Final = 20
MOST_CHARACTERS: Final = 60
VERDICTS: Final = {
    "overlaps": "communication overlaps compute",
    "does_not_overlap": "communication does not overlap compute",
    "cannot_tell": "these timings cannot tell whether communication overlaps compute",
}
COMPONENTS: Final = {
    "persistent_cv": "persistent: stays with a rank",
    "node_cv": "node: stays with a node",
    "common_cv": "common: all ranks in a step",
    "replica_cv": "replica: one replica in a step",
    "transient_cv": "transient: one rank in a step",
}


def findings_text(found: Findings) -> str:
    """All findings, section by section."""
    sections = [
        _source(found),
        _times(found),
        _components(found),
        _outliers(found),
        _slowest(found),
        *([_overlap(found.overlap)] if found.overlap is not None else []),
        _proposal(found.proposal),
        _unknown(found.proposal),
        [f"note: {remark.detail}" for remark in found.warnings],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _source(found: Findings) -> list[str]:
    source = found.source
    per_rank = source.num_gpus_per_rank
    lines = [
        f"{whole(source.num_steps)} steps ({source.first_step} to {source.last_step}"
        f"{', with gaps' if source.steps_have_gaps else ''}) of {whole(source.num_ranks)} ranks"
        + (f" of {per_rank} GPUs each" if per_rank > 1 else "")
        + (f"; the job has {whole(source.world_size)}" if source.world_size is not None else "")
        + (f"; {whole(source.missing_cells)} cells are missing" if source.missing_cells else "")
    ]
    lines += [
        f"{file.name}: {file.format}, {whole(file.num_rows)} rows, {whole(file.num_bytes)} bytes"
        for file in source.files
    ]
    lines += [f"left out: {whole(out.count)} ({out.reason})" for out in source.left_out]
    return lines


def _times(found: Findings) -> list[str]:
    named = (
        ("compute, nominal", found.compute_ms),
        ("load", found.load_ms),
        ("communication", found.communication_ms),
        ("step", found.step_mean_ms),
    )
    rows = [[title, *_interval(one, milliseconds)] for title, one in named if one is not None]
    return [_table(("mean [ms]",), ("", *_ends(found)), rows)]


def _components(found: Findings) -> list[str]:
    """What is proposed is that of the healthy ranks; beside it all ranks as they were."""
    rows = [
        [title, *_interval(healthy, percent), *_value(seen, percent)]
        for name, title in COMPONENTS.items()
        for healthy, seen in [(_of(found.healthy, name), _of(found.as_observed, name))]
        if healthy is not None or seen is not None
    ]
    return [_table(("spread [%]",), ("healthy", *_ends(found), "all ranks"), rows)]


def _outliers(found: Findings) -> list[str]:
    if not found.outliers:
        return ["No rank stands apart."]
    rows = [_outlier(one) for one in found.outliers[:MOST_OUTLIERS]]
    left = len(found.outliers) - len(rows)
    headings = ("speed [%]", *_ends(found), "robust deviations")
    return [
        _table(("rank", "stands apart"), headings, rows),
        *([f"and {left} more"] if left else []),
    ]


def _outlier(one: Outlier) -> list[str]:
    places = [f"node {one.node}" if one.node is not None else ""]
    places += [f"stage {one.stage}" if one.stage is not None else ""]
    when = f"steps {one.from_step} to {one.to_step}" if one.from_step is not None else "always"
    said = ", ".join(part for part in (one.kind, when, *places) if part)
    deviations = f"{one.robust_deviations:.1f}"
    return [str(one.rank), said, *_interval(one.speed_fraction, percent), deviations]


def _slowest(found: Findings) -> list[str]:
    gaps, rest = found.gaps, found.autocorrelation.lag_1
    ratio = gaps.slowest_to_median_mean_ratio
    lines = [
        (
            f"Slowest rank to the median: {_ratio(ratio)}, p50 "
            f"{gaps.slowest_to_median_p50_ratio:.4f}, p95 {gaps.slowest_to_median_p95_ratio:.4f}; "
            f"{milliseconds(gaps.slowest_to_median_mean_ms)} ms a step"
        ),
        (
            f"Most often the slowest: rank {gaps.most_often_slowest_rank}, in "
            f"{percent(gaps.most_often_slowest_fraction)} % of the steps"
        ),
        f"Slowest to mean: {_ratio(gaps.max_to_mean_ratio)}",
    ]
    if (held := found.held_out) is not None:
        lines.append(
            f"  of {whole(held.num_held_out_steps)} steps that it was not fitted to: observed "
            f"{_ratio(held.observed_max_to_mean_ratio)}, predicted "
            f"{held.predicted_max_to_mean_ratio:.4f} ({percent(held.relative_error)} % off); "
            f"one normal law for all would say {held.independent_normal_max_to_mean_ratio:.4f}"
        )
    if rest is not None:
        lines.append(f"Autocorrelation from step to step: {_ratio(rest)}")
    decided = "" if found.family.is_decided else ", though others predict alike"
    lines.append(f"Law of a rank from step to step: {found.family.chosen}{decided}")
    if (spikes := found.spikes) is not None:
        lines.append(
            f"Spikes: {whole(spikes.num_spikes)}; probability {spikes.probability.value:.3g} a "
            f"rank and step, {spikes.slowdown.value:.3g} times as long"
        )
    return lines


def _overlap(audit: OverlapAudit) -> list[str]:
    share = audit.hidden_share
    lines = [
        (
            f"Overlap: {VERDICTS[audit.verdict]} (by {audit.route}); "
            f"{percent(share.low)} to {percent(share.high)} % of it is hidden"
        )
    ]
    lines += [f"  because {reason}" for reason in audit.reasons]
    for experiment in audit.experiments:
        lines += [f"  to settle it: {experiment.what_to_do} ({experiment.what_it_tells})"]
    return lines


def _proposal(proposal: Proposal) -> list[str]:
    if not proposal.values:
        return ["Nothing is proposed."]
    rows = [
        [
            value.path,
            _short(msgspec.json.encode(value.value).decode()),
            *(NOTHING if end is None else f"{end:.6g}" for end in (value.low, value.high)),
            value.reason,
        ]
        for value in proposal.values
    ]
    headings = [
        Heading("proposed", words=True),
        Heading("value", words=True),
        Heading("low"),
        Heading("high"),
        Heading("why", words=True),
    ]
    return [text_table(headings, rows)]


def _short(text: str) -> str:
    """The beginning of what would make the table too wide; `--format json` has all of it."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _unknown(proposal: Proposal) -> list[str]:
    lines = ["Not told by these timings:"] if proposal.unknown else []
    return [*lines, *(f"  {one.path}: {one.reason}; {one.what_to_do}" for one in proposal.unknown)]


def _of(components: Components, name: str) -> Estimate | None:
    found: Estimate | None = getattr(components, name)
    return found


def _ends(found: Findings) -> tuple[str, str]:
    """Headings of the ends of an interval, which say how sure they are."""
    return (f"low ({100 * found.confidence:g} %)", "high")


def _value(estimate: Estimate | None, show: Show) -> Iterator[str]:
    yield NOTHING if estimate is None else show(estimate.value)


def _interval(estimate: Estimate | None, show: Show) -> Iterator[str]:
    yield from _value(estimate, show)
    for end in (None, None) if estimate is None else (estimate.low, estimate.high):
        yield NOTHING if end is None else show(end)


def _ratio(estimate: Estimate) -> str:
    low, high = (NOTHING if end is None else f"{end:.4f}" for end in (estimate.low, estimate.high))
    return f"{estimate.value:.4f} ({low} to {high})"


def _table(words: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    headings = [Heading(title, words=True) for title in words]
    return text_table([*headings, *(Heading(title) for title in numbers)], rows)
