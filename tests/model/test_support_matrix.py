"""The support matrix of the model page says what the kernel does, for every combination."""

from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.distributions import FAMILIES
from service.model.kernel import Results, evaluate
from service.model.problems import InvalidScenario
from service.model.results import METHODS
from service.model.scenario import decode_scenario

PAGE = Path(__file__).parents[2] / ".github" / "model.md"
LASTING = ("persistent", "node")
PER_STEP = ("transient", "replica", "spikes")
SOURCES: dict[str, Any] = {
    "persistent": {"kind": "lognormal", "cv": 0.04},
    "node": {"kind": "normal", "cv": 0.03},
    "transient": {"kind": "gamma", "cv": 0.05},
    "replica": {"kind": "lognormal", "cv": 0.03},
    "spikes": {"probability": 0.001, "slowdown": 1.5},
    "common": {"kind": "normal", "cv": 0.02},
    "episodes": {"rate_per_gpu_day": 0.01, "mean_hours": 0.5, "severity": 1.3},
}
COMBINATIONS = [
    frozenset(names)
    for names in chain.from_iterable(
        combinations(SOURCES, number) for number in range(len(SOURCES) + 1)
    )
]
# Two at a time, and one of each kind of row: a second instead of ten.
MOST_BESIDE_OTHERS = 2
STEP = {"num_gpus": 9, "gpus_per_node": 2, "compute_ms": 100, "load_ms": 40, "draws": 16}
STANDING: dict[str, dict[str, Any]] = {
    "none": {},
    "spares": {"num_spare_gpus": 2},
    "evicted": {"num_evicted_gpus": 2},
}
BACKUP = {"synchronization": {"kind": "backup_workers", "count": 2}}


def matrix() -> list[list[str]]:
    section = (
        PAGE.read_text(encoding="utf-8").partition("## Support matrix")[2].partition("\n## ")[0]
    )
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def row_of(names: frozenset[str], working: str) -> list[str]:
    """The row of the page for these sources and for who works."""
    lasting = "both" if names >= set(LASTING) else next(iter(names & set(LASTING)), "no")
    here = [
        lasting,
        "yes" if names & set(PER_STEP) else "no",
        "yes" if "common" in names else "no",
        "yes" if "episodes" in names else "no",
        working,
    ]
    found = [
        row
        for row in matrix()
        if all(
            cell == "any" or value in cell.split(", ")
            for cell, value in zip(row, here, strict=False)
        )
    ]
    assert len(found) == 1, (names, working, found)
    return found[0][len(here) :]


def enough() -> list[frozenset[str]]:
    """Every small combination, and the smallest of each mixture of kinds of sources."""
    mixtures: dict[tuple[bool, ...], frozenset[str]] = {}
    for names in COMBINATIONS:
        single = ("persistent", "node", "common", "episodes")
        has = (*(name in names for name in single), bool(names & set(PER_STEP)))
        mixtures.setdefault(has, names)
    small = [names for names in COMBINATIONS if len(names) <= MOST_BESIDE_OTHERS]
    return [*small, *(names for names in mixtures.values() if names not in small)]


def scenario(names: frozenset[str], **changed: Any) -> dict[str, Any]:
    return {**STEP, "variability": {name: SOURCES[name] for name in names}, **changed}


def said(results: Results, row: int) -> tuple[str, str, str]:
    """What the kernel did: the mean, the step's quantiles, the spread."""
    columns = results.columns
    names = ["exact", "quadrature", "Monte Carlo", "recursion"]
    mean = names[columns["method"][row]]
    quantiles = "null" if np.isnan(columns["step_p50_ms"][row]) else "as the mean"
    code = columns["spread_method"][row]
    spread = "null" if np.isnan(columns["gpu_hours_lost_p50"][row]) else names[code]
    return mean, quantiles, spread


def test_methods_are_those_that_the_page_names() -> None:
    assert METHODS == ("closed_form", "quadrature", "monte_carlo", "recursion")


@pytest.mark.parametrize("working", ["all", "spares", "evicted", "backup"])
def test_every_mixture_is_computed_as_the_page_says(working: str) -> None:
    change: dict[str, Any] = {
        "all": {},
        "spares": STANDING["spares"],
        "evicted": STANDING["evicted"],
        "backup": {**BACKUP, "gpus_per_node": 1},
    }[working]
    compare_rows(enough(), working, change)


def test_every_combination_is_computed_as_the_page_says() -> None:
    compare_rows(COMBINATIONS, "all", {})


