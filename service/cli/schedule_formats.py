"""Schedules, their slots and their runs as text for a terminal."""

from collections.abc import Sequence

from service.cli.service_answers import Document
from service.reports.tables import Heading, text_table

NEVER = "-"


def schedule_table(schedules: Sequence[Document]) -> str:
    """A line for each schedule: when it comes next, and how the last run ended."""
    if not schedules:
        return "There are no schedules."
    rows = [
        (
            one["slug"],
            one["cron"],
            one["zone"],
            _next(one),
            one["last_run"]["state"] if one["last_run"] else NEVER,
            one["name"],
        )
        for one in schedules
    ]
    return _table(("schedule", "cron", "zone", "next", "last run", "name"), rows)


def schedule_lines(schedule: Document) -> list[str]:
    """A schedule in a few lines."""
    policies = f"missed slots: {schedule['misfire_policy']}, at once: "
    rows = [
        ("comes", f"{schedule['cron']}, {schedule['zone']}"),
        ("next", _next(schedule)),
        ("last run", _last_run(schedule["last_run"])),
        ("computes", _batch(schedule["batch"])),
        ("compared", _baseline(schedule["baseline"])),
        ("policies", policies + schedule["concurrency_policy"]),
        ("budget", _budget(schedule)),
        *(("delivers", _delivery(delivery)) for delivery in schedule["deliveries"]),
        *(("warning", notice["detail"]) for notice in schedule["warnings"]),
    ]
    title = f"Schedule {schedule['slug']} ({schedule['name']}), version {schedule['version']}"
    return [title, *(f"  {name + ':':10}{text}" for name, text in rows)]


def occurrence_table(occurrences: Sequence[Document]) -> str:
    """When it comes, in its zone and in UTC, with a note on nights of change."""
    rows = [
        (local_time(one["local"]), f"{one['at'][:16].replace('T', ' ')}Z", one["note"] or "")
        for one in occurrences
    ]
    return _table(("local", "UTC", "note"), rows) if rows else "It does not come any more."


def plan_lines(plan: Document) -> list[str]:
    """What a schedule that was only checked would do."""
    batch = plan["batch"]
    num = len(batch["items"])
    head = (
        f"Valid: {num} item{'' if num == 1 else 's'}, {batch['points_total']} points, about "
        f"{batch['estimated_s']} s a run; nothing was stored"
    )
    return [
        head,
        *(
            f"  {notice['pointer']}: {notice['detail']}"
            for notice in (*plan["warnings"], *batch["warnings"])
        ),
        "",
        occurrence_table(plan["next_occurrences"]),
    ]


def run_table(runs: Sequence[Document]) -> str:
    """The ledger, the newest slot first."""
    if not runs:
        return "No slot has come yet."
    rows = [
        (
            local_time(run["local_time"]),
            run["kind"],
            run["state"],
            run["budget_status"] or "",
            run["id"],
            run["reason"] or "",
        )
        for run in runs
    ]
    return _table(("slot", "kind", "state", "budget", "run", "reason"), rows)


def run_line(run: Document) -> str:
    """A run in a sentence."""
    text = f"Run {run['id']} of {run['schedule']} ({local_time(run['local_time'])}): {run['state']}"
    batch = run["batch"]
    if batch is not None:
        text += f", {batch['points_done']} of {batch['points_total']} points"
    if run["budget_status"] == "over":
        text += ", over its budget"
    return text if run["reason"] is None else f"{text}: {run['reason']}"


def run_details(run: Document) -> list[str]:
    """What a run says beside its line and its places."""
    rows = [
        ("kind", f"{run['kind']}, attempt {run['attempt']}"),
        ("window", f"30 days from {run['start_on']}"),
        ("compared", _compared(run)),
        *(
            ("earlier", f"attempt {one['attempt']}: {one['state']}, report {one['report_id']}")
            for one in run["earlier_attempts"]
        ),
        *(("warning", notice["detail"]) for notice in run["warnings"]),
    ]
    return [f"  {name + ':':10}{text}" for name, text in rows]


