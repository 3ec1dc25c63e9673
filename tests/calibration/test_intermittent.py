"""Ranks that are slow now and then, or more and more."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from service.calibration.findings import Findings
from service.calibration.fit import fit
from service.calibration.intermittent import drifts_of, intermittent_of, levels_of
from service.calibration.options import CalibrationOptions
from service.calibration.timings import FloatArray
from tests.calibration.compute_tables import factors_of, timings_of


def table(num_steps: int = 100, num_ranks: int = 16, seed: int = 3) -> FloatArray:
    shape = (num_steps, num_ranks)
    return 3 * factors_of(shape, rank=0.005, step=0.01, rest=0.02, seed=seed)


def found_in(cells: FloatArray) -> tuple[Findings, dict[str, str]]:
    found = fit(timings_of(cells), CalibrationOptions())
    return found, {one.code: one.detail for one in found.warnings}


def test_spikes_of_one_rank_are_its_own_and_not_of_every_gpu() -> None:
    cells = table()
    slow = np.random.default_rng(1).random(100) < 0.3
    cells[slow, 6] *= 1.5
    found, remarks = found_in(cells)
    (one,) = found.outliers
    assert (one.rank, one.kind) == (6, "changed")
    where = np.flatnonzero(slow)
    assert (one.from_step, one.to_step) == (where[0], where[-1])
    speed = one.speed_fraction
    assert speed.low is not None
    assert speed.high is not None
    assert speed.low < 1 / 1.5 < speed.high
    assert found.spikes is None
    assert "variability.spikes" not in found.proposal.overrides
    assert found.proposal.overrides["slow_groups"] == []
    text = remarks["intermittent_ranks"]
    assert re.search(rf"rank 6 takes 1\.5\d? times as long in {slow.sum()} of its 100", text)
    assert f"from step {where[0]} to {where[-1]}" in text
    assert "no slow GPU is proposed" in text
    # The rest is that of the others: not 30 % of a rank's cells 50 % off
    assert found.healthy.transient_cv is not None
    assert found.healthy.transient_cv.value == pytest.approx(0.02, rel=0.1)


def test_spikes_of_any_rank_stay_spikes() -> None:
    cells = table(400)
    spikes = np.random.default_rng(2).random(cells.shape) < 0.006
    cells[spikes] *= 1.8
    found, remarks = found_in(cells)
    assert found.outliers == []
    assert found.spikes is not None
    assert found.spikes.num_spikes == pytest.approx(spikes.sum(), abs=2)
    assert "intermittent_ranks" not in remarks


def test_a_rank_that_is_slow_in_every_second_block_is_said_to_be() -> None:
    cells = table()
    cells[np.arange(100) // 10 % 2 == 1, 6] *= 1.3
    found, remarks = found_in(cells)
    (one,) = found.outliers
    assert (one.rank, one.kind) == (6, "slow")
    text = remarks["intermittent_ranks"]
    assert "rank 6 takes 1.3 times as long in 50 of its 100 steps, from step 10 to 99" in text
    assert "its mean is proposed as a slow GPU" in text


def test_a_rank_that_gets_hot_is_said_to_drift() -> None:
    cells = table()
    cells[:, 6] *= np.linspace(1, 1.5, 100)
    cells[:, 9] *= np.linspace(1.02, 0.98, 100)
    found, remarks = found_in(cells)
    assert [one.rank for one in found.outliers] == [6]
    text = remarks["drifting_ranks"]
    assert text.count("rank ") - text.count("the rank ") == 1
    assert "from step 0 to 99" in text
    (drift,) = drifts_of(cells / np.median(cells, axis=1)[:, np.newaxis])
    assert drift.position == 6
    assert drift.start == pytest.approx(1.0, rel=0.04)
    assert drift.end == pytest.approx(1.5, rel=0.04)
    assert "intermittent_ranks" not in remarks


def test_an_episode_is_neither() -> None:
    cells = table(120)
    cells[40:70, 4] *= 1.5
    found, remarks = found_in(cells)
    assert [(one.rank, one.kind) for one in found.outliers] == [(4, "changed")]
    assert not {"intermittent_ranks", "drifting_ranks"} & set(remarks)


def test_an_even_cluster_has_none() -> None:
    for seed in range(6):
        _, remarks = found_in(table(60, 24, seed))
        assert not {"intermittent_ranks", "drifting_ranks"} & set(remarks)


@pytest.mark.parametrize("law", ["normal", "uniform", "exponential", "lognormal", "two normal"])
def test_one_law_of_one_peak_has_one_level(law: str) -> None:
    rng = np.random.default_rng(7)
    draws: dict[str, Callable[[], FloatArray]] = {
        "normal": lambda: 1 + 0.1 * rng.standard_normal(400),
        "uniform": lambda: rng.uniform(0.8, 1.2, 400),
        "exponential": lambda: 0.9 + 0.1 * rng.exponential(1, 400),
        "lognormal": lambda: np.exp(0.3 * rng.standard_normal(400)),
        # Three standard deviations apart: a shoulder, no second level
        "two normal": lambda: 1 + 0.05 * (rng.standard_normal(400) + 3 * (rng.random(400) < 0.5)),
    }
    assert all(levels_of(draws[law]()) is None for _ in range(50))


def test_two_levels_are_found() -> None:
    series = np.full(30, 1.0)
    series[4:20:2] = 1.25
    series[7] = np.nan
    found = levels_of(series)
    assert found is not None
    assert [found.fast, found.slow] == pytest.approx([1.0, 1.25])
    assert np.flatnonzero(found.is_slow).tolist() == list(range(4, 20, 2))
    assert levels_of(series[:6]) is None
    assert levels_of(np.where(series > 1.1, 1.05, series)) is None


def test_of_too_little_nothing_is_said() -> None:
    assert drifts_of(np.linspace(1, 2, 11)[:, np.newaxis] * np.ones((11, 3))) == []
    alone = np.where(np.arange(40) % 3 == 0, 1.5, 1.0)[:, np.newaxis]
    assert intermittent_of(alone, np.ones(1, dtype=np.bool_)) == []
    # Steadily slow ranks are no spikes that any rank could have had
    both = np.concatenate([np.ones((40, 15)), alone, np.full((40, 4), 1.5)], axis=1)
    chosen = np.arange(20) < 16
    assert [one.position for one in intermittent_of(both, chosen)] == [15]


def test_of_many_such_ranks_twenty_are_named() -> None:
    cells = table(100, 64)
    cells[np.arange(100) // 10 % 2 == 1, :24] *= 1.3
    _, remarks = found_in(cells)
    assert "; and 4 more" in remarks["intermittent_ranks"]


def test_ranks_that_are_all_missing_for_a_while_do_not_drift() -> None:
    cells = factors_of((60, 4), rank=0, step=0, rest=0.01) / 100
    cells[:, 3] *= np.linspace(1, 1.5, 60)
    assert [one.position for one in drifts_of(cells)] == [3]
    cells[:15, :2] = np.nan
    cells[30:45, 2:] = np.nan
    assert drifts_of(cells) == []
