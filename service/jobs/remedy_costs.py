"""How long the remedies of one scenario take to be ranked: estimated seconds of one core.

Measured on scenarios of all kinds, at 8 to 16 384 GPUs and 300 to 8 000 draws. What a report has
time for is decided by this estimate, so that it says the same on every machine.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from service.jobs.point_costs import FEW_NODES_GPUS, seconds_of
from service.model.active import is_active, num_removed, occupancy, spikes_are_active
from service.model.clusters.cluster_ranks import num_rows
from service.model.columns import Columns, Floats
from service.model.distributions import Gamma
from service.model.fields import Scenario
from service.model.remedy.remedy_grid import RemedyGrid
from service.model.simulated_points import is_simulated
from service.model.stage_sizes import has_pipeline

Mask = NDArray[np.bool_]
# Of a remedy, whatever it is
REMEDY_S: Final = 0.04
NODE_S: Final = 0.05
TWO_LASTING_S: Final = 0.1
# Spikes of GPUs whose nodes differ
SPIKES_S: Final = 0.7
# Without the slowest GPUs clusters are drawn for the mean too: of each GPU of each of them. Two
# lasting factors of a GPU are a product without a formula, and factors of gamma take longer; steps
# that are even are not integrated.
DRAWN_GPU_S: Final = 1.6e-6
ALONE: Final = 0.35
EVEN: Final = 0.4
OF_GAMMA: Final = 4.0
# Two lasting factors beside the states that a node's GPUs are in
TWO_EPISODES_S: Final = 2.5


def ranking_core_s(scenario: Scenario, grid: RemedyGrid) -> float:
    """Of all points of the grid without the spread, and of the scenario as it is with it."""
    columns = grid.columns(0, grid.num_points)
    alone_s = seconds_of(columns.part(slice(1)), with_spread=True, with_causes=True)
    found = REMEDY_S + seconds_of(columns, with_spread=False, with_causes=True)
    node = is_active(columns, "node")
    by_formula = ~(is_simulated(columns) | has_pipeline(columns))
    persistent = is_active(columns, "persistent")
    found += np.where(node & by_formula, np.where(persistent, TWO_LASTING_S, NODE_S), 0.0)
    found += np.where(by_formula & node & spikes_are_active(columns), SPIKES_S, 0.0)
    found += np.where(by_formula, _standing_by_s(scenario, columns), 0.0)
    found += np.where(by_formula & _has_long_states(columns), TWO_EPISODES_S, 0.0)
    return float(found.sum() + alone_s.sum())


def _has_long_states(columns: Columns) -> Mask:
    """(points,) whether two factors last beside episodes, of few nodes, and steps are even."""
    two = is_active(columns, "node") & is_active(columns, "persistent")
    varies = is_active(columns, "transient") | is_active(columns, "replica")
    few = columns["num_gpus"] <= FEW_NODES_GPUS
    long: Mask = two & few & ~varies & (occupancy(columns) > 0) & (num_removed(columns) == 0)
    return long


def _standing_by_s(scenario: Scenario, columns: Columns) -> Floats:
    """(points,) for what lasting factors leave of a cluster without its slowest GPUs."""
    node, persistent = is_active(columns, "node"), is_active(columns, "persistent")
    removed = num_removed(columns)
    of_unit = np.where(node, columns["gpus_per_node"], 1)
    num_units = columns["num_gpus"] / of_unit
    drawn = of_unit * [
        num_rows(units, of_point)
        for units, of_point in zip(num_units.tolist(), removed.tolist(), strict=True)
    ]
    by_step = [is_active(columns, source) for source in ("transient", "replica")]
    by_step += [spikes_are_active(columns), occupancy(columns) > 0]
    varies = np.any(by_step, axis=0)
    each_s = DRAWN_GPU_S * np.where(node & persistent, 1.0, ALONE) * np.where(varies, 1.0, EVEN)
    if _has_gamma(scenario):
        each_s = each_s * OF_GAMMA
    # The slowest of one lasting factor alone are told by a formula.
    stands_by = (node | persistent & varies) & (removed > 0)
    found: Floats = np.where(stands_by, each_s * columns["draws"] * drawn, 0.0)
    return found


def _has_gamma(scenario: Scenario) -> bool:
    lasting = (scenario.variability.node, scenario.variability.persistent)
    return any(isinstance(source, Gamma) for source in lasting)
