"""Where a scenario declares the distribution of a source."""

from typing import Any

from service.model.active import LAW_PATHS
from service.model.fields import Scenario


def law_of_source(scenario: Scenario, source: str) -> Any:
    """The distribution; it must be there."""
    place: Any = scenario
    for name in LAW_PATHS[source].split("."):
        place = getattr(place, name)
    return place


def pointer_of(source: str) -> str:
    """RFC 6901, relative to the scenario."""
    return "/" + LAW_PATHS[source].replace(".", "/")
