"""Labels that people write and that are matched letter by letter: GPU types, cost centres, names.

A label with a stray space or a control character would look like another one and never meet its
rate, so both are refused. The pattern is also shown in the API's schema; it is checked here and
not by msgspec, whose `$` would let a last line break pass and whose message hides the value.
"""

import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from service.errors import FieldFault
from service.jobs.documents import escaped

LABEL_PATTERN = (
    r"^[^\s\u0000-\u001f\u007f-\u009f]"
    r"([^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f])?$"
)
SLUG_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$"
TAG_KEY_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$"

_LABEL, _SLUG, _TAG_KEY = map(re.compile, (LABEL_PATTERN, SLUG_PATTERN, TAG_KEY_PATTERN))

Slug = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Small letters, digits and inner hyphens; unique in the team.",
        examples=["prod-h100"],
        extra_json_schema={"pattern": SLUG_PATTERN},
    ),
]
ProfileName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        examples=["Production H100"],
        extra_json_schema={"pattern": LABEL_PATTERN},
    ),
]
GpuType = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="As the rates name it; matched letter by letter.",
        examples=["H100-SXM"],
        extra_json_schema={"pattern": LABEL_PATTERN},
    ),
]
CostCenter = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Whose rates price it: a rate of exactly this cost centre wins over one of "
        "none.",
        examples=["research"],
        extra_json_schema={"pattern": LABEL_PATTERN},
    ),
]
Remark = Annotated[
    str, Meta(min_length=1, max_length=500, extra_json_schema={"pattern": LABEL_PATTERN})
]
TagKey = Annotated[
    str, Meta(min_length=1, max_length=63, extra_json_schema={"pattern": TAG_KEY_PATTERN})
]
TagValue = Annotated[
    str, Meta(min_length=1, max_length=255, extra_json_schema={"pattern": LABEL_PATTERN})
]


def is_slug(text: str) -> bool:
    """Whether the text can be a slug."""
    return _SLUG.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """Whether the text can be a label (of any length)."""
    return _LABEL.fullmatch(text) is not None


def is_tag_key(text: str) -> bool:
    """Whether the text can be the key of a tag."""
    return _TAG_KEY.fullmatch(text) is not None


def slug_faults(pointer: str, text: str) -> list[FieldFault]:
    """The fault of a text that cannot be a slug, else nothing."""
    if is_slug(text):
        return []
    detail = (
        f"{text!r} is no slug: 1 to 64 small letters, digits and hyphens, "
        "starting and ending with a letter or digit"
    )
    return [FieldFault(pointer=pointer, code="malformed_slug", detail=detail)]


def label_faults(labels: Mapping[str, str | None]) -> list[FieldFault]:
    """The faults of labels by their pointer; None is no label and no fault."""
    return [
        FieldFault(
            pointer=pointer,
            code="malformed_label",
            detail=f"{text!r} must not be empty, start or end with a space, "
            "or hold a control character",
        )
        for pointer, text in labels.items()
        if text is not None and not is_label(text)
    ]


def tag_faults(pointer: str, tags: Mapping[str, str]) -> list[FieldFault]:
    """The faults of the keys and values of tags."""
    bad_keys = [
        FieldFault(
            pointer=f"{pointer}/{escaped(key)}",
            code="malformed_tag_key",
            detail=f"{key!r} is no tag key: letters, digits and inner . _ / - only, at most 63",
        )
        for key in tags
        if not is_tag_key(key)
    ]
    return bad_keys + label_faults(
        {f"{pointer}/{escaped(key)}": value for key, value in tags.items()}
    )
