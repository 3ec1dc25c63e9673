"""`trainard history`: how the loss moves over time, of a running service."""

import csv
import re
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import rich_click as click

from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import url_option
from service.reports.export_text import harmless_cell
from service.reports.tables import Heading, text_table

BARS: Final = "▁▂▃▄▅▆▇█"
# An amount, which may begin with a minus
NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
DAY = click.DateTime(["%Y-%m-%d"])
COLUMNS: Final = (
    "day",
    "scenario",
    "custom_id",
    "profile",
    "items",
    "gpu_hours_lost_per_30_days",
    "gpu_hours_lost_difference",
    "gpu_hours_lost_relative",
    "items_appeared",
    "items_gone",
    "items_failed",
    "items_returned",
    "cost_of_loss_per_30_days",
    "currency",
    "cost_status",
    "pricing",
    "volume_effect",
    "price_effect",
    "causes",
    "batch_id",
    "run_id",
)

ONE_SIDED: Final = {
    "appeared": "appeared",
    "gone": "gone",
    "failed": "without numbers now",
    "returned": "with numbers again",
}
"""What items have numbers in one of two runs only, and how it is said."""
UNTOLD: Final = (
    "What moved is told where a report has compared two runs: "
    "trainard report make BATCH --baseline BATCH."
)


@click.command("history")
@click.option("--scenario", metavar="NAME", help="Only of this scenario.")
@click.option("--schedule", metavar="SLUG", help="Only runs of this schedule.")
@click.option("--profile", metavar="SLUG", help="Only of this profile.")
@click.option(
    "--group-by",
    type=click.Choice(["scenario", "profile", "team"]),
    help="Totals of a profile or of all; else each scenario by itself.",
)
@click.option("--from", "since", type=DAY, metavar="DAY", help="First day that counts.")
@click.option("--until", type=DAY, metavar="DAY", help="The day after the last.")
@click.option("--window", metavar="30d", help="So many days back from --until or today.")
@click.option("--step", type=click.Choice(["run", "day", "week", "month"]), help="Default: run.")
@click.option("--as-of", metavar="TIME", help="As it was known then, e.g. 2026-12-15T08:00:00Z.")
@click.option("--pricing", type=click.Choice(["first", "newest"]), help="Default: first.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), help="The newest so many runs. Default: 100."
)
@click.option(
    "--format",
    "chosen",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="`table` to read, `csv` for a spreadsheet, `json` for a program.",
)
@url_option
def command(
    *,
    url: str,
    chosen: str,
    since: datetime | None,
    until: datetime | None,
    **given: str | int | None,
) -> None:
    """Show how the loss moves over time, and why.

    Hours and money are of 30 days. A change is of the items that both runs have; how many
    appeared or went stands beside it. What moved is told where a report has compared the two runs:

        trainard history --schedule nightly --group-by team --window 30d

        trainard history --scenario "H100 sizing" --pricing newest --format csv > history.csv

    Exit code 0: done; 1: no service, or it refused; 2: what was asked for is faulty.
    """
    if not any(given[name] for name in ("scenario", "schedule", "profile", "group_by")):
        raise click.UsageError("give --scenario, --schedule, --profile or --group-by")
    query = {name: str(value) for name, value in given.items() if value}
    query |= {
        name: moment.date().isoformat()
        for name, moment in (("from", since), ("until", until))
        if moment is not None
    }
    whole = _read(url, query)
    if chosen == "json":
        sys.stdout.buffer.write(msgspec.json.encode(whole) + b"\n")
        return
    rows = [_row(row) for row in [*whole["items"], *whole["totals"]]]
    if chosen == "csv":
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows({name: _cell(part) for name, part in row.items()} for row in rows)
        return
    for line in _table(whole, rows):
        click.echo(line)


def _cell(part: Any) -> Any:
    """Names that a spreadsheet would run are made harmless; amounts are numbers."""
    if not isinstance(part, str) or NUMBER.fullmatch(part):
        return part
    return harmless_cell(part)


def _read(url: str, query: dict[str, str]) -> Document:
    """All pages of the history as one document."""
    with reached(url) as client:
        whole = answered(client.get("/v1/loss-history", params=query), "the history")
        token = whole.pop("next_page_token")
        while token:
            params = {**query, "page_token": token}
            page = answered(client.get("/v1/loss-history", params=params), "the history")
            whole["items"] += page["items"]
            whole["totals"] += page["totals"]
            token = page["next_page_token"]
    return whole


