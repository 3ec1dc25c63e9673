"""Inverse questions: what a caller asks and what it gets back."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from service.jobs.batch_documents import Notice, Overrides, ProfileReference, ScenarioObject
from service.jobs.output_columns import ResultColumns
from service.model.questions.solving import DEFAULT_TOLERANCE, Seek
from service.model.results import COLUMNS

# The greatest number of any field and any result; keeps every comparison finite.
MAX_NUMBER = 1e300
Limit = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Threshold = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
NumericColumn: Any = Annotated[
    Literal[tuple(column.name for column in COLUMNS if column.kind in {"float64", "int64"})],
    Meta(description="An output column that holds a number.", examples=["efficiency_fraction"]),
]


class UnknownIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The input whose value is looked for."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            description="Of a number of the scenario, such as `num_gpus` or "
            "`variability.transient.cv`.",
            examples=["num_gpus"],
        ),
    ]
    minimum: Annotated[Limit, Meta(description="Default: the field's own.")] | None = None
    maximum: Annotated[Limit, Meta(description="Default: the field's own.")] | None = None


class TargetIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to hold of a result: exactly one of `at_least` and `at_most`."""

    column: NumericColumn
    at_least: Threshold | None = None
    at_most: Threshold | None = None


class QuestionIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which extreme value of an input keeps a promise about a result."""

    unknown: UnknownIn
    seek: Annotated[Seek, Meta(description="Which of the values that keep the promise.")]
    target: TargetIn
    tolerance: Annotated[
        float,
        Meta(
            ge=1e-12,
            le=0.1,
            description="Relative, of real numbers: so far from the answer the promise is broken. "
            "Whole numbers are exact.",
        ),
    ] = DEFAULT_TOLERANCE


class SolveIn(QuestionIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question about a scenario: inline, or the defaults of a profile; either overridden."""

    scenario: ScenarioObject | None = None
    profile: ProfileReference | None = None
    overrides: Overrides = msgspec.field(default_factory=dict)


class SolvedAt(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the input that was evaluated, and everything that comes out there."""

    value: int | float
    target: Annotated[float | None, Meta(description="The target's column there.")]
    standard_error: Annotated[
        float | None, Meta(description="Of it; 0 where it is exact, null where it is not known.")
    ]
    result: ResultColumns


class RangeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Why no value beyond was looked at: a bound, or the rule that is broken at `value`."""

    value: int | float
    code: str
    detail: str


class SolveOut(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. That no value keeps the promise is one too: `found` is false."""

    found: bool
    value: Annotated[
        int | float | None, Meta(description="The extreme value that keeps the promise.")
    ]
    detail: Annotated[str, Meta(description="The answer as a sentence.")]
    at_value: SolvedAt | None
    at_neighbor: Annotated[
        SolvedAt | None,
        Meta(
            description="The next value outwards, which breaks the promise; null where the range "
            "ends at the answer."
        ),
    ]
    nearest: Annotated[
        SolvedAt | None,
        Meta(description="Where no value keeps the promise, the one that comes nearest to it."),
    ]
    range_end: Annotated[
        RangeEnd | None, Meta(description="Where the range ends at the answer, why.")
    ]
    is_monotone: Annotated[
        bool,
        Meta(
            description="Whether the column only rises or only falls with the input, at all values "
            "that were evaluated."
        ),
    ]
    evaluations: Annotated[int, Meta(description="Values that were evaluated.")]
    tolerance: Annotated[float, Meta(description="Relative; 0 for whole numbers.")]
    scenario: Annotated[
        ScenarioObject | None,
        Meta(description="The scenario at the answer, every default written out."),
    ]
    warnings: list[Notice]
    model_version: str
