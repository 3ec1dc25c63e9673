"""The output columns as a document type, made from `model/results.py`: no second field list."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from service.model.results import COLUMNS, Column


def _type_of(column: Column) -> Any:
    kind: Any = {"float64": float, "int64": int, "bool": bool}.get(column.kind)
    if kind is None:
        kind = Literal[tuple(column.labels)]
    unit = f" [{column.unit}]" if column.unit else ""
    return Annotated[kind, Meta(description=f"{column.sentence}{unit}")] | None


ResultColumns: Any = msgspec.defstruct(
    "ResultColumns",
    [(column.name, _type_of(column), None) for column in COLUMNS],
    namespace={"__doc__": "All output columns; a column that was not computed is null."},
    frozen=True,
    kw_only=True,
)
