"""What the demo prints: losses over cluster sizes, the clusters as they are, the comparison."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from service.reports.digits import amount, percent, signed, whole
from service.reports.tables import Heading, text_table

Document = dict[str, Any]

CV_PATH = "variability.transient.cv"
MISSING = "-"
CLUSTER = Heading("cluster", words=True)
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
            [Heading(title) for title in ("GPUs", *profiles)],
            [
                [whole(size), *(cells.get((size, slug), MISSING) for slug in profiles)]
                for size in sizes
            ],
        )
        origin = labels.get(f"cv {cv}", "no label")
        parts.append(
            f"GPU-hours lost in 30 days (efficiency), step times vary by {100 * cv:g} %: "
            f"{origin}\n{table}"
        )
    return "\n\n".join(parts)


def clusters_table(rows: Sequence[Document]) -> str:
    """The headline points: each cluster at its own size, and what its loss costs."""
    titles = ["GPUs", "shown busy [%]", "useful [%]", "efficiency [%]", "lost [GPU-hours]", "cost"]
    return text_table(
        [CLUSTER, *map(Heading, titles)],
        [
            [
                _slug(row),
                whole(row["inputs"]["num_gpus"]),
                percent(row["result"]["displayed_utilization_fraction"]),
                percent(row["result"]["useful_compute_fraction"]),
                percent(row["result"]["efficiency_fraction"]),
                whole(row["result"]["gpu_hours_lost"]),
                _cost(row),
            ]
            for row in rows
        ],
    )


def comparison_table(comparison: Document, batch_body: Document) -> str:
    """Past, new and difference of each cluster at its own size, and the summary's sum of them."""
    rows = [
        [
            item["key"]["profile"],
            whole(item["key"]["num_gpus"]),
            *_sides({side: item[side]["gpu_hours_lost"] for side in SIDES}),
        ]
        for item in comparison["items"]
        if _is_headline(item["key"], batch_body)
    ]
    total = ["all", "", *_sides(comparison["summary"]["gpu_hours_lost"])]
    titles = ["GPUs", "one slow GPU", "fixed", "difference"]
    return text_table([CLUSTER, *map(Heading, titles)], [*rows, total])


def cost_sentence(comparison: Document) -> str:
    """What the difference of all clusters costs, and how much of it a changed rate made."""
    cost = comparison["summary"]["cost_of_loss"]
    past, new, price = (_money(cost[part]) for part in ("past", "new", "price_effect"))
    return (
        f"Cost of the loss of all clusters: {past} before, {new} after (by changed rates: {price})"
    )


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


def _sides(change: Document) -> list[str]:
    past, new, difference = (whole(change[side]) for side in SIDES)
    return [past, new, signed(difference)]


def _loss_cell(result: Document) -> str:
    return f"{whole(result['gpu_hours_lost'])} ({100 * result['efficiency_fraction']:.1f} %)"


def _slug(row: Document) -> str:
    slug: str = row["profile"].partition("@")[0]
    return slug


def _cost(row: Document) -> str:
    return "withheld" if row["cost_status"] == "withheld" else _money(row["cost_of_loss"])


def _money(cost: Document | None) -> str:
    return "no rate" if cost is None else f"{amount(cost['amount'])} {cost['currency']}"


def _in_order(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
