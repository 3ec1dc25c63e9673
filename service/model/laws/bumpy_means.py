"""Means of steps with bumps: spikes among narrow factors, or a table of quantiles.

The distribution of the mean is read from its characteristic function. Tilted by exp(c x) it lies
where it is asked for, so that every tail is exact, relatively:

    P(Y - 1 > t) = exp(K(c) - c t) (1 / 2 pi) times the integral over w of
                   phi_c(w)^H exp(-i w t) / (c + i w) dw,    K(c) = H log E exp(c d),

d the deviation of one step from 1 over H, phi_c(w) the tilted mean of exp(i w d). With c below 0
the same is -P(Y - 1 <= t). The trapezoidal rule is exact but for what lies a period away. A
smoothing normal factor, as narrow as the grid, stands in where phi does not vanish by itself, at
the cost of the steps' own variance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special

from service.model.laws.law import Floats
from service.model.laws.nonuniform import transform_of
from service.model.laws.piecewise import Pieces, nodes_of, through

_NEGLIGIBLE = 34.0
# Standard deviations from one tilt to the next, and scores that end the tilts.
_FIRST, _STEP = 1.5, 2.0
_LOWEST, _HIGHEST = -7.5, 10.5
_ENOUGH = 7.0
_MOST_TILTS = 60
_MOST_CHANGE = 2.0
_FEWEST, _MOST = 256, 65_536
# Standard deviations of the finest bump up to which phi is needed, and its length in panels.
_REACH, _PANEL = 9.0, 1.2
_SHORTEST_PANEL, _MOST_PANELS = 0.01, 1000
_FINER, _STENCIL = 2, 12
_DELTAS = np.geomspace(0.3, 15.0, 10)
_SMALLEST = -0.999
# Of the spread: tilts narrower than this are at an end. And the score beyond it.
_NARROWEST, _HAIR, _END = 1e-6, 1e-7, 38.0
# Modes for laws with jumps, whose phi never vanishes, for a period of a standard deviation. And the
# part of the variance that smoothing may take from the steps.
_MODES_OF_JUMPS, _MOST_OF_JUMPS = 1000, 32_768
_MOST_SHRUNK = 1e-3
_HEAVY = 1e-9
_ROUND_OFF = 3e-13

Complexes = NDArray[np.complex128]


class Group(NamedTuple):
    """Atoms of one bump: x - 1 and their probabilities, (atoms,) each.

    reach  the largest w at which they stand for the sum of exp(i w x) over the bump, which has
           vanished beyond
    """

    beyond_one: Floats
    weight: Floats
    reach: float


class Atoms(NamedTuple):
    """One step, of mean 1, by its bumps.

    finest      the standard deviation of the narrowest; 0 where there are jumps
    is_bounded  whether the largest atom is the end and not the last one of a tail
    """

    groups: tuple[Group, ...]
    finest: float
    is_bounded: bool

    @property
    def beyond_one(self) -> Floats:
        """(atoms,) of all groups."""
        return np.concatenate([group.beyond_one for group in self.groups])

    @property
    def weight(self) -> Floats:
        """(atoms,) of all groups."""
        return np.concatenate([group.weight for group in self.groups])

    @property
    def sd(self) -> float:
        """Standard deviation of one step."""
        return float(np.sqrt((self.weight * self.beyond_one**2).sum()))


class _Tilt(NamedTuple):
    """c, K(c), mean and standard deviation of the tilted mean of steps, share of the last atom."""

    rate: float
    log_scale: float
    mean: float
    sd: float
    at_end: float

    @property
    def score(self) -> float:
        """About that of the tilted mean."""
        depth = max(self.rate * self.mean - self.log_scale, 0.0)
        return float(np.sign(self.rate) * np.sqrt(2 * depth))


class _Inverse(NamedTuple):
    """exp(c t - K) times the tail, on an even grid of places t, and the length of a panel."""

    start: float
    step: float
    values: Floats
    panel: float


def is_light(atoms: Atoms, steps: int) -> bool:
    """Whether there are tilts for the mean's whole tail, or an end of it."""
    if atoms.is_bounded:
        return True
    upwards = _tilts(atoms, steps, 1.0)
    return len(upwards) > 0 and upwards[-1].score > _ENOUGH


