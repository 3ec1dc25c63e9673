"""The interval that step arithmetic leaves for the hidden share h_A / A of communication.

Each figure gives an inequality that holds whatever is unknown (waiting w, rest u, hidden load h_L,
contention g), and the interval is all shares that some transfer time A allows:

    step          A - h <= T - L - C         (L counted as hidden unless it is known to be serial)
    backward      h <= backward share of C
    no_sync run   A - h + g  = T - T_nocomm  (of the slowest rank)
    overlap off   h - g      = T_off - T
    both          A          = T_off - T_nocomm
    isolated      A          = measured alone
    in the step   A <= measured, or = measured of the rank that comes last

with 0 <= g <= 0.4 h. Every noisy figure is widened by z standard errors; where several make one end
of the interval, z is that of a Bonferroni bound, so that the stated confidence holds for all
together. Source: communication notes, section 5, and derived here.
"""

from math import hypot
from typing import Final, NamedTuple

from scipy import special

from service.calibration.findings import Verdict
from service.calibration.step_arithmetic import StepArithmetic

MOST_CONTENTION: Final = 0.4
"""Largest published slowdown of compute beside communication (mean 0.189; arXiv 2507.03114)."""
LEAST_SHARE: Final = 0.1
"""A share above it is overlap, one below it is none: the interval must lie on one side."""
_SMALLEST_SHARE_OF_TRANSFER: Final = 1e-9
_SMALLEST_MS: Final = 1e-9
"""Instead of no transfer at all, by which nothing can be divided."""

_ROUND_OFF: Final = 1e-9
"""Of the transfer or of a share: figures that differ by less are equal."""


class Figure(NamedTuple):
    """A mean in ms and its standard error."""

    value: float
    sd: float

    def low(self, z: float) -> float:
        """The lower end."""
        return self.value - z * self.sd

    def high(self, z: float) -> float:
        """The upper end."""
        return self.value + z * self.sd


class Known(NamedTuple):
    """The figures of the inequalities above; None where they were not measured."""

    exposed_at_most: Figure
    hidden_at_most: Figure
    exposed: Figure | None
    hidden: Figure | None
    transfer: tuple[Figure, ...]
    transfer_at_most: Figure


