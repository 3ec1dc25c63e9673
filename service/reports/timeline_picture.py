"""A timeline as text: a picture of the pipeline, and how long each stage works."""

from collections.abc import Sequence

from service.model.timeline_documents import Timeline, TimelineOperation, TimelineStage
from service.reports.digits import milliseconds, percent
from service.reports.tables import Heading, text_table

IDLE = "."
LEGEND = "digits: forward, letters: backward of the same micro-batch (0 a, 1 b, …), dots: idle"
REPEATED = "digits repeat after 10 micro-batches, letters after 26"
SPLIT = "capitals: its weight gradient"
PAIRS = "+: forward of one and backward of another"
NUM_DIGITS = 10
_LEAST_SLOTS = 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROUNDED = 1e-9


def timeline_picture(timeline: Timeline, *, width: int) -> str:
    """A row a stage, a character a slot of time, lines of at most `width` characters if it can be.

    A slot is as long as the shortest operation where all of them fit; else an equal part of the
    pass, and shows what is done in its middle.
    """
    labels = [f"stage {stage.stage}" for stage in timeline.stages]
    margin = max(map(len, labels)) + 1
    slot_ms = _slot_ms(timeline, max(width - margin, _LEAST_SLOTS))
    begin = next(phase.start_ms for phase in timeline.phases if phase.kind == "pass")
    number = max(round(timeline.makespan_ms / slot_ms), 1)
    middles = [begin + (slot + 0.5) * slot_ms for slot in range(number)]
    return "\n".join(
        f"{label.ljust(margin)}{_row(stage, middles)}"
        for label, stage in zip(labels, timeline.stages, strict=True)
    )


def timeline_legend(timeline: Timeline) -> str:
    """What the characters of its picture mean."""
    kinds = {operation.kind for stage in timeline.stages for operation in stage.operations}
    parts = [LEGEND]
    parts += [REPEATED] if timeline.microbatches > NUM_DIGITS else []
    parts += [SPLIT] if "backward_weight" in kinds else []
    parts += [PAIRS] if "forward_backward" in kinds else []
    return ", ".join(parts)


def timeline_table(timeline: Timeline) -> str:
    """Busy and idle time of each stage."""
    headings = [
        Heading("stage"),
        Heading("factor"),
        Heading("busy [ms]"),
        Heading("idle [ms]"),
        Heading("idle [%]"),
        Heading("peak micro-batches in flight"),
    ]
    return text_table(
        headings,
        [
            [
                str(stage.stage),
                f"{stage.factor:.4g}",
                milliseconds(stage.busy_ms),
                milliseconds(stage.idle_ms),
                percent(stage.idle_ms / timeline.makespan_ms),
                f"{stage.peak_microbatches_in_flight:g}",
            ]
            for stage in timeline.stages
        ],
    )


def _slot_ms(timeline: Timeline, most_slots: int) -> float:
    shortest = min(
        operation.end_ms - operation.start_ms
        for stage in timeline.stages
        for operation in stage.operations
    )
    if shortest * most_slots >= timeline.makespan_ms * (1 - _ROUNDED):
        return shortest
    return timeline.makespan_ms / most_slots


def _row(stage: TimelineStage, middles: Sequence[float]) -> str:
    """What is done at these times, which rise."""
    shown = []
    left = iter(stage.operations)
    current = next(left, None)
    for middle in middles:
        while current is not None and current.end_ms <= middle:
            current = next(left, None)
        works = current is not None and current.start_ms <= middle
        shown.append(_character(current) if current is not None and works else IDLE)
    return "".join(shown)


def _character(operation: TimelineOperation) -> str:
    letter = _LETTERS[operation.microbatch % len(_LETTERS)]
    match operation.kind:
        case "forward":
            return str(operation.microbatch % NUM_DIGITS)
        case "backward_weight":
            return letter.upper()
        case "forward_backward":
            return "+"
    return letter
