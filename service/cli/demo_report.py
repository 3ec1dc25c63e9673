"""What the demo prints: losses over cluster sizes, the clusters as they are, the comparison."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from service.cli.text_tables import count, percent, text_table

Document = dict[str, Any]

CV_PATH = "variability.transient.cv"
MISSING = "-"
SIDES = ("past", "new", "difference")


def loss_tables(rows: Sequence[Document], labels: Mapping[str, str]) -> str:
    """One table a variability: cluster sizes down, profiles across, lost GPU-hours (efficiency).

    `labels` say, per cv as in the batch's metadata (`cv 0.05`), where that value comes from.
    """
    profiles = _in_order(_slug(row) for row in rows)
    parts = []
    for cv in _in_order(row["inputs"][CV_PATH] for row in rows):
        cells = {
            (row["inputs"]["num_gpus"], _slug(row)): _loss_cell(row["result"])
            for row in rows
            if row["inputs"][CV_PATH] == cv
        }
        sizes = sorted({size for size, _ in cells})
        table = text_table(
            ["GPUs", *profiles],
            [
                [count(size), *(cells.get((size, slug), MISSING) for slug in profiles)]
                for size in sizes
            ],
            left=0,
        )
        origin = labels.get(f"cv {cv}", "no label")
        parts.append(
            f"GPU-hours lost in 30 days (efficiency), step times vary by {percent(cv)}: "
            f"{origin}\n{table}"
        )
    return "\n\n".join(parts)


def clusters_table(rows: Sequence[Document]) -> str:
    """The headline points: each cluster at its own size, and what its loss costs."""
    header = ["cluster", "GPUs", "shown busy", "useful", "efficiency", "lost GPU-h", "lost money"]
    return text_table(
        header,
        [
            [
                _slug(row),
                count(row["inputs"]["num_gpus"]),
                percent(row["result"]["displayed_utilization_fraction"]),
                percent(row["result"]["useful_compute_fraction"]),
                percent(row["result"]["efficiency_fraction"]),
                count(row["result"]["gpu_hours_lost"]),
                _money(row["cost_of_loss"]),
            ]
            for row in rows
        ],
    )


def comparison_table(comparison: Document, batch_body: Document) -> str:
    """Past, new and difference of each cluster at its own size, and the summary's sum of them."""
    rows = [
        [
            item["key"]["profile"],
            count(item["key"]["num_gpus"]),
            *(count(item[side]["gpu_hours_lost"]) for side in SIDES),
        ]
        for item in comparison["items"]
        if _is_headline(item["key"], batch_body)
    ]
    summary = comparison["summary"]["gpu_hours_lost"]
    total = ["all", "", *(count(summary[side]) for side in SIDES)]
    return text_table(["cluster", "GPUs", "one slow GPU", "fixed", "difference"], [*rows, total])


def headline_rows(rows: Sequence[Document], batch_body: Document) -> list[Document]:
    """The results that stand for each item, in the batch's order."""
    wanted = {item["custom_id"]: item["headline"] for item in batch_body["items"]}
    return [row for row in rows if row["inputs"] == wanted[row["custom_id"]]]


def _is_headline(key: Document, batch_body: Document) -> bool:
    return any(
        key["profile"] == item["profile"]
        and all(key[path] == value for path, value in item["headline"].items())
        for item in batch_body["items"]
    )


def _loss_cell(result: Document) -> str:
    return f"{count(result['gpu_hours_lost'])} ({percent(result['efficiency_fraction'])})"


def _slug(row: Document) -> str:
    slug: str = row["profile"].partition("@")[0]
    return slug


def _money(amount: Document | None) -> str:
    return "no rate" if amount is None else f"{amount['amount']} {amount['currency']}"


def _in_order(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
