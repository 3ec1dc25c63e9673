"""What is told of which end of a run, and with which words."""

from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import structs

from service.db.engine import Database
from service.jobs.actors import Actor
from service.jobs.delivery_plans import check
from service.jobs.delivery_reasons import Decision, decide
from service.jobs.delivery_rules import is_address
from service.jobs.schedule_documents import DeliveryIn
from service.reports.changes import change
from service.reports.loss_report import BudgetOutcome, LossReport
from service.reports.money import Money
from service.reports.report_notices import notice
from service.reports.withheld_report import without_costs
from service.settings import Deliveries
from tests.jobs.delivery_worlds import World
from tests.reports.loss_reports import all_failed, realistic, without_baseline

FOLDER = {"kind": "directory", "folder": "nightly"}
NBSP, NARROW = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"


def delivery(**fields: Any) -> DeliveryIn:
    found: DeliveryIn = msgspec.convert({**FOLDER, **fields}, DeliveryIn)
    return found


def decided(
    report: LossReport | None,
    language: str = "en",
    *,
    state: str = "succeeded",
    cause: str | None = None,
    **fields: Any,
) -> Decision:
    spoken: Any = language
    return decide(delivery(**fields), spoken, state=state, cause=cause, report=report)


def moved(past: float, new: float) -> LossReport:
    report = realistic()
    return structs.replace(
        report,
        warnings=[],
        budget=None,
        headline=structs.replace(
            report.headline,
            gpu_hours_lost_per_30_days=new,
            gpu_hours_lost_change=change(past, new),
        ),
    )


def with_budget(**fields: Any) -> LossReport:
    outcome: dict[str, Any] = {
        "status": "over",
        "gpu_hours_lost_per_30_days": 120_000.4,
        "gpu_hours_budget_per_30_days": None,
        "cost_of_loss_per_30_days": None,
        "cost_budget_per_30_days": None,
    }
    budget = BudgetOutcome(**{**outcome, **fields})
    return structs.replace(moved(100.0, 100.0), budget=budget)


COSTS = {
    "cost_of_loss_per_30_days": Money(amount="252000.84", currency="EUR"),
    "cost_budget_per_30_days": Money(amount="200000.00", currency="EUR"),
}


def test_a_failed_run_is_told_whatever_the_rule_is() -> None:
    rules: list[dict[str, Any]] = [
        {},
        {"when": "not_empty"},
        {"when": "on_change", "threshold": {"relative": 0.5}},
    ]
    for rule in rules:
        assert decided(None, state="failed", cause="no rate", **rule) == Decision(
            send=True, reason="The run failed: no rate"
        )
        assert decided(all_failed(), state="failed", **rule).send
    assert decided(None, "fr", state="failed", cause="x").reason == (
        f"L’exécution a échoué. Détail (en anglais){NBSP}: x"  # noqa: RUF001 - French
    )
    assert decided(None, state="failed").reason == "The run failed."
    assert len(decided(None, state="failed", cause="x" * 9_000).reason) < 700


def test_a_run_that_somebody_ended_is_not_sent() -> None:
    assert decided(None, state="canceled", cause="by Ada") == Decision(
        send=False, reason="The run ended without a report (canceled): by Ada"
    )


