"""The versions of everything that decides a number."""

import platform
from importlib.metadata import version
from typing import Annotated

import msgspec
from msgspec import Meta

from service.jobs.zone_data import TZDATA_VERSION
from service.model import MODEL_VERSION

PRODUCT_VERSION = version("trainard")


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What computes here."""

    product: str
    model: Annotated[
        str,
        Meta(
            description="MAJOR changes when a column changes by more than 1e-8 for the same "
            "input, MINOR when inputs or columns are added."
        ),
    ]
    python: str
    numpy: str
    scipy: str
    tzdata: Annotated[str, Meta(description="IANA release of the time zones.")]


VERSIONS = Versions(
    product=PRODUCT_VERSION,
    model=MODEL_VERSION,
    python=platform.python_version(),
    numpy=version("numpy"),
    scipy=version("scipy"),
    tzdata=TZDATA_VERSION,
)