def compare_rows(tried: list[frozenset[str]], working: str, change: dict[str, Any]) -> None:
    """All of them at once."""
    scenarios = [decode_scenario(scenario(names, **change)) for names in tried]
    results = evaluate(joined([columns_of(one) for one in scenarios]))
    assert (results.failure == 0).all()
    wrong = {
        tuple(sorted(names)): (said(results, row), tuple(row_of(names, working)))
        for row, names in enumerate(tried)
        if said(results, row) != tuple(row_of(names, working))
    }
    assert wrong == {}


@pytest.mark.parametrize("kind", FAMILIES[1:])
@pytest.mark.parametrize("source", ["persistent", "node", "transient", "replica", "common"])
def test_every_family_serves_every_source(source: str, kind: str) -> None:
    law: dict[str, Any] = {"kind": kind, "cv": 0.2}
    if kind == "shifted_gamma":
        law["skew"] = 1.5
    if kind == "empirical":
        law = {"kind": kind, "quantiles": [0.9 + 0.002 * step for step in range(101)]}
    given = scenario(frozenset(), variability={source: law})
    results = evaluate(columns_of(decode_scenario(given)))
    assert results.failure[0] == 0
    assert np.isfinite(results.columns["gpu_hours_lost_p90"][0])
    names = frozenset({source})
    assert said(results, 0) == tuple(row_of(names, "all"))


def test_blocks_and_those_who_stand_by_are_refused_together() -> None:
    for change in (*STANDING.values(), BACKUP):
        replicas = {"num_gpus": 8, "tensor_parallel_size": 2, **change}
        if change:
            with pytest.raises(InvalidScenario):
                decode_scenario(scenario(frozenset({"replica"}), **replicas))
        else:
            decode_scenario(scenario(frozenset({"replica"}), **replicas))
    with pytest.raises(InvalidScenario):
        decode_scenario(scenario(frozenset({"node"}), **BACKUP))


RING = {
    "kind": "ring",
    "message_bytes": 1e8,
    "link": {"latency_us": 10, "bandwidth_gigabytes_per_s": 10},
}
LOCAL: dict[str, Any] = {"kind": "local_steps", "steps": 4}
BARRIERS: dict[str, dict[str, Any]] = {
    "buckets": {"overlap": {"kind": "buckets", "num_buckets": 4}},
    "fsdp": {"overlap": {"kind": "fsdp", "num_layers": 4}},
    "hidden load": {"overlap": {"kind": "none", "load_prefetch": True}},
    "delay": {"synchronization": {"kind": "bounded_staleness", "staleness": 0, "delay_ms": 9}},
}
LATER: dict[str, dict[str, Any]] = {
    "rounds with buckets": {"synchronization": LOCAL, **BARRIERS["buckets"]},
    "rounds with a hidden load": {"synchronization": LOCAL, **BARRIERS["hidden load"]},
    "overlapped": {"synchronization": {**LOCAL, "overlap_steps": 1}},
    "staleness": {"synchronization": {"kind": "bounded_staleness", "staleness": 1}},
    "delayed": {"synchronization": {"kind": "delayed_update"}},
}
SIMULATED = ("recursion", "null", "null")
FEW = [
    frozenset(names.split())
    for names in (
        "",
        "common",
        "episodes",
        "transient",
        "transient spikes",
        "replica",
        "transient replica",
        "persistent",
        "persistent common",
        "persistent transient",
        "node transient common",
        "persistent episodes",
    )
]


def compare(change: dict[str, Any], working: str, is_simulated: set[frozenset[str]]) -> None:
    """As plain steps are, but for these combinations."""
    standing = STANDING.get(working, {})
    scenarios = [
        decode_scenario(scenario(names, communication=RING, **change, **standing)) for names in FEW
    ]
    results = evaluate(joined([columns_of(one) for one in scenarios]))
    assert (results.failure == 0).all()
    for row, names in enumerate(FEW):
        wanted = SIMULATED if names in is_simulated else tuple(row_of(names, working))
        assert said(results, row) == wanted, names


@pytest.mark.parametrize("working", ["all", "evicted"])
@pytest.mark.parametrize("way", BARRIERS)
def test_overlap_with_a_barrier_is_computed_like_plain_steps(way: str, working: str) -> None:
    compare(BARRIERS[way], working, set())


@pytest.mark.parametrize("working", ["all", "spares"])
def test_rounds_are_simulated_where_more_than_one_factor_varies(working: str) -> None:
    varies = {*PER_STEP, "common"}
    simulated = {names for names in FEW if "common" in names or names >= {"transient", "replica"}}
    assert all(names & varies for names in simulated)
    compare({"synchronization": LOCAL}, working, simulated)


@pytest.mark.parametrize("way", LATER)
def test_waiting_later_is_simulated_where_steps_vary(way: str) -> None:
    compare(LATER[way], "all", {names for names in FEW if names & {*PER_STEP, "common"}})