def test_a_run_over_its_budget_is_told_whatever_the_rule_is() -> None:
    rule: dict[str, Any] = {"when": "on_change", "threshold": {"relative": 0.5}}
    hours = with_budget(gpu_hours_budget_per_30_days=100_000.0)
    assert decided(hours, **rule) == Decision(
        send=True, reason="Over budget: 120,000 GPU-hours lost in 30 days, budget 100,000."
    )
    assert decided(hours, "fr", **rule).reason == (
        f"Budget dépassé{NBSP}: 120{NARROW}000 heures GPU perdues en 30 jours, "
        f"budget 100{NARROW}000."
    )
    cost = with_budget(**COSTS)
    assert decided(cost, **rule).reason == (
        f"Over budget: 252,000.84{NBSP}EUR lost in 30 days, budget 200,000.00{NBSP}EUR."
    )
    # Currencies have the digits of their own minor unit: three, or none.
    for code, lost, budget, shown in (
        ("KWD", "1353767.491", "900.000", ("1,353,767.491", "900.000")),
        ("JPY", "1353767", "900", ("1,353,767", "900")),
    ):
        amounts = {
            "cost_of_loss_per_30_days": Money(amount=lost, currency=code),
            "cost_budget_per_30_days": Money(amount=budget, currency=code),
        }
        assert decided(with_budget(**amounts), **rule).reason == (
            f"Over budget: {shown[0]}{NBSP}{code} lost in 30 days, budget {shown[1]}{NBSP}{code}."
        )
    partly = with_budget(
        cost_budget_per_30_days=COSTS["cost_budget_per_30_days"],
        priced_cost_per_30_days=COSTS["cost_of_loss_per_30_days"],
    )
    assert decided(partly, **rule) == Decision(
        send=True,
        reason=f"Over budget: at least 252,000.84{NBSP}EUR lost in 30 days, budget "
        f"200,000.00{NBSP}EUR; not all days have a rate.",
    )
    assert decided(partly, "fr", **rule).reason.startswith(f"Budget dépassé{NBSP}: au moins 252")
    assert not decided(without_costs(partly), **rule).send
    # Who may see no money does not learn that a budget of money is passed, nor by being told.
    assert not decided(without_costs(cost), **rule).send
    # But that of GPU-hours beside it
    both = with_budget(gpu_hours_budget_per_30_days=100_000.0, **COSTS)
    assert decided(without_costs(both), **rule).reason.startswith("Over budget: 120,000 GPU")
    within = with_budget(status="within", gpu_hours_budget_per_30_days=130_000.0)
    assert not decided(within, **rule).send


def test_what_is_over_by_less_than_can_be_shown_does_not_look_like_its_limit() -> None:
    hours = with_budget(gpu_hours_budget_per_30_days=120_000.0)
    assert decided(hours).reason == (
        "Over budget: 120,000.4 GPU-hours lost in 30 days, budget 120,000."
    )
    closer = with_budget(gpu_hours_lost_per_30_days=0.250001, gpu_hours_budget_per_30_days=0.25)
    assert decided(closer).reason == (
        "Over budget: 0.250001 GPU-hours lost in 30 days, budget 0.25."
    )
    amount = Money(amount="100.00", currency="EUR")
    cost = with_budget(cost_of_loss_per_30_days=amount, cost_budget_per_30_days=amount)
    assert decided(cost).reason == (
        f"Over budget: 100.00{NBSP}EUR lost in 30 days, budget 100.00{NBSP}EUR. "
        f"It is over by less than 0.01{NBSP}EUR."
    )
    yen = Money(amount="100", currency="JPY")
    partly = with_budget(priced_cost_per_30_days=yen, cost_budget_per_30_days=yen)
    assert decided(partly, "fr").reason.endswith(
        f" pas de tarif. Le dépassement est de moins de 1{NBSP}JPY."
    )
    rule: dict[str, Any] = {"when": "on_change"}
    threshold = {"gpu_hours_lost_per_30_days": 5_000, "relative": 0.05}
    assert decided(moved(100_000.0, 105_000.3), **rule, threshold=threshold).reason == (
        "The 30-day loss moved by +5,000.3 GPU-hours (+5.0003%), more than 5,000 GPU-hours or 5%."
    )
    still = decided(moved(100_000.0, 104_999.9), **rule, threshold=threshold)
    assert still.reason == (
        "Not sent: the 30-day loss moved by +4,999.9 GPU-hours (+4.9999%), not more than "
        "5,000 GPU-hours or 5%."
    )


def test_not_empty() -> None:
    assert decided(moved(0.0, 0.0), when="not_empty") == Decision(
        send=False, reason="Not sent: nothing is lost."
    )
    assert decided(all_failed(), when="not_empty") == Decision(
        send=False, reason="Not sent: no scenario has a result."
    )
    assert decided(moved(1.0, 12.345), when="not_empty") == Decision(
        send=True, reason="12.34 GPU-hours are lost in 30 days."
    )


