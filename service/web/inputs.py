"""The fields of a scenario for an operator: unit, default and bounds as declared, and words.

What a field is comes out of its declaration (service/model); where it is found, and what happens
when it is unknown, out of `input_words/`, in each language. `*` stands for one part of a path.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, get_args

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from service.model.fields import Scenario
from service.model.leaves import KIND, Leaf, is_struct, leaves, members, tags_of
from service.reports.language import Language
from service.web import input_bounds
from service.web.input_bounds import Bounds

# What a field belongs to by the first part of its path; those of a document go by their own name.
_SECTIONS: Final[Mapping[str, str]] = {
    "num_gpus": "cluster",
    "gpus_per_node": "cluster",
    "tensor_parallel_size": "cluster",
    "scaling": "cluster",
    "num_spare_gpus": "cluster",
    "num_evicted_gpus": "cluster",
    "compute_ms": "step",
    "load_ms": "step",
    "backward_fraction": "step",
    "period_days": "window",
    "total_steps": "window",
    "seed": "window",
    "draws": "window",
}
# Endings of names and the unit that they stand for; of several the longest counts.
_UNITS: Final[Mapping[str, str]] = {
    "_ms": "ms",
    "_us": "us",
    "_s": "s",
    "_hours": "h",
    "hours_per_gpu": "h",
    "_days": "d",
    "per_1000_node_days": "per_1000_node_days",
    "rate_per_gpu_day": "per_gpu_day",
    "_bytes": "bytes",
    "_gigabytes_per_s": "gbs",
    "_fraction": "share",
    "_gpus": "gpus",
    "gpus_per_node": "gpus",
    "tensor_parallel_size": "gpus",
    "slow_groups.count": "gpus",
    "synchronization.count": "gpus",
    "total_steps": "steps",
    "synchronization.steps": "steps",
    "overlap_steps": "steps",
    "staleness": "steps",
    "num_ranks": "ranks",
    "_ratio": "times",
    "slowdown": "times",
    "severity": "times",
    ".cv": "share",
    "probability": "share",
    "bytes_per_parameter": "bytes",
}


class InputField(Struct, frozen=True, kw_only=True):
    """One field: its path, what its declaration says, and its words in one language.

    - `unit`: a key of texts, or None; `is_needed`: whether a document cannot be without it;
    - `default`: what stands there when it is left out, or None where nothing does;
    - `bounds_of_kinds`: where a kind of document has other ones;
    - `only_with`: where not every document of its place has it, the kinds of those that do.
    """

    path: str
    section: str
    unit: str | None
    is_needed: bool
    default: Any
    bounds: Bounds
    bounds_of_kinds: dict[str, Bounds]
    choices: tuple[str, ...]
    only_with: tuple[str, ...]
    what: str
    where: str
    unknown: str


class InputSection(Struct, frozen=True, kw_only=True):
    """Fields that belong together."""

    name: str
    title: str
    fields: tuple[InputField, ...]


class _Declared(NamedTuple):
    """Of a path: its field in each kind of document that has it, and how many kinds there are."""

    fields: dict[str, FieldInfo]
    num_kinds: int


@cache
def sections(language: Language) -> tuple[InputSection, ...]:
    """All fields in the order of the sections; within one, of the declarations."""
    words = _words(language)
    declared = _declarations()
    found = [_field(leaf, declared[leaf.path], words["fields"]) for leaf in leaves().values()]
    return tuple(
        InputSection(
            name=name,
            title=title,
            fields=tuple(one for one in found if one.section == name),
        )
        for name, title in words["sections"].items()
    )


def key_of(path: str, keys: Mapping[str, Any]) -> str:
    """The key among `keys` whose words are those of the path: itself, else the nearest pattern."""
    if path in keys:
        return path
    fitting = [key for key in keys if _fits(path, key)]
    # A pattern with fewer stars says more.
    return min(fitting, key=lambda key: key.count("*"))


def _fits(path: str, pattern: str) -> bool:
    parts, wanted = path.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(
        want in {"*", part} for part, want in zip(parts, wanted, strict=True)
    )


def _field(leaf: Leaf, declared: _Declared, words: Mapping[str, Mapping[str, str]]) -> InputField:
    path = leaf.path
    said = words[key_of(path, words)]
    first = next(iter(declared.fields.values()))
    section = path.partition(".")[0]
    bounds = Bounds() if leaf.labels else input_bounds.of(first.type)
    is_partial = len(declared.fields) < declared.num_kinds
    return InputField(
        path=path,
        section=_SECTIONS.get(section, section),
        unit=_unit_of(path) if leaf.is_number or leaf.dtype == "object" else None,
        is_needed=first.required,
        default=_default_of(first),
        bounds=bounds,
        bounds_of_kinds={
            kind: own
            for kind, field in declared.fields.items()
            if not leaf.labels and (own := input_bounds.of(field.type)) != bounds
        },
        choices=leaf.labels,
        only_with=tuple(declared.fields) if is_partial else (),
        what=said.get("what") or _description_of(first),
        where=said["where"],
        unknown=said["unknown"],
    )


@cache
def _declarations() -> dict[str, _Declared]:
    found: dict[str, _Declared] = {}
    for path, field, tag, num_kinds in _walk(Scenario, "", "", 1):
        found.setdefault(path, _Declared({}, num_kinds)).fields.setdefault(tag, field)
    return found


def _walk(
    struct: type[Struct], above: str, tag: str, num_kinds: int
) -> Iterator[tuple[str, FieldInfo, str, int]]:
    """Fields with their paths; `tag` is the kind of the nearest document that has others beside."""
    for field in msgspec.structs.fields(struct):
        path = f"{above}{field.encode_name}"
        kinds = members(field.type)
        structs = [one for kind in kinds for one in (kind, *get_args(kind)) if is_struct(one)]
        if not structs:
            yield path, field, tag, num_kinds
            continue
        has_kinds = len(kinds) > 1
        if has_kinds:
            yield f"{path}.{KIND}", field, tag, num_kinds
        for one in structs:
            inner = (tags_of([one])[0], len(kinds)) if has_kinds else (tag, num_kinds)
            yield from _walk(one, f"{path}.", *inner)


def _default_of(info: FieldInfo) -> Any:
    if info.required or info.default is NODEFAULT:
        return None
    default = info.default
    return tags_of([type(default)])[0] if isinstance(default, Struct) else default


def _description_of(info: FieldInfo) -> str:
    schema = msgspec.inspect.type_info(info.type)
    extra = getattr(schema, "extra_json_schema", None) or {}
    return str(extra.get("description", ""))


def _unit_of(path: str) -> str | None:
    endings = [ending for ending in _UNITS if path.endswith(ending)]
    return _UNITS[max(endings, key=len)] if endings else None


@cache
def _words(language: Language) -> Mapping[str, Any]:
    source = files("service.web") / "input_words" / f"{language}.toml"
    return tomllib.loads(source.read_text("utf-8"))