def _row(row: Document) -> Document:
    """One run as flat columns; what is not known is empty."""
    change = row["change"] or {}
    hours = change.get("gpu_hours_lost_per_30_days") or {}
    cost = change.get("cost_of_loss_per_30_days") or {}
    money = row["cost_of_loss_per_30_days"] or {}
    run = row["run"] or {}
    day: str = run.get("local_time") or row.get("start_on") or row["on"]
    return {
        "day": day[: len("2026-12-01")],
        "scenario": row.get("scenario"),
        "custom_id": row.get("custom_id"),
        "profile": row["profile"],
        "items": row.get("items", 1),
        "gpu_hours_lost_per_30_days": row["gpu_hours_lost_per_30_days"],
        "gpu_hours_lost_difference": hours.get("difference"),
        "gpu_hours_lost_relative": hours.get("relative"),
        **{f"items_{kind}": change.get(f"items_{kind}") for kind in ONE_SIDED},
        "cost_of_loss_per_30_days": money.get("amount"),
        "currency": money.get("currency"),
        "cost_status": row["cost_status"],
        "pricing": row["pricing"],
        "volume_effect": (cost.get("volume_effect") or {}).get("amount"),
        "price_effect": (cost.get("price_effect") or {}).get("amount"),
        "causes": "; ".join(_cause(cause) for cause in change.get("volume") or []),
        "is_not_told": change.get("causes_status") == "not_told" and bool(hours.get("difference")),
        "batch_id": row["batch_id"],
        "run_id": run.get("run_id"),
    }


def _cause(cause: Document) -> str:
    what = cause["cause"]
    if cause["path"] is not None:
        moved = "" if cause["past"] is None else f" {cause['past']} -> {cause['new']}"
        what = f"{what} {cause['path']}{moved}"
    elif cause["detail"]:
        what = f"{what} {cause['detail']}"
    return f"{what}: {cause['gpu_hours_per_30_days']:+,.0f}"


def _table(whole: Document, rows: Sequence[Document]) -> list[str]:
    if not rows:
        return ["There are no runs.", *_left_out(whole)]
    of_scenarios = bool(whole["items"])
    rows = _told_apart(rows)
    names = ["day", *(["scenario"] if of_scenarios else []), "profile"]
    headings = [
        *(Heading(name, words=True) for name in names),
        *(Heading(name) for name in ("GPU-hours lost in 30 days", "change", "%", "cost", "price")),
        Heading("what moved", words=True),
    ]
    table = [
        [
            *(_text(row[name]) for name in names),
            f"{row['gpu_hours_lost_per_30_days']:,.0f}",
            _signed(row["gpu_hours_lost_difference"]),
            _percent(row["gpu_hours_lost_relative"]),
            _money(row["cost_of_loss_per_30_days"], row["currency"])
            or row["cost_status"].replace("_", " "),
            _money(row["price_effect"], None),
            _text("; ".join(part for part in (_on_one_side(row), row["causes"]) if part)),
        ]
        for row in rows
    ]
    return [
        text_table(headings, table),
        *(
            ["Changes are of the items that both runs have."]
            if any(map(_on_one_side, rows))
            else []
        ),
        *([UNTOLD] if any(row["is_not_told"] for row in rows) else []),
        "",
        *_trends(rows),
        *_left_out(whole),
    ]


def _told_apart(rows: Sequence[Document]) -> list[Document]:
    """Items of one run that share name and profile have their custom ids beside the name."""
    keys = [(row["scenario"], row["profile"]) for row in rows]
    together = Counter((*key, row["batch_id"]) for key, row in zip(keys, rows, strict=True))
    twins = {key[:2] for key, count in together.items() if count > 1}
    return [
        row | {"scenario": f"{row['scenario']} ({row['custom_id']})"} if key in twins else row
        for key, row in zip(keys, rows, strict=True)
    ]


def _on_one_side(row: Document) -> str:
    """Items that are in no change, since only one of the runs has numbers of them."""
    counts = {said: row[f"items_{kind}"] for kind, said in ONE_SIDED.items()}
    return ", ".join(f"{count} {said}" for said, count in counts.items() if count)


def _trends(rows: Sequence[Document]) -> list[str]:
    """One line of bars for each scenario or group, oldest run first."""
    lines: dict[str, list[float]] = {}
    for row in rows:
        name = ", ".join(part for part in (row["scenario"], row["profile"]) if part) or "all"
        lines.setdefault(name, []).append(row["gpu_hours_lost_per_30_days"])
    width = max(len(name) for name in lines)
    return [f"{name:<{width}}  {bars(values)}" for name, values in lines.items()]


def bars(values: Sequence[float]) -> str:
    """The values as heights between the least and the greatest of them."""
    least, most = min(values), max(values)
    span = most - least
    return "".join(
        BARS[round((value - least) / span * (len(BARS) - 1)) if span else 0] for value in values
    )


def _left_out(whole: Document) -> list[str]:
    """What has no row, so that nobody takes it for nothing."""
    parts = [f"{number} runs {state}" for state, number in whole["runs_without_results"].items()]
    if whole["without_headline"]:
        parts.append(f"{whole['without_headline']} items without a headline point")
    if whole["failed"]:
        parts.append(f"{whole['failed']} items whose headline point failed")
    said = [f"Not shown: {', '.join(parts)}."] if parts else []
    if whole["truncated"]:
        said.append("Older runs were left out: --limit takes up to 1000.")
    return said


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+,.0f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"


def _money(amount: str | None, currency: str | None) -> str:
    return "" if amount is None else f"{amount} {currency}" if currency else amount