@pytest.mark.parametrize(
    ("past", "new", "threshold", "send", "reason"),
    [
        (
            *(100_000.0, 105_001.0, {"relative": 0.05}, True),
            "The 30-day loss moved by +5,001 GPU-hours (+5.001%), more than 5%.",
        ),
        # Not more than
        (
            *(100_000.0, 105_000.0, {"relative": 0.05}, False),
            "Not sent: the 30-day loss moved by +5,000 GPU-hours (+5%), not more than 5%.",
        ),
        (
            *(100_000.0, 94_000.0, {"relative": 0.05}, True),
            "The 30-day loss moved by -6,000 GPU-hours (-6%), more than 5%.",
        ),
        (
            *(10_000.0, 9_400.0, {"gpu_hours_lost_per_30_days": 700}, False),
            "Not sent: the 30-day loss moved by -600 GPU-hours (-6%), not more than 700 GPU-hours.",
        ),
        # Whichever is passed first
        (
            *(100.0, 106.5, {"gpu_hours_lost_per_30_days": 7000, "relative": 0.05}, True),
            "The 30-day loss moved by +6.5 GPU-hours (+6.5%), more than 7,000 GPU-hours or 5%.",
        ),
        # From nothing to something is beyond any fraction
        (
            *(0.0, 3.0, {"relative": 100}, True),
            "The 30-day loss moved by +3 GPU-hours, more than 10,000%.",
        ),
        (
            *(100.0, 100.0, {"relative": 0.0001}, False),
            "Not sent: the 30-day loss moved by 0 GPU-hours (0%), not more than 0.01%.",
        ),
        (100.0, 100.0, None, False, "Not sent: the 30-day loss did not move."),
        (100.0, 101.0, None, True, "The 30-day loss moved by +1 GPU-hours (+1%)."),
    ],
)
def test_on_change(
    past: float, new: float, threshold: dict[str, float] | None, *, send: bool, reason: str
) -> None:
    fields: dict[str, Any] = {
        "when": "on_change",
        **({} if threshold is None else {"threshold": threshold}),
    }
    assert decided(moved(past, new), **fields) == Decision(send=send, reason=reason)


def test_on_change_is_sent_where_nothing_can_be_compared() -> None:
    rule: dict[str, Any] = {"when": "on_change", "threshold": {"relative": 10}}
    assert decided(without_baseline(), **rule).reason == "There is no earlier run to compare with."
    report = moved(100.0, 100.0)
    others = notice("unmatched_items", appeared=2, gone=1)
    assert decided(structs.replace(report, warnings=[others]), **rule) == Decision(
        send=True, reason="The scenarios are others: 2 appeared, 1 gone."
    )
    # A headline that failed or came back is in no change, and moved all the same.
    missing = notice("counterpart_missing", items=1, names="big")
    assert decided(structs.replace(report, warnings=[missing]), **rule) == Decision(
        send=True, reason="Headlines without numbers now or in the run before: 1 (big)."
    )
    unknown = structs.replace(
        report, headline=structs.replace(report.headline, gpu_hours_lost_change=None)
    )
    assert decided(unknown, **rule).reason == ("No scenario of this run was in the run before.")


def test_planned_twice_is_planned_once(database: Database) -> None:
    world = World(database)
    made = world.store(realistic())
    first = world.plan(FOLDER, {**FOLDER, "when": "not_empty"}, made=made)
    assert [row.state for row in first] == ["pending", "pending"]
    assert len({row.message_id for row in first}) == 2
    assert all(row.message_id.startswith("msg_") and "." not in row.message_id for row in first)
    assert world.plan(FOLDER, {**FOLDER, "when": "not_empty"}, made=made) == first
    # Another run is another message.
    assert len(world.plan(FOLDER, made=made, run_id=world.new_run())) == 3


def test_what_is_not_sent_is_in_the_log_with_the_reason(database: Database) -> None:
    world = World(database)
    (row,) = world.plan(
        {**FOLDER, "when": "on_change", "threshold": {"relative": 0.5}},
        made=world.store(moved(100.0, 101.0)),
    )
    assert (row.state, row.next_attempt_at) == ("skipped", None)
    assert row.reason == (
        "Not sent: the 30-day loss moved by +1 GPU-hours (+1%), not more than 50%."
    )
    assert row.ended_at is not None


