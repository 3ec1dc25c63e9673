"""How many ranks the whole job has, which files of a part of them do not show."""

from typing import NamedTuple

import numpy as np

from service.calibration.options import CalibrationOptions
from service.calibration.timings import Timings


class JobSize(NamedTuple):
    """Ranks of the whole job, at least.

    `assumption` is what a statement on all ranks rests on where neither the source nor the caller
    says how many there are.
    """

    num_ranks: int
    is_said: bool
    assumption: str | None


def job_size(timings: Timings, options: CalibrationOptions) -> JobSize:
    """By what is said, the numbers of the ranks, and the groups that their collectives are of.

    The number of GPUs is said by the caller. Each is a rank of its own where there are traces, and
    elsewhere so many of them are one as move in lockstep.
    """
    traced = timings.collectives
    gpus = max(timings.num_gpus_per_rank, options.tensor_parallel_size) if traced is None else 1
    said = [timings.world_size or 0, (options.num_gpus or 0) // gpus]
    # One in every tensor-parallel group may be named by the number of its first GPU.
    stride = gpus if np.all(timings.ranks % gpus == 0) else 1
    shown = [timings.num_ranks, int(timings.ranks[-1]) // stride + 1]
    is_shown = False
    if traced is not None and len(traced.step):
        # A rank alone has nothing to communicate.
        shown += [2, int(traced.members.max())]
        is_shown = bool(np.all(traced.members > 0))
    num_ranks, is_said = max(*said, *shown), any(said)
    assumption = None
    if not (is_said or is_shown or num_ranks > timings.num_ranks):
        assumption = (
            f"nothing says how many ranks the job has: the {num_ranks} that were timed are taken "
            "for all of it; give num_gpus (or world_size) if there are more"
        )
    return JobSize(num_ranks, is_said, assumption)