def score_curve(atoms: Atoms, steps: int) -> Pieces:
    """From log x to the score, of the mean of so many steps that are `is_light`."""
    tilts = [*reversed(_tilts(atoms, steps, -1.0)), *_tilts(atoms, steps, 1.0)]
    rates, log_scales = (np.array(values) for values in list(zip(*tilts, strict=True))[:2])
    starts = np.diff(log_scales) / np.diff(rates)
    ends = np.maximum([tilts[0].mean, *starts, tilts[-1].mean], _SMALLEST)
    edges, scores = [], []
    for tilt, left, right in zip(tilts, ends[:-1], ends[1:], strict=True):
        if left >= right:
            continue
        inverse = _inverse(atoms, steps, tilt)
        num_panels = int(min(np.ceil((right - left) / inverse.panel), _MOST_PANELS))
        of_window = np.linspace(np.log1p(left), np.log1p(right), num_panels + 1)
        edges.append(of_window[:-1])
        scores.append(_scores(tilt, inverse, np.expm1(nodes_of(of_window))))
    edges.append(np.log1p(ends[-1:]))
    _add_ends(edges, scores, ends[-1] - ends[0])
    return through(np.concatenate(edges), np.concatenate(scores))


def _add_ends(edges: list[Floats], scores: list[Floats], width: float) -> None:
    """What lies at the smallest and the largest value itself lies within a hair of them."""
    hair, places = _HAIR * width, nodes_of(np.array([0.0, 1.0]))
    low, high = scores[0][0], scores[-1][-1]
    if low > _LOWEST:
        edges.insert(0, edges[0][:1] - hair)
        scores.insert(0, -_END + (low + _END) * places)
    if high < _HIGHEST:
        edges.append(edges[-1][-1:] + hair)
        scores.append(high + (_END - high) * places)


def _tilts(atoms: Atoms, steps: int, sign: float) -> list[_Tilt]:
    """From the middle outwards."""
    last = _HIGHEST if sign > 0 else -_LOWEST
    tilt, step_in_sds = _tilt(atoms, steps, 0.0), _FIRST
    narrowest = _NARROWEST * tilt.sd
    found: list[_Tilt] = []
    while len(found) < _MOST_TILTS and abs(tilt.score) < last:
        step = step_in_sds / tilt.sd
        further = _tilt(atoms, steps, tilt.rate + sign * step)
        # Where the next bump takes over, or an end comes near, in small steps.
        while not tilt.sd / _MOST_CHANGE <= further.sd <= tilt.sd * _MOST_CHANGE:
            step /= 2
            further = _tilt(atoms, steps, tilt.rate + sign * step)
        is_heavy = sign > 0 and not atoms.is_bounded and further.at_end > _HEAVY
        if is_heavy or further.sd < narrowest:
            break
        found.append(further)
        tilt, step_in_sds = further, _STEP
    return found


def _tilt(atoms: Atoms, steps: int, rate: float) -> _Tilt:
    d = atoms.beyond_one / steps
    log_weight = rate * d
    top = log_weight.max()
    weight = atoms.weight * np.exp(log_weight - top)
    total = weight.sum()
    mean = (weight * d).sum() / total
    variance = (weight * (d - mean) ** 2).sum() / total
    return _Tilt(
        rate,
        float(steps * (top + np.log(total))),
        float(steps * mean),
        float(np.sqrt(steps * variance)),
        float(weight[np.argmax(d)] / total),
    )