def test_slots_that_nothing_was_begun_for_are_not_told(database: Database) -> None:
    world = World(database)
    for state in ("misfired", "skipped"):
        assert world.plan(FOLDER, state=state, reason="nobody was there") == []
    (row,) = world.plan(FOLDER, state="failed", reason="the profile is archived")
    assert (row.state, row.event, row.report_id) == ("pending", "run.failed", None)


def test_a_webhook_holds_ids_numbers_and_links(database: Database) -> None:
    world = World(database)
    row = world.webhook("https://hooks.example.org/x", include_costs=True)
    event = msgspec.json.decode(row.payload)
    assert list(event) == ["type", "timestamp", "data"]
    assert (event["type"], event["timestamp"]) == ("run.reported", "2027-03-28T01:31:00Z")
    report = realistic()
    data = event["data"]
    assert data["run"] == {
        "id": str(world.run_id),
        "schedule_id": str(world.schedule_id),
        "schedule": "nightly",
        "kind": "scheduled",
        "attempt": 1,
        "scheduled_for": "2027-03-28T01:00:00Z",
        "local_time": "2027-03-28T03:00:00+02:00",
        "state": "succeeded",
        "zone": "Europe/Paris",
    }
    headline = report.headline
    assert data["report"]["gpu_hours_lost_per_30_days"] == headline.gpu_hours_lost_per_30_days
    assert data["report"]["cost_of_loss_per_30_days"] == msgspec.to_builtins(
        headline.cost_of_loss_per_30_days
    )
    assert data["report"]["id"] == str(row.report_id)
    assert data["reason"] == row.reason
    assert row.reason == "Over budget: 625,297 GPU-hours lost in 30 days, budget 600,000."
    assert data["links"]["report"] == f"/v1/reports/{row.report_id}"
    assert data["links"]["report_page"] == f"/reports/{row.report_id}"
    assert data["links"]["schedule_page"] == f"/schedules/{world.schedule_id}"
    assert data["links"]["run"] == f"/v1/schedules/{world.schedule_id}/runs/{world.run_id}"
    assert len(row.payload) < 20_000


def test_without_include_costs_no_money_is_in_it(database: Database) -> None:
    world = World(database)
    made = realistic()
    assert made.headline.cost_of_loss_per_30_days is not None
    row = world.webhook("https://hooks.example.org/x")
    assert b"amount" not in row.payload
    assert not row.include_costs
    data = msgspec.json.decode(row.payload)["data"]["report"]
    assert (data["cost_of_loss_per_30_days"], data["cost_status"]) == (None, "withheld")
    # The endpoint has the last word.
    endpoint = world.endpoint("https://hooks.example.org/y")
    wanted = {"kind": "webhook", "endpoint_id": str(endpoint.id), "include_costs": True}
    row = world.plan(wanted, made=world.store(made), run_id=world.new_run())[-1]
    assert b"amount" not in row.payload
    assert not row.include_costs


def test_the_language_is_that_of_the_delivery_else_of_the_report(database: Database) -> None:
    world = World(database)
    rows = world.plan(
        FOLDER,
        {**FOLDER, "language": "en"},
        made=world.store(moved(1.0, 2.0)),
        report={"language": "fr"},
    )
    assert [row.reason for row in rows] == [
        "Chaque exécution est envoyée.",
        "Every run is delivered.",
    ]
    assert [row.target["language"] for row in rows] == ["fr", "en"]


def test_an_endpoint_that_is_gone_skips_its_deliveries(database: Database) -> None:
    world = World(database)
    unknown = "0199c0de-0000-7000-8000-00000000dead"
    (row,) = world.plan({"kind": "webhook", "endpoint_id": unknown}, made=world.store(realistic()))
    assert (row.state, row.endpoint_id) == ("skipped", None)
    assert row.reason == f"Not sent: there is no webhook endpoint {unknown} any more."


SET_UP = Deliveries(
    folder="/srv/x", smtp_url="smtps://m.example", email_domains=("example.org", "b.net")
)
MAIL = {"kind": "email", "to": ["ada@example.org"]}


def faults(
    database: Database,
    *deliveries: dict[str, Any],
    settings: Deliveries = SET_UP,
    actor: Actor | None = None,
) -> list[tuple[str, str]]:
    with database.read() as connection:
        found = check(
            connection,
            actor or Actor(),
            [msgspec.convert(part, DeliveryIn) for part in deliveries],
            settings,
        )
    return [(fault.pointer, fault.code) for fault in found]


