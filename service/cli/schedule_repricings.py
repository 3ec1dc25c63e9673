"""`trainard schedule reprice`: what the runs of a schedule cost with the rates of now."""

from datetime import datetime
from typing import Final
from uuid import uuid4

import msgspec
import rich_click as click

from service.cli.schedule_paths import format_option, path_of, show, slug_argument
from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import url_option
from service.reports.tables import Heading, text_table

DAY = click.DateTime(formats=["%Y-%m-%d"])
OPTIONS: Final = {"from": "--from", "until": "--until", "currency": "--currency"}
COUNTS: Final = ("items_priced", "items_partly_priced", "items_without_rate")
TITLES: Final = ("slot", "pricing", "currency", "priced", "in part", "no rate", "run")


@click.command("reprice")
@slug_argument
@click.option("--from", "since", type=DAY, required=True, metavar="DAY", help="First day.")
@click.option("--until", type=DAY, required=True, metavar="DAY", help="The day after the last.")
@click.option("--currency", metavar="CODE", help="Default: that of each batch.")
@format_option
@url_option
def reprice_command(
    *,
    slug: str,
    since: datetime,
    until: datetime,
    currency: str | None,
    output_format: str,
    url: str,
) -> None:
    """Price the runs of past days again, with the rates of now.

    It is another view, the first price of each run stays. The days are those of the schedule's
    zone. For example all of November, and then how the cost moves with the newest prices:

        trainard schedule reprice nightly --from 2026-11-01 --until 2026-12-01

        trainard history --schedule nightly --pricing newest
    """
    document = {"from": since.date(), "until": until.date()}
    body = {**document, **({} if currency is None else {"currency": currency})}
    headers = {"Idempotency-Key": str(uuid4()), "Content-Type": "application/json"}
    with reached(url) as client:
        answer = client.post(
            path_of(slug, "/repricings"), content=msgspec.json.encode(body), headers=headers
        )
        made = answered(answer, slug, OPTIONS)
    show(made, _lines(made), output_format)


def _lines(made: Document) -> list[str]:
    rows = [
        (
            f"{one['scheduled_for'][:16].replace('T', ' ')}Z",
            str(one["pricing"]["pricing"]),
            one["pricing"]["currency"] or "",
            *(str(one["pricing"][name]) for name in COUNTS),
            one["run_id"],
        )
        for one in made["items"]
    ]
    lines = [text_table([Heading(title, words=True) for title in TITLES], rows)] if rows else []
    num = len(rows)
    lines.append(f"{num} run{'' if num == 1 else 's'} priced again; the first prices stay")
    left = made["runs_without_results"]
    if left:
        told = ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in left.items())
        lines.append(f"without results and not priced: {told}")
    return lines
