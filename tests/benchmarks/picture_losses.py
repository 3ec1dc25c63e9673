"""The picture of the model page: loss against cluster size for the main cases.

python -m tests.benchmarks.picture_losses .github/loss-against-size.svg
"""

import sys
from pathlib import Path
from typing import Any

import vl_convert

from service.model.axes import decode_axes
from service.model.grid import build_grid
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario

STEP: dict[str, Any] = {
    "num_gpus": 8,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
SIZES = {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131_072}}
EPISODES = {"rate_per_gpu_day": 0.01, "mean_hours": 0.4, "severity": 1.5}
CASES: dict[str, dict[str, Any]] = {
    "one GPU at 70 %": {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]},
    "5 % normal, per step or persistent": {
        "variability": {"transient": {"kind": "normal", "cv": 0.05}}
    },
    "5 % lognormal": {"variability": {"transient": {"kind": "lognormal", "cv": 0.05}}},
    "5 % exponential tail": {"variability": {"transient": {"kind": "exponential", "cv": 0.05}}},
    "5 % per node of 8": {"variability": {"node": {"kind": "normal", "cv": 0.05}}},
    "episodes: 0.4 h at 1/1.5 speed, each 100 GPU-days": {"variability": {"episodes": EPISODES}},
    "0.5 % normal": {"variability": {"transient": {"kind": "normal", "cv": 0.005}}},
    "failures: 6.5 per 1 000 node-days, 5 min, 30 s checkpoints": {
        "failures": {
            "failures_per_1000_node_days": 6.5,
            "restart_s": 300,
            "checkpoint_write_s": 30,
        }
    },
}


def rows() -> list[dict[str, Any]]:
    """Case, size and share of the window lost, in percent."""
    found = []
    for case, change in CASES.items():
        grid = build_grid(decode_scenario({**STEP, **change}), decode_axes([SIZES]), max_points=100)
        columns = evaluate(grid.columns(0, grid.num_points)).columns
        share = columns["gpu_hours_lost"] / columns["gpu_hours_available"]
        for point, lost in enumerate(share.tolist()):
            size = grid.inputs_at(point)["num_gpus"]
            found.append({"case": case, "gpus": size, "lost": round(100 * lost, 4)})
    return found


def picture() -> str:
    """The picture as SVG; it follows the reader's light or dark page by a grey on no background."""
    grey = "#808890"
    chart = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 560,
        "height": 340,
        "background": None,
        "data": {"values": rows()},
        "mark": {"type": "line", "point": {"size": 18}, "strokeWidth": 2},
        "encoding": {
            "x": {
                "field": "gpus",
                "type": "quantitative",
                "scale": {"type": "log", "base": 2},
                "axis": {"title": "GPUs", "format": ",d", "values": [8, 64, 512, 4096, 32_768]},
            },
            "y": {
                "field": "lost",
                "type": "quantitative",
                "axis": {"title": "share of the GPU-hours lost [%]"},
            },
            "color": {
                "field": "case",
                "type": "nominal",
                "sort": [*CASES],
                "legend": {"title": None, "labelLimit": 420, "orient": "bottom", "columns": 2},
            },
        },
        "config": {
            "font": "sans-serif",
            "axis": {
                "labelColor": grey,
                "titleColor": grey,
                "gridColor": grey,
                "gridOpacity": 0.25,
                "domainColor": grey,
                "tickColor": grey,
            },
            "legend": {"labelColor": grey},
            "view": {"stroke": None},
        },
    }
    drawn: str = vl_convert.vegalite_to_svg(chart, allowed_base_urls=[])
    return drawn


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture() + "\n", encoding="utf-8")
