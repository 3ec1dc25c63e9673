"""Clusters that differ, with steps that differ too: random clusters, point by point."""

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.cluster_draws import Clusters, num_clusters
from service.model.clusters.cluster_means import ClusterMeans, cluster_means
from service.model.clusters.cluster_tops import Class
from service.model.clusters.episode_effects import (
    NO_SLOWDOWN,
    Slowdown,
    episode_variance,
    kept_share,
    slowdown_of,
)
from service.model.clusters.sampled_spread import sampled
from service.model.clusters.spread_types import MONTE_CARLO, Spread, empty_spread
from service.model.clusters.step_noise import Moments, window_variance
from service.model.clusters.unit_classes import (
    Part,
    classes_of,
    lasting_of,
    parts_of,
    step_of,
    varies_per_step,
)
from service.model.clusters.unit_members import Composition
from service.model.exchange.shared_lines import StepLines
from service.model.fleet import Fleet
from service.model.laws.law import Floats

# Numbers that are worked on at once: memory.
_AT_ONCE = 1 << 21


def cluster_spread(
    fleet: Fleet,
    *,
    seed: NDArray[np.int64],
    draws: NDArray[np.int64],
    num_steps: Floats,
    window_hours: Floats,
) -> Spread:
    """By Monte Carlo over clusters with the expectation over steps inside."""
    found = empty_spread(fleet.num_points)
    found.method[:] = MONTE_CARLO
    plain = fleet.common is None and fleet.episodes is None and not fleet.autocorrelation.any()
    for part in parts_of(fleet):
        for point, (row, classes) in enumerate(
            zip(part.rows.tolist(), classes_of(part), strict=True)
        ):
            clusters = Clusters(int(seed[row]), num_clusters(int(draws[row])), 0, 0)
            slowdown = _slowdown(part, point)
            means = _means(
                classes,
                clusters,
                int(fleet.num_removed[row]),
                slowdown,
                varies_per_step=varies_per_step(part, point),
                lines=None if fleet.lines is None else fleet.lines.part(slice(row, row + 1)),
            )
            noise = means.step_variance / max(float(num_steps[row]), 1.0)
            if not plain:
                rows = slice(row, row + 1)
                one = fleet.part(rows)
                noise = _noise(one, means, slowdown, num_steps[rows], window_hours[rows])
            sd = (means.bulk_variance + noise) ** 0.5
            values = sampled(means.mean, sd, float(fleet.outside_ratio[row]), clusters.seed)
            for name, value in values._asdict().items():
                getattr(found, name)[row] = value
    return found


def _noise(
    one: Fleet, means: ClusterMeans, slowdown: Slowdown, num_steps: Floats, window_hours: Floats
) -> float:
    """Variance of a cluster's mean over a window: of its steps and of its episodes."""
    moments = Moments(np.full(1, means.mean.mean()), np.full(1, means.step_variance))
    noise = window_variance(one, moments, num_steps)
    if one.episodes is not None:
        share = kept_share(one.episodes.mean_hours, window_hours)
        weight = slowdown.weight[:, np.newaxis]
        noise += episode_variance(means.by_state, weight, one.outside_ratio, share)
    return float(noise[0])


def _slowdown(part: Part, point: int) -> Slowdown:
    if part.fleet.episodes is None:
        return NO_SLOWDOWN
    rows = slice(point, point + 1)
    one = part.fleet.part(rows)
    composition = Composition(
        node=None,
        own=None,
        kinds=(),
        step=step_of(part, point),
        replica=None if part.replica is None else part.replica.part(rows),
    )
    lasting = [source.part(rows) for source in lasting_of(part)]
    return slowdown_of(one, lasting, composition.alone_rate)


def _means(
    classes: list[Class],
    clusters: Clusters,
    num_removed: int,
    slowdown: Slowdown,
    *,
    varies_per_step: bool,
    lines: StepLines | None,
) -> ClusterMeans:
    """A number of clusters at a time that does not move the results."""
    size = max(_AT_ONCE // max(one.num_drawn(num_removed) for one in classes), 1)
    draws = clusters.draws
    parts = [
        cluster_means(
            classes,
            clusters._replace(start=start, stop=min(start + size, draws)),
            num_removed,
            slowdown,
            varies_per_step=varies_per_step,
            lines=lines,
        )
        for start in range(0, draws, size)
    ]
    if len(parts) == 1:
        return parts[0]
    share = np.array([len(part.mean) for part in parts]) / draws
    return ClusterMeans(
        mean=np.concatenate([part.mean for part in parts]),
        bulk_variance=float(share @ [part.bulk_variance for part in parts]),
        step_variance=float(share @ [part.step_variance for part in parts]),
        by_state=np.tensordot(share, np.array([part.by_state for part in parts]), 1),
    )
