"""Points with a communication, and the rows of the oracle."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from service.model.columns import Columns, columns_of
from service.model.fields import Scenario

ORACLE = Path(__file__).parents[1] / "data" / "communication.csv"
LINK: dict[str, Any] = {"bandwidth_gigabytes_per_s": 12.5, "latency_us": 14}
INTRA: dict[str, Any] = {"bandwidth_gigabytes_per_s": 300, "latency_us": 3}


class OracleRow(NamedTuple):
    inputs: dict[str, Any]
    expected: float
    tolerance: str


def oracle(model: str) -> list[OracleRow]:
    with ORACLE.open(newline="") as file:
        return [
            OracleRow(json.loads(row["inputs"]), float(row["expected"]), row["tolerance"])
            for row in csv.DictReader(file)
            if row["model"] == model
        ]


def scenario(communication: dict[str, Any] | None = None, **fields: Any) -> Scenario:
    document: dict[str, Any] = {"num_gpus": 64, "compute_ms": 300, **fields}
    if communication is not None:
        document["communication"] = communication
    return msgspec.convert(document, Scenario)


def point(communication: dict[str, Any] | None = None, **fields: Any) -> Columns:
    """Columns of one point."""
    return columns_of(scenario(communication, **fields))


def by(kind: str, **fields: Any) -> dict[str, Any]:
    """A communication of 1 GB over the links above, where the kind has them."""
    links = {} if kind == "measured" else {"link": LINK}
    if kind in {"hierarchical", "nccl"}:
        links["intra_link"] = INTRA
    return {"kind": kind, "message_bytes": 1e9, **links, **fields}
