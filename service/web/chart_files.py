"""The charts of the pages: the definition of the reports without data, with colours as variables.

A page fills them with what the API answers; a change of theme changes the variables alone.
"""

import hashlib
import json
from functools import cache
from typing import Final

from service.reports.chart_images import with_variables
from service.reports.chart_lines import history, loss_curve
from service.reports.chart_timelines import gpu_timeline, pipeline_timeline
from service.reports.charts import page_bars

MEDIA_TYPE: Final = "application/json"


@cache
def content() -> bytes:
    """All charts by name, as Vega-Lite."""
    charts = {
        "bars": page_bars(),
        "waterfall": page_bars(connected=True),
        "pairs": page_bars(is_paired=True),
        "gpu_timeline": gpu_timeline(),
        "pipeline_timeline": pipeline_timeline(),
        "loss_curve": loss_curve(),
        "history": history(),
    }
    return with_variables(json.dumps(charts, separators=(",", ":"))).encode()


@cache
def digest() -> str:
    """Of the content."""
    return hashlib.sha256(content()).hexdigest()[:16]


@cache
def address() -> str:
    """Where they are served."""
    return f"/assets/charts/{digest()}.json"