def _inverse(atoms: Atoms, steps: int, tilt: _Tilt) -> _Inverse:
    low, high = _extent(atoms, steps, tilt)
    period = high - low
    whole_turn = 2 * np.pi / period
    most = min(max(group.reach for group in atoms.groups) * steps / whole_turn, _MOST)
    wanted = min(_MODES_OF_JUMPS * period / atoms.sd * np.sqrt(steps), _MOST_OF_JUMPS)
    if atoms.finest > 0:
        wanted = float(_REACH * np.sqrt(steps) / (atoms.finest * whole_turn))
    num_modes = fft.next_fast_len(int(np.clip(wanted, _FEWEST, max(most, _FEWEST))), real=True)
    while True:
        terms = _terms(atoms, steps, tilt, period, num_modes)
        size = np.abs(terms)
        rough = size[-num_modes // 16 :].max() > size[0] * _ROUND_OFF
        if not rough or 2 * num_modes > most or atoms.finest == 0:
            break
        num_modes *= 2
    highest = 2 * np.pi * num_modes / period
    if rough:
        left = size[-num_modes // 16 :].max() / size[0]
        smooth = np.sqrt(2 * np.log(left / _ROUND_OFF)) / highest
        added = smooth * smooth * steps / atoms.sd**2
        # Where rare spikes make the variance, to shrink them would be the larger fault.
        shrunk = np.sqrt(1 - added) if added < _MOST_SHRUNK else 1.0
        terms = _terms(atoms, steps, tilt, period, num_modes, shrunk=shrunk, smooth=smooth)
    omega = 2 * np.pi / period * np.arange(num_modes)
    terms = terms * np.exp(-1j * omega * low)
    num_places = 2 * num_modes * _FINER
    values = fft.irfft(np.conj(terms), num_places) * (num_places / period)
    panel = max(_PANEL * _REACH / highest, _SHORTEST_PANEL * tilt.sd)
    return _Inverse(low, period / num_places, values, panel)


def _terms(
    atoms: Atoms,
    steps: int,
    tilt: _Tilt,
    period: float,
    num_modes: int,
    *,
    shrunk: float = 1.0,
    smooth: float = 0.0,
) -> Complexes:
    """(modes,) exp(-K) E exp((c + i w) (Y - 1)) / (c + i w), K that of the tilt."""
    s = tilt.rate + 2j * np.pi / period * np.arange(num_modes)
    of_step = np.zeros(num_modes, dtype=np.complex128)
    for group in atoms.groups:
        d = group.beyond_one * (shrunk / steps)
        # Per step, so that the sum of the masses is about 1.
        mass = group.weight * np.exp(tilt.rate * d - tilt.log_scale / steps)
        known = int(min(group.reach * steps * period / (2 * np.pi), num_modes - 1)) + 1
        of_step[:known] += transform_of(d / period, mass, known)
    terms: Complexes = of_step**steps / s
    if smooth > 0:
        terms *= np.exp(s * s * (smooth * smooth / 2))
    return terms


def _extent(atoms: Atoms, steps: int, tilt: _Tilt) -> tuple[float, float]:
    """Places beyond which exp(c t - K) times the tail is negligible, by Chernoff's bounds."""
    deltas = _DELTAS / tilt.sd
    above = [_tilt(atoms, steps, tilt.rate + delta).log_scale for delta in deltas]
    below = [_tilt(atoms, steps, tilt.rate - delta).log_scale for delta in deltas]
    high = (np.array(above) - tilt.log_scale + _NEGLIGIBLE) / deltas
    low = (tilt.log_scale - np.array(below) - _NEGLIGIBLE) / deltas
    # The other tail is not that of a probability: it is 1 from the middle on.
    own, other = tilt.rate > 0, abs(tilt.rate)
    if own:
        low = np.where(deltas < other, low, -np.inf)
        low = np.append(low, (tilt.log_scale - _NEGLIGIBLE) / other)
    else:
        high = np.where(deltas < other, high, np.inf)
        high = np.append(high, (_NEGLIGIBLE - tilt.log_scale) / other)
    return float(low.max()), float(high.min())


def _scores(tilt: _Tilt, inverse: _Inverse, t: Floats) -> Floats:
    """Of places t within the grid, (nodes,)."""
    position = (t - inverse.start) / inverse.step
    first = np.floor(position).astype(np.int64) - _STENCIL // 2 + 1
    place = position - first
    found = np.zeros_like(t)
    others = np.arange(_STENCIL)
    for point in range(_STENCIL):
        rest = others[others != point]
        weight = np.prod((place[:, np.newaxis] - rest) / (point - rest), axis=1)
        found += weight * inverse.values.take(first + point, mode="wrap")
    tail = np.exp(tilt.log_scale - tilt.rate * t) * found
    tiny = np.finfo(np.float64).tiny
    if tilt.rate > 0:
        return -special.ndtri(np.clip(tail, tiny, 1 - 2.0**-53))
    return special.ndtri(np.clip(-tail, tiny, 1 - 2.0**-53))