class Range(NamedTuple):
    """From `low` to `high`, both ends included."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """How much is left open."""
        return self.high - self.low


class Bounds(NamedTuple):
    """What is left open: the share, and the transfer in ms. `agree` is false where figures clash.

    `noise_ms` is the standard error of the exposed or hidden time that the share rests on.
    """

    share: Range
    transfer_ms: Range
    agree: bool
    noise_ms: float


def known_of(observed: StepArithmetic) -> Known:
    """The inequalities of one document."""
    step = Figure(observed.step_ms, observed.step_sd_ms)
    compute = Figure(observed.compute_ms, observed.compute_sd_ms)
    load = Figure(observed.load_ms, observed.load_sd_ms)
    busy = _sum(load, compute) if observed.load_is_serial else compute
    in_step = Figure(observed.communication_ms, observed.communication_sd_ms)
    exposed = hidden = None
    transfer = []
    run_sd = observed.of_runs_sd_ms
    if observed.no_communication_step_ms is not None:
        exposed = _difference(step, Figure(observed.no_communication_step_ms, run_sd))
    if observed.overlap_off_step_ms is not None:
        hidden = _difference(Figure(observed.overlap_off_step_ms, run_sd), step)
    if observed.isolated_communication_ms is not None:
        transfer.append(
            Figure(observed.isolated_communication_ms, observed.isolated_communication_sd_ms)
        )
    if exposed is not None and hidden is not None:
        # The step itself cancels.
        transfer.append(Figure(exposed.value + hidden.value, hypot(run_sd, run_sd)))
    if observed.communication_includes_wait is False:
        transfer.append(in_step)
    return Known(
        exposed_at_most=_difference(step, busy),
        hidden_at_most=Figure(
            observed.backward_fraction * compute.value, observed.backward_fraction * compute.sd
        ),
        exposed=exposed,
        hidden=hidden,
        transfer=tuple(transfer),
        transfer_at_most=in_step,
    )


def bounds_of(observed: StepArithmetic) -> Bounds:
    """All shares that are possible, each end at half of what the confidence leaves."""
    known = known_of(observed)
    others = (known.exposed, known.hidden, *(known.transfer or (known.transfer_at_most,)))
    z_low = _z(observed.confidence, known.exposed_at_most, *others)
    z_high = _z(observed.confidence, known.hidden_at_most, *others)
    transfer, agree = _transfer(known, max(z_low, z_high))
    low = _lowest_share(known, transfer, z_low)
    high = _highest_share(known, transfer, z_high)
    agree = agree and low <= high + _ROUND_OFF and _fits(known.exposed, transfer, z_low)
    agree = agree and _fits(known.hidden, transfer, z_low)
    return Bounds(
        share=Range(min(low, high), high) if agree else Range(0.0, 1.0),
        transfer_ms=transfer,
        agree=agree,
        noise_ms=_noise(known),
    )


def verdict_of(low: float, high: float) -> Verdict:
    """What an interval of the hidden share, fractions, says by `LEAST_SHARE`."""
    if low > LEAST_SHARE:
        return "overlaps"
    return "does_not_overlap" if high < LEAST_SHARE else "cannot_tell"


def z_of(confidence: float, num_figures: int = 1) -> float:
    """Standard errors to either side for `num_figures` figures at once (Bonferroni)."""
    return float(-special.ndtri((1 - confidence) / (2 * max(1, num_figures))))


def _z(confidence: float, *figures: Figure | None) -> float:
    return z_of(confidence, sum(figure is not None and figure.sd > 0 for figure in figures))


def _transfer(known: Known, z: float) -> tuple[Range, bool]:
    """The possible transfer times, and whether what was measured of them agrees."""
    most = max(_SMALLEST_MS, known.transfer_at_most.high(z))
    least = max(_SMALLEST_MS, _SMALLEST_SHARE_OF_TRANSFER * most)
    if not known.transfer:
        return Range(least, most), True
    lows = [max(least, figure.low(z)) for figure in known.transfer]
    highs = [max(least, figure.high(z)) for figure in known.transfer]
    low, high = max(lows), min(highs)
    if low <= high * (1 + _ROUND_OFF):
        return Range(min(low, high), high), True
    return Range(min(lows), max(highs)), False


def _fits(part: Figure | None, transfer: Range, z: float) -> bool:
    """Whether a measured part of the transfer is no longer than it."""
    return part is None or part.low(z) <= transfer.high * (1 + _ROUND_OFF)


def _lowest_share(known: Known, transfer: Range, z: float) -> float:
    """At most `exposed` is exposed and at least `hidden` is hidden, whatever the transfer is."""
    exposed = known.exposed_at_most.high(z)
    if known.exposed is not None:
        exposed = min(exposed, known.exposed.high(z))
    exposed = max(0.0, exposed)
    hidden = 0.0 if known.hidden is None else max(0.0, known.hidden.low(z))

    def share(of: float) -> float:
        return min(1.0, max(0.0, 1 - exposed / of, hidden / of))

    # The first term rises and the second falls: the least is at an end, or where they meet.
    return min(map(share, _among(transfer, exposed + hidden)))


def _highest_share(known: Known, transfer: Range, z: float) -> float:
    """At least `exposed` is exposed and at most `hidden` is hidden, whatever the transfer is."""
    kept = 1 - MOST_CONTENTION
    exposed = None if known.exposed is None else max(0.0, known.exposed.low(z))
    hidden = known.hidden_at_most.high(z)
    if known.hidden is not None:
        hidden = min(hidden, max(0.0, known.hidden.high(z)) / kept)

    def share(of: float) -> float:
        by_exposed = 1.0 if exposed is None else max(0.0, 1 - exposed / of) / kept
        return min(1.0, hidden / of, by_exposed)

    return max(map(share, _among(transfer, (exposed or 0.0) + kept * hidden, hidden)))


def _among(transfer: Range, *places: float) -> list[float]:
    """The ends, and those of the places that lie between."""
    return [*transfer, *(place for place in places if transfer.low < place < transfer.high)]


def _noise(known: Known) -> float:
    """Of the most certain figure that the share rests on."""
    figures = (known.exposed, known.hidden, known.exposed_at_most)
    return min(figure.sd for figure in figures if figure is not None)


def _sum(first: Figure, second: Figure) -> Figure:
    return Figure(first.value + second.value, hypot(first.sd, second.sd))


def _difference(first: Figure, second: Figure) -> Figure:
    return Figure(first.value - second.value, hypot(first.sd, second.sd))
