"""Scenarios: decoded strictly, checked, overridden, written out whole or normalised."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from service.model.columns import columns_of
from service.model.decoding import escaped, problems_of
from service.model.fields import Scenario, SlowGroup, Variability
from service.model.parts.communication import Fixed
from service.model.paths import position_of
from service.model.problems import InvalidScenario, Problem
from service.model.rules import describe_failure, failures_by_rule

__all__ = [
    "Fixed",
    "Scenario",
    "SlowGroup",
    "Variability",
    "apply_overrides",
    "decode_fields",
    "decode_scenario",
    "full",
    "normalised",
    "put",
]


def decode_scenario(value: object) -> Scenario:
    """Decode builtins strictly and check the rules across fields.

    Raises InvalidScenario with every problem, pointers relative to the scenario.
    """
    scenario = decode_fields(value)
    problems = [
        describe_failure(code, scenario)
        for code, broken in failures_by_rule(columns_of(scenario)).items()
        if broken[0]
    ]
    if problems:
        raise InvalidScenario(problems)
    return scenario


def decode_fields(value: object) -> Scenario:
    """Decode builtins strictly, each field by itself; raises InvalidScenario."""
    try:
        return msgspec.convert(value, Scenario, strict=True)
    except msgspec.ValidationError:
        raise InvalidScenario(problems_of(value, Scenario)) from None


def full(scenario: Scenario) -> dict[str, Any]:
    """The scenario as builtins, every default written out."""
    # Through JSON, so that sequences are lists, as they are when the document is stored.
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(scenario))
    return document


def normalised(scenario: Scenario) -> dict[str, Any]:
    """The scenario as builtins without what equals its default: what digests are made of."""
    document: dict[str, Any] = _without_defaults(scenario)
    return document


def _without_defaults(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_defaults(part) for part in value]
    if not isinstance(value, Struct):
        return value
    config = value.__struct_config__
    document: dict[str, Any] = {}
    if config.tag_field is not None:
        document[config.tag_field] = config.tag
    for field in msgspec.structs.fields(value):
        part = getattr(value, field.name)
        if field.required or part != field.default:
            document[field.encode_name] = _without_defaults(part)
    return document


def apply_overrides(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Put each value at its path (`variability.transient.cv`); it replaces what is there.

    Raises InvalidScenario for a path that does not exist, lies under null, or lies under another
    override.
    """
    problems = list(_nested(overrides))
    document: dict[str, Any] = _copied(base)
    for path, value in overrides.items():
        problem = put(document, path, value)
        if problem is not None:
            problems.append(Problem(pointer=_pointer(path), code=problem[0], detail=problem[1]))
    if problems:
        raise InvalidScenario(problems)
    return document


def put(document: dict[str, Any], path: str, value: Any) -> tuple[str, str] | None:
    """Replace what stands at `path` in place; (code, sentence) when the path leads nowhere.

    A field that a struct has but the document leaves out may be set: its default is replaced.
    """
    parts = path.split(".")
    place: Any = document
    for depth, part in enumerate(parts[:-1], start=1):
        step = _child(place, part)
        if step is _MISSING and isinstance(place, dict):
            step = _left_out().get(".".join(parts[:depth]), _MISSING)
            if isinstance(step, dict):
                step = place[part] = dict(step)
        if step is _MISSING:
            return "unknown_path", f"{path!r} is no path of a scenario"
        if step is None:
            return "path_under_null", f"{path!r} lies under {part!r}, which is null"
        place = step
    if isinstance(place, dict):
        place[parts[-1]] = value
        return None
    position = position_of(parts[-1])
    if isinstance(place, list) and position is not None and position < len(place):
        place[position] = value
        return None
    return "unknown_path", f"{path!r} is no path of this scenario"


_MISSING = object()

# No path of a scenario has more parts.
_MAX_PARTS = 3


@lru_cache(maxsize=1)
def _left_out() -> dict[str, Any]:
    """What a scenario may leave out and other paths lie under, as it is then."""
    smallest = Scenario(num_gpus=1, compute_ms=1)
    found: dict[str, Any] = {}
    for name in ("", "variability"):
        struct = getattr(smallest, name) if name else smallest
        for field in msgspec.structs.fields(struct):
            if not field.required:
                path = f"{name}.{field.encode_name}" if name else field.encode_name
                found[path] = _without_defaults(field.default)
    return found


def _child(place: Any, part: str) -> Any:
    if isinstance(place, dict):
        return place.get(part, _MISSING)
    position = position_of(part)
    if isinstance(place, list) and position is not None and position < len(place):
        return place[position]
    return _MISSING


def _nested(overrides: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(
            pointer=_pointer(inner),
            code="nested_paths",
            detail=f"{inner!r} lies under {outer!r}: their order would decide",
        )
        for inner in overrides
        for outer in _paths_above(inner)
        if outer in overrides
    ]


def _paths_above(path: str) -> list[str]:
    parts = path.split(".", _MAX_PARTS)
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]


def _pointer(path: str) -> str:
    return "".join(f"/{escaped(part)}" for part in path.split("."))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(part) for part in value]
    return value