def backfill_plan_lines(plan: Document) -> list[str]:
    """What a backfill would do with each slot."""
    rows = [
        (local_time(slot["local_time"]), "run" if slot["runs"] else "leave", slot["reason"])
        for slot in plan["slots"]
    ]
    lines = [_table(("slot", "to do", "reason"), rows)] if rows else []
    total = (
        f"{plan['slots_run']} of {len(plan['slots'])} slots are to run, {plan['points_total']} "
        f"points, about {plan['estimated_s']} s; nothing was stored"
    )
    warnings = [notice["detail"] for notice in plan["warnings"]]
    return [*lines, total, *warnings, *([plan["held"]] if plan["held"] else [])]


def backfill_line(backfill: Document) -> str:
    """A backfill in a sentence."""
    text = (
        f"Backfill {backfill['id']} of {backfill['schedule']} ({backfill['first_on']} to "
        f"{backfill['last_on']}): {backfill['state']}, {backfill['slots']} slots: "
        f"{_counted(backfill['runs'])}"
    )
    return text if backfill["held"] is None else f"{text}. {backfill['held']}"


def backfill_table(backfills: Sequence[Document]) -> str:
    """A line for each backfill: its days, and how far it is."""
    if not backfills:
        return "There are no backfills."
    rows = [
        (
            f"{one['first_on']} to {one['last_on']}",
            one["state"],
            str(one["slots"]),
            _counted(one["runs"]),
            one["id"],
        )
        for one in backfills
    ]
    return _table(("days", "state", "slots", "runs", "backfill"), rows)


def local_time(text: str) -> str:
    """A wall time with its offset, to the minute."""
    return f"{text[:10]} {text[11:16]} {text[19:]}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return text_table([Heading(title, words=True) for title in titles], rows)


def _counted(states: Document) -> str:
    return ", ".join(f"{num} {state.replace('_', ' ')}" for state, num in states.items() if num)


def _compared(run: Document) -> str:
    if run["baseline_run_id"] is not None:
        return f"with run {run['baseline_run_id']}"
    missing = run["baseline_missing"]
    return NEVER if missing is None else f"with none: {missing.replace('_', ' ')}"


def _next(schedule: Document) -> str:
    if schedule["paused"]:
        return "paused"
    coming = schedule["next_occurrence"]
    return NEVER if coming is None else local_time(coming["local"])


def _last_run(run: Document | None) -> str:
    if run is None:
        return NEVER
    return f"{run['state']}, slot of {run['scheduled_for'][:16].replace('T', ' ')}Z, {run['id']}"


def _batch(batch: Document) -> str:
    items = batch["items"]
    what = items[0]["custom_id"] if len(items) == 1 else f"{len(items)} items"
    return what if batch["currency"] is None else f"{what}, priced in {batch['currency']}"


def _baseline(baseline: Document | None) -> str:
    match baseline:
        case None:
            return "with nothing"
        case {"kind": "run", "run_id": run_id}:
            return f"with run {run_id}"
        case {"kind": "date", "on": day}:
            return f"with the newest run until {day}"
    return "with the run before"


def _budget(schedule: Document) -> str:
    budget, parts = schedule["budget"] or {}, []
    hours, cost = (budget.get(f"{name}_per_30_days") for name in ("gpu_hours_lost", "cost_of_loss"))
    if hours is not None:
        parts.append(f"{hours:,.0f} GPU-hours".replace(",", " "))
    if cost is not None:
        parts.append(f"{cost['amount']} {cost['currency']}")
    if schedule["budget_withheld"]:
        parts.append("money (withheld)")
    return f"{', '.join(parts)} in 30 days" if parts else NEVER


def _delivery(delivery: Document) -> str:
    match delivery["kind"]:
        case "email":
            place = f"mail to {', '.join(delivery['to'])}"
        case "directory":
            place = f"{', '.join(delivery['formats'])} in {delivery['folder']}"
        case _:
            place = f"webhook {delivery['endpoint_id']}"
    money = ", with money" if delivery["include_costs"] else ""
    return f"{place}, {delivery['when'].replace('_', ' ')}{money}"
