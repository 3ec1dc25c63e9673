"""What a simulation found."""

from typing import NamedTuple

from service.model.laws.law import Floats


class Simulated(NamedTuple):
    """(points,) each, in units of the nominal compute time; nan where a point is not covered.

    mean            of a step, over steps and clusters
    mean_se         its standard error, from independent replications
    num_rank_steps  how many steps of single GPUs were drawn, at least 1000 a step
    """

    mean: Floats
    mean_se: Floats
    num_rank_steps: Floats
