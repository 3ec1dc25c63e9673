"""The support matrix of the model page says what the kernel does."""

from pathlib import Path
from typing import Any

import pytest

from service.model.columns import columns_of
from service.model.distributions import FAMILIES
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario
from tests.model.reference import expected_slowest, quantile_of_slowest

PAGE = Path(__file__).parents[2] / ".github" / "model.md"


def matrix() -> list[list[str]]:
    section = (
        PAGE.read_text(encoding="utf-8").partition("## Support matrix")[2].partition("\n## ")[0]
    )
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def scenario(variability: str, num_gpus: int) -> dict[str, Any]:
    document: dict[str, Any] = {"num_gpus": num_gpus, "compute_ms": 100}
    kind = variability.partition(",")[0]
    if kind in FAMILIES[1:]:
        cv = 0.31 if "> 0.3" in variability else 0.2
        document["variability"] = {"transient": {"kind": kind, "cv": cv}}
    return document


def test_every_family_has_its_rows() -> None:
    named = {row[0].partition(",")[0] for row in matrix()}
    assert named == set(FAMILIES)


@pytest.mark.parametrize("row", matrix(), ids=lambda row: " ".join(row[:2]))
def test_rows_say_what_the_kernel_does(row: list[str]) -> None:
    variability, sizes, mean, quantiles = row
    for num_gpus in {"1": [1], "any": [1, 64], "2 … 10 000 000": [2, 64, 10_000_000]}[sizes]:
        document = scenario(variability, num_gpus)
        if mean == "refused":
            assert quantiles == "refused"
            with pytest.raises(InvalidScenario):
                decode_scenario(document)
            continue
        found = evaluate(columns_of(decode_scenario(document))).columns
        wanted = {"mean": 100.0, "p50": 100.0, "p95": 100.0, "p99": 100.0}
        if "variability" in document:
            transient = document["variability"]["transient"]
            source = transient["kind"], transient["cv"], [(num_gpus, 1.0)]
            wanted = {"mean": 100 * expected_slowest(*source)} | {
                f"p{percent}": 100 * quantile_of_slowest(*source, percent / 100)
                for percent in (50, 95, 99)
            }
        for name, value in wanted.items():
            kind = mean if name == "mean" else quantiles.partition(" ")[0]
            tolerance = {"exact": 1e-13, "quadrature": 1e-9}[kind]
            assert found[f"step_{name}_ms"][0] == pytest.approx(value, rel=tolerance), name
