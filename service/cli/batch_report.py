"""What is printed of a batch: where it is, how it went, and what is lost at its points."""

import json
from collections.abc import Sequence
from typing import Any

from service.reports.digits import amount, gpu_hours, milliseconds, percent, whole
from service.reports.tables import Heading, text_table

Document = dict[str, Any]

MISSING = "-"


def batch_line(batch: Document) -> str:
    """The batch's id, name, state and points."""
    points = f"{whole(batch['points_done'])} of {whole(batch['points_total'])} points"
    failed = f", {whole(batch['points_failed'])} of them failed" if batch["points_failed"] else ""
    return f"Batch {batch['id']} ({batch['name']}): {batch['state']}, {points}{failed}"


def origin_lines(batch: Document) -> list[str]:
    """What the batch takes over, and what it repeats."""
    lines = []
    if batch["reused_from"]:
        lines.append(f"Takes over the results of {batch['reused_from']}, which has equal inputs")
    if batch["retry_of"]:
        lines.append(f"Computes what {batch['retry_of']} has left")
    return lines


def plan_lines(plan: Document) -> list[str]:
    """What `--validate-only` found."""
    items = "1 item" if len(plan["items"]) == 1 else f"{len(plan['items'])} items"
    size = f"{items}, {whole(plan['points_total'])} points, about {plan['estimated_s']:g} s"
    lines = [f"Valid: {size}; nothing was stored"]
    if plan["points_failing"]:
        lines.append(f"{whole(plan['points_failing'])} points break a rule and would fail")
    if plan["reused_from"]:
        lines.append(f"Would take over the results of {plan['reused_from']}")
    lines += [f"note: {warning['pointer']}: {warning['detail']}" for warning in plan["warnings"]]
    return lines


def loss_table(rows: Sequence[Document]) -> str:
    """One line a point: its item where there are several, its inputs, its loss and the cost."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    paths = list(dict.fromkeys(path for row in rows for path in row["inputs"]))
    is_priced = any(row["cost_of_loss"] for row in rows)
    headings = [Heading("item", words=True)] if len(names) > 1 else []
    headings += [Heading(path) for path in paths]
    headings += [Heading("step [ms]"), Heading("efficiency [%]"), Heading("lost [GPU-hours]")]
    if is_priced:
        headings.append(Heading("cost of the loss"))
    lines = []
    for row in rows:
        line = [row["name"]] if len(names) > 1 else []
        line += [
            _value(row["inputs"][path]) if path in row["inputs"] else MISSING for path in paths
        ]
        result = row["result"]
        line.append(milliseconds(result["step_mean_ms"]))
        line.append(percent(result["efficiency_fraction"]))
        line.append(gpu_hours(result["gpu_hours_lost"]))
        if is_priced:
            line.append(_money(row["cost_of_loss"]))
        lines.append(line)
    return text_table(headings, lines)


def fault_lines(page: Document) -> list[str]:
    """The first failed points, each with its reason."""
    return [
        f"  point {fault['point']} of {fault['custom_id']} failed: {fault['detail']}"
        for fault in page["items"]
    ]


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


def _money(cost: Document | None) -> str:
    return MISSING if cost is None else f"{amount(cost['amount'])} {cost['currency']}"