def test_what_a_schedule_may_ask_for(database: Database) -> None:
    world = World(database)
    endpoint = str(world.endpoint("https://hooks.example.org/").id)
    hook = {"kind": "webhook", "endpoint_id": endpoint}
    deep = {"kind": "directory", "folder": "a/b-c/d_e.f", "formats": ["html", "json", "focus"]}
    change_rule = {"when": "on_change", "threshold": {"relative": 0.1}}
    allowed = {"kind": "email", "to": ["a.b+c@example.org", "x@deep.B.net"], "attach": ["csv"]}
    assert faults(database, FOLDER, MAIL, hook, deep, allowed, {**hook, **change_rule}) == []


def test_every_fault_of_what_a_schedule_asks_for_is_named(database: Database) -> None:
    world = World(database)
    endpoint = str(world.endpoint("https://hooks.example.org/").id)
    unknown = str(UUID(int=7))
    assert faults(database, FOLDER, MAIL, settings=Deliveries()) == [
        ("/deliveries/0/kind", "folder_not_set_up"),
        ("/deliveries/1/kind", "mail_not_set_up"),
    ]
    planner = Actor(scopes=Actor().scopes - {"costs:read"})
    hook = {"kind": "webhook", "endpoint_id": endpoint, "include_costs": True}
    assert faults(database, hook, {**MAIL, "include_costs": True}, actor=planner) == [
        ("/deliveries/0/include_costs", "needs_costs_read"),
        ("/deliveries/0/include_costs", "endpoint_without_costs"),
        ("/deliveries/1/include_costs", "needs_costs_read"),
    ]
    assert faults(
        database,
        {"kind": "webhook", "endpoint_id": unknown},
        {**FOLDER, "folder": "../etc"},
        {**FOLDER, "formats": ["csv", "csv"]},
        {**FOLDER, "folder": "b", "when": "always", "threshold": {"relative": 0.1}},
        {**FOLDER, "folder": "c", "when": "on_change", "threshold": {}},
        {**MAIL, "to": ["ada@example.org", "ADA@example.org", "x@evil.org", "a b@example.org"]},
        {**MAIL, "to": ["a@b.net\r\nBcc: x@y.org", "@b.net", "ab@", "a@notb.net"]},
        # In one folder its files would overwrite those of the other.
        {**FOLDER, "folder": "b", "formats": ["json"]},
    ) == [
        ("/deliveries/0/endpoint_id", "unknown_endpoint"),
        ("/deliveries/1/folder", "malformed_folder"),
        ("/deliveries/2/formats/1", "repeated"),
        ("/deliveries/3/threshold", "threshold_without_change"),
        ("/deliveries/4/threshold", "empty_threshold"),
        ("/deliveries/5/to/1", "repeated"),
        ("/deliveries/5/to/2", "domain_not_allowed"),
        ("/deliveries/5/to/3", "malformed_address"),
        ("/deliveries/6/to/0", "malformed_address"),
        ("/deliveries/6/to/1", "malformed_address"),
        ("/deliveries/6/to/2", "malformed_address"),
        ("/deliveries/6/to/3", "domain_not_allowed"),
        ("/deliveries/7/folder", "repeated"),
    ]


@pytest.mark.parametrize(
    ("address", "good"),
    [
        *((one, True) for one in ("ada@example.org", "o'brien+x@a-b.example.org", "a=b@x.org")),
        *((one, False) for one in ("ada@localhost", "ada", "-oQ/tmp@b.org", '"a b"@b.org')),
        *((one, False) for one in ("=?utf-8?q?a=0d=0aBcc=3ae=40x.org?=@b.org", "a=?b@x.org")),
        *((one, False) for one in ("a b@x.org", "a@x.org\n", "a@x.org\r\nBcc: b", "a\0@x.org")),
        *((one, False) for one in ("a@[127.0.0.1]", "a@x..org", "a@.org", "é@x.org", "a@x.org.")),
        *((one, False) for one in ("<a@x.org>", "a@x.org,b@x.org", "a@b@x.org", "a@-x.org")),
    ],
)
def test_addresses_are_plain(address: str, *, good: bool) -> None:
    assert is_address(address) == good
