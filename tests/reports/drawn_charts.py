"""Charts of pages with data, as a page fills them, and what the renderer makes of them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from service.reports.chart_images import Picture, pictures
from service.reports.charts import Spec

Rows = Sequence[Mapping[str, Any]]
_GROUP = re.compile(r'<g class="mark-(\w+) role-mark layer_\d+_marks">(.*?)</g>')


def filled(
    spec: Spec, datasets: Mapping[str, Rows], signals: Mapping[str, object], **sizes: int
) -> Spec:
    """The chart with its rows, its parameters and its size."""
    known = {parameter["name"] for parameter in spec["params"]}
    assert set(signals) <= known
    parameters = [
        parameter | ({"value": signals[parameter["name"]]} if parameter["name"] in signals else {})
        for parameter in spec["params"]
    ]
    return spec | {"datasets": datasets, "params": parameters} | sizes


def drawn(*specs: Spec) -> list[str]:
    """SVG of all of them, drawn in one go."""
    wanted = [Picture(f"c{place}", "x", spec, "T", "A") for place, spec in enumerate(specs)]
    images = pictures(wanted)
    assert None not in images
    return [image for image in images if image is not None]


def marks(image: str, kind: str) -> list[list[str]]:
    """The elements of each layer of this kind that has any."""
    found = [
        re.findall(r"<(?:path|line|text)[^>]*>(?:[^<]*</text>)?", body)
        for name, body in _GROUP.findall(image)
        if name == kind
    ]
    return [elements for elements in found if elements]


def span(path: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a path of lines and curves."""
    (shape,) = re.findall(r' d="([^"]+)"', path)
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", shape)]
    xs, ys = numbers[::2], numbers[1::2]
    return round(min(xs), 3), round(min(ys), 3), round(max(xs), 3), round(max(ys), 3)


def texts(image: str) -> list[str]:
    """All words, in their order."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", image)
