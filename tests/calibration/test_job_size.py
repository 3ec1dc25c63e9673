import numpy as np
import pytest
from msgspec.structs import replace

from service.calibration.checks import checked
from service.calibration.job_size import job_size
from service.calibration.options import CalibrationOptions
from service.calibration.overlap import audit_of
from service.calibration.timings import Timings
from tests.calibration.compute_tables import factors_of
from tests.calibration.compute_tables import timings_of as table_of
from tests.calibration.overlap_simulator import Job, collectives_of, simulate, timings_of

# 90 % of the transfer lie beside compute; what a fast rank sees of it is mostly waiting.
RUN = simulate(Job(slow=1.3), 5, 0)
ALL = list(range(8))
NOTHING = "nothing says how many ranks the job has: the 8 that were timed are taken for all of it"


def share(timings: Timings, **said: int) -> tuple[float, float, list[str]]:
    audit = audit_of(timings, CalibrationOptions(**said))  # type: ignore[arg-type]
    assert audit is not None
    return audit.hidden_share.low, audit.hidden_share.high, audit.reasons


def test_the_number_of_gpus_that_is_said_counts_like_a_trace_of_all() -> None:
    low, high, reasons = share(timings_of(RUN, [1, 2]), num_gpus=8)
    assert (low, high) == (0, 1)
    assert any(reason.startswith("2 of 8 ranks were profiled") for reason in reasons)
    low, high, reasons = share(timings_of(RUN, ALL), num_gpus=8)
    assert [low, high] == pytest.approx([0.9, 0.9])
    assert not any("taken for all" in reason for reason in reasons)
    # Each GPU has a trace of its own, also where some move in lockstep.
    assert share(timings_of(RUN, [1, 2]), num_gpus=8, tensor_parallel_size=4)[:2] == (0, 1)


def test_ranks_that_are_not_there_by_their_numbers_are_missing() -> None:
    low, high, reasons = share(timings_of(RUN, [1, 2]))
    assert (low, high) == (0, 1)
    assert any(reason.startswith("2 of at least 3 ranks were profiled") for reason in reasons)
    # One rank that communicates is not alone.
    assert share(timings_of(RUN, [0]))[:2] == (0, 1)


def test_what_all_ranks_rests_on_is_said() -> None:
    low, high, reasons = share(timings_of(RUN, ALL))
    assert [low, high] == pytest.approx([0.9, 0.9])
    assert any(reason.startswith(NOTHING) for reason in reasons)
    assert not any("nothing says" in reason for reason in share(timings_of(RUN, ALL, 8))[2])
    # The groups of the collectives say it, too.
    known = replace(timings_of(RUN, ALL), collectives=collectives_of(RUN, ALL, 8))
    assert not any("nothing says" in reason for reason in share(known)[2])
    some = replace(timings_of(RUN, [0, 1]), collectives=collectives_of(RUN, [0, 1], 8))
    assert job_size(some, CalibrationOptions()).num_ranks == 8


def test_so_it_is_of_a_table_of_steps() -> None:
    run = simulate(Job(slow=1.3, compute_cv=0.01, transfer_cv=0.1), 60, 2)
    table = replace(timings_of(run, ALL), format="table", collectives=None)
    assert any(reason.startswith(NOTHING) for reason in share(table)[2])
    assert not any("nothing says" in reason for reason in share(table, num_gpus=8)[2])
    # Ranks 1 to 8 are not 0 to 7: the communication may hold the wait for a ninth.
    shifted = replace(table, ranks=np.arange(1, 9))
    assert not any("nothing says" in reason for reason in share(shifted)[2])
    assert share(shifted)[0] < share(table)[0] + 1e-9
    # Groups of 8 GPUs in lockstep, named by their first GPU.
    groups = replace(table, ranks=np.arange(0, 64, 8), num_gpus_per_rank=8)
    assert job_size(groups, CalibrationOptions()).num_ranks == 8


def test_the_remarks_of_a_calibration_say_it() -> None:
    def codes(timings: Timings) -> list[str]:
        return [remark.code for remark in checked(timings, CalibrationOptions()).warnings]

    cells = factors_of((40, 8), rank=0.02, step=0.02, rest=0.01)
    assert codes(table_of(cells)) == []
    assert codes(table_of(cells, communication_ms=cells / 9)) == ["job_size_assumed"]
    assert codes(table_of(cells, ranks=np.arange(8, 16))) == ["missing_ranks"]
