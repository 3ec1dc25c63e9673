"""Schedules from the command line, on a real service, as a person uses them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from service.cli.child_service import running_service
from service.cli.schedule_following import backfill_exit_code, run_exit_code
from service.jobs.schedule_documents import DeliveryIn, ScheduleIn
from service.jobs.zone_data import TZDATA_VERSION
from tests.cli.conftest import EXAMPLE, Program
from tests.cli.test_report import post
from tests.jobs.batch_bodies import SEED
from tests.jobs.schedule_bodies import body

# Its first slot comes in years.
RARE = "0 12 29 2 *"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One service for all tests of this file."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(
        f"sqlite:///{folder / 'trainard.db'}", port=0, log=folder / "service.log"
    ) as found:
        yield found


def write(folder: Path, document: Any) -> str:
    path = folder / "schedule.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture
def make(trainard: Program, address: str, tmp_path: Path) -> Any:
    """Make a schedule of this name by command."""

    def made(slug: str, **changes: Any) -> dict[str, Any]:
        path = write(tmp_path, body(slug, **{"cron": RARE, "zone": "UTC", **changes}))
        done = trainard("schedule", "create", path, "--url", address, "--format", "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return made


def test_the_example_in_the_help_is_a_schedule(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    lines = trainard("schedule", "create", "--help").stdout.splitlines()
    shown = [line.strip() for line in lines]
    example = json.loads("".join(shown[shown.index("{") : shown.index("}") + 1]))
    # This service delivers to no folder.
    deliveries = example.pop("deliveries")
    assert msgspec.convert(deliveries, list[DeliveryIn])
    profile = {"slug": "h100", "name": "H100", "gpu_type": "H100", "defaults": SEED}
    post(address, "/v1/cluster-profiles", profile)
    path = write(tmp_path, example)
    done = trainard("schedule", "create", path, "--validate-only", "--url", address)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_file_has_every_field_and_runs(trainard: Program, address: str) -> None:
    path = EXAMPLE / "nightly.json"
    document = json.loads(path.read_text("utf-8"))
    assert set(document) == set(ScheduleIn.__struct_fields__)
    made = trainard("schedule", "create", str(path), "--url", address)
    assert made.returncode == 0, made.stderr
    done = trainard("schedule", "run", "example-nightly", "--wait", "--url", address)
    assert done.returncode == 0, done.stderr
    assert "succeeded, 2 of 2 points" in done.stdout


def test_a_schedule_from_its_file_to_its_end(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    url = ("--url", address)
    document = body("whole", budget={"gpu_hours_lost_per_30_days": 200_000})
    path = write(tmp_path, document)
    checked = trainard("schedule", "create", path, "--validate-only", *url)
    first, *rest = checked.stdout.splitlines()
    assert first == "Valid: 1 item, 1 points, about 0.1 s a run; nothing was stored"
    assert rest[1].split() == ["local", "UTC", "note"]
    assert len(rest) == 8
    made = trainard("schedule", "create", path, *url)
    lines = made.stdout.splitlines()
    assert lines[0] == "Schedule whole (Nightly what-if), version 1"
    assert lines[1] == "  comes:    30 2 * * *, Europe/Paris"
    assert re.fullmatch(r"  next:     \d{4}-\d\d-\d\d 0[23]:[03]0 \+0[12]:00", lines[2])
    assert lines[3:] == [
        "  last run: -",
        "  computes: one-slow, priced in EUR",
        "  compared: with the run before",
        "  policies: missed slots: run_latest, at once: queue",
        "  budget:   200 000 GPU-hours in 30 days",
    ]
    assert trainard("schedule", "show", "whole", *url).stdout == made.stdout
    again = trainard("schedule", "create", path, *url)
    assert again.returncode == 1
    assert "'whole' is already taken" in again.stderr

    change = '{"cron": "0 4 * * *", "baseline": null, "budget": null}'
    changed = trainard("schedule", "update", "whole", "-", *url, stdin=change)
    assert "version 2" in changed.stdout
    assert "0 4 * * *" in changed.stdout
    assert "compared: with nothing" in changed.stdout
    stale = trainard("schedule", "update", "whole", "-", "--version", "1", *url, stdin=change)
    assert stale.returncode == 1
    assert "at version 2" in stale.stderr

    paused = trainard("schedule", "pause", "whole", *url)
    assert paused.stdout.startswith("Schedule whole is paused since 20")
    assert trainard("schedule", "pause", "whole", *url).stdout == paused.stdout
    listed = trainard("schedule", "list", "--paused", "--prefix", "whole", *url)
    assert listed.stdout.splitlines()[2].split()[:8] == [
        *("whole", "0", "4", "*", "*", "*", "Europe/Paris", "paused")
    ]
    resumed = trainard("schedule", "resume", "whole", *url)
    assert re.fullmatch(
        r"Schedule whole comes next at \d{4}-\d\d-\d\dT04:00:00\+0[12]:00\.\n", resumed.stdout
    )
    refused = trainard("schedule", "delete", "whole", *url, stdin="n\n")
    assert refused.returncode == 1
    deleted = trainard("schedule", "delete", "whole", *url, stdin="y\n")
    assert "is deleted." in deleted.stdout
    gone = trainard("schedule", "show", "whole", *url)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "there is no schedule 'whole'" in gone.stderr


def test_nights_of_change_have_a_note(trainard: Program, address: str, make: Any) -> None:
    make("paris", cron="30 2 * * *", zone="Europe/Paris")
    options = ("--after", "2027-10-30T12:00:00Z", "--count", "2", "--url", address)
    done = trainard("schedule", "occurrences", "paris", *options)
    note = "Clocks go back: this wall time exists twice on this day."
    title, empty, *table = done.stdout.splitlines()
    assert (title, empty) == (f"30 2 * * *, Europe/Paris (zones of {TZDATA_VERSION})", "")
    assert table == [
        "local                    UTC                note",
        f"{'-' * 23}  {'-' * 17}  {'-' * len(note)}",
        f"2027-10-31 02:30 +02:00  2027-10-31 00:30Z  {note}",
        "2027-11-01 02:30 +01:00  2027-11-01 01:30Z",
    ]
    trainard("schedule", "pause", "paris", "--url", address)
    assert "it is paused" in trainard("schedule", "occurrences", "paris", *options).stdout
    wrong = trainard("schedule", "occurrences", "paris", "--after", "noon", "--url", address)
    assert wrong.returncode == 2
    assert "after" in wrong.stderr


def test_a_schedule_that_is_not_made_yet_is_previewed(trainard: Program, address: str) -> None:
    moment = ("--after", "2027-10-30T12:00:00Z", "--count", "1", "--url", address)
    done = trainard("schedule", "preview", " 30  2 * * *", "Europe/Paris", *moment)
    assert done.returncode == 0, done.stderr
    title, _, *table = done.stdout.splitlines()
    assert title == f"30 2 * * *, Europe/Paris (zones of {TZDATA_VERSION})"
    assert [line[:42] for line in table[2:]] == ["2027-10-31 02:30 +02:00  2027-10-31 00:30Z"]
    wrong = trainard("schedule", "preview", "@daily", "Mars", "--url", address)
    assert wrong.returncode == 2
    assert "[wrong_number_of_fields]" in wrong.stderr
    assert "[unknown_zone]" in wrong.stderr


def test_faults_have_their_places_and_code_2(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    path = write(tmp_path, body("x", cron="0 0 30 2 *", zone="Mars"))
    done = trainard("schedule", "create", path, "--url", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"{path} has 2 faults, nothing was done:",
        "  /cron: '0 0 30 2 *' never comes: no day of 50 years matches [never_comes]",
        f"  /zone: 'Mars' is no time zone of IANA's {TZDATA_VERSION} [unknown_zone]",
    ]
    for text, code in (("{", "malformed_json"), ("[]", "no_object")):
        broken = trainard("schedule", "create", "-", "--url", address, stdin=text)
        assert broken.returncode == 2
        assert f"[{code}]" in broken.stderr
    nobody = trainard("schedule", "list", "--url", "http://127.0.0.1:1")
    assert nobody.returncode == 1
    assert "no service answers" in nobody.stderr


def test_a_run_is_waited_for(trainard: Program, address: str, make: Any) -> None:
    make("now")
    url = ("--url", address)
    done = trainard("schedule", "run", "now", "--wait", *url)
    assert done.returncode == 0, done.stderr
    first, *places = done.stdout.splitlines()
    found = re.fullmatch(r"Run (\S+) of now \((.+) \+00:00\): succeeded, 1 of 1 points", first)
    assert found is not None, first
    assert [line.split()[0] for line in places] == ["run:", "batch:", "report:"]
    page = httpx.get(places[2].split()[1])
    assert (page.status_code, page.headers["content-type"].split(";")[0]) == (200, "text/html")
    ledger = trainard("schedule", "runs", "now", *url).stdout.splitlines()
    assert len(ledger) == 3
    assert ledger[2].split()[3:6] == ["manual", "succeeded", found[1]]
    only = trainard("schedule", "runs", "now", "--state", "failed", *url)
    assert only.stdout == "No slot has come yet.\n"
    shown = trainard("schedule", "show", "now", *url).stdout
    assert f"last run: succeeded, slot of {found[2]}Z, {found[1]}" in shown
    ended = trainard("schedule", "cancel-run", "now", found[1], *url)
    assert ended.returncode == 1


def test_a_budget_of_money_that_tells_nobody_is_warned_of(
    trainard: Program, address: str, tmp_path: Path
) -> None:
    money = {"cost_of_loss_per_30_days": {"amount": "5", "currency": "EUR"}}
    path = write(tmp_path, body("quiet", cron=RARE, budget=money))
    said = "nobody is told when the budget of money is passed"
    for options in (("--validate-only",), ()):
        done = trainard("schedule", "create", path, *options, "--url", address)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    assert f"  warning:  {said}" in trainard("schedule", "show", "quiet", "--url", address).stdout


def test_a_run_over_its_budget_says_so(trainard: Program, address: str, make: Any) -> None:
    make("tight", budget={"gpu_hours_lost_per_30_days": 1})
    done = trainard("schedule", "run", "tight", "--wait", "--url", address, "--format", "json")
    run = json.loads(done.stdout)
    assert (done.returncode, run["state"], run["budget_status"]) == (0, "succeeded", "over")
    ledger = trainard("schedule", "runs", "tight", "--url", address).stdout
    assert " over " in ledger


def test_a_backfill_is_tried_dry_and_then_waited_for(
    trainard: Program, address: str, make: Any
) -> None:
    make("past", cron="30 2 * * *", zone="Europe/Paris")
    days = ("--from", "2026-10-24", "--to", "2026-10-26", "--url", address)
    dry = trainard("schedule", "backfill", "past", *days, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    lines = dry.stdout.splitlines()
    assert [line[:29].rstrip() for line in lines[2:5]] == [
        "2026-10-24 02:30 +02:00  run",
        "2026-10-25 02:30 +02:00  run",
        "2026-10-26 02:30 +01:00  run",
    ]
    assert lines[5].startswith("3 of 3 slots are to run, 3 points, about ")
    assert trainard("schedule", "runs", "past", "--url", address).stdout.startswith("No slot")
    done = trainard("schedule", "backfill", "past", *days, "--wait", "--max-running", "2")
    assert done.returncode == 0, done.stderr
    assert "(2026-10-24 to 2026-10-26): ended, 3 slots: 3 succeeded" in done.stdout
    again = trainard("schedule", "backfill", "past", *days)
    assert again.returncode == 2
    assert "--reprocess: none of the 3 slots is to run" in again.stderr
    left = trainard("schedule", "backfill", "past", *days, "--dry-run")
    assert left.returncode == 0, left.stderr
    assert "2026-10-24 02:30 +02:00  leave  it is succeeded, and `reprocess`" in left.stdout
    assert "0 of 3 slots are to run, 0 points, about 0.0 s; nothing was stored" in left.stdout
    assert "none of the 3 slots is to run" in left.stdout
    options = ("--reprocess", "all", "--dry-run", "--format", "json")
    every = json.loads(trainard("schedule", "backfill", "past", *days, *options).stdout)
    assert (every["slots_run"], every["points_total"]) == (3, 3)
    backwards = ("--from", "2026-10-26", "--to", "2026-10-24", "--url", address)
    refused = trainard("schedule", "backfill", "past", *backwards)
    assert refused.returncode == 2
    assert "--to" in refused.stderr
    assert "first_on" not in refused.stderr
    assert "last_on" not in refused.stderr


def test_backfills_and_their_runs_are_looked_at_and_priced_again(
    trainard: Program, address: str, make: Any
) -> None:
    def said(*words: str, code: int = 0) -> str:
        done = trainard("schedule", *words, "--url", address)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    make("looked-at", cron="30 2 * * *", zone="Europe/Paris")
    assert said("backfills", "looked-at") == "There are no backfills.\n"
    days = ("--from", "2026-10-23", "--to", "2026-10-25")
    made = json.loads(said("backfill", "looked-at", *days, "--format", "json"))
    ended = said("show-backfill", "looked-at", made["id"], "--wait")
    assert f"Backfill {made['id']} of looked-at" in ended
    assert "ended, 3 slots: 3 succeeded" in ended
    (line,) = said("backfills", "looked-at").splitlines()[2:]
    assert line.split() == [
        *("2026-10-23", "to", "2026-10-25", "ended", "3", "3", "succeeded", made["id"])
    ]
    only = said("runs", "looked-at", "--backfill", made["id"], "--limit", "2").splitlines()
    assert [one[:10] for one in only[2:4]] == ["2026-10-25", "2026-10-24"]
    assert only[4] == "There are more: --before 2026-10-24T00:30:00Z"
    (before,) = said("runs", "looked-at", "--before", "2026-10-24T00:30:00Z").splitlines()[2:]
    assert before.startswith("2026-10-23 02:30 +02:00  backfill  succeeded")
    assert said("runs", "looked-at", "--after", "2026-10-25T02:30:00+02:00").startswith("No slot")

    first, last = before.split()[5], only[2].split()[5]
    assert "  compared: with none: no earlier run\n" in said("show-run", "looked-at", first)
    shown = said("show-run", "looked-at", last, "--wait").splitlines()
    assert (
        shown[0] == f"Run {last} of looked-at (2026-10-25 02:30 +02:00): succeeded, 1 of 1 points"
    )
    assert shown[4:7] == [
        "  kind:     backfill, attempt 1",
        "  window:   30 days from 2026-10-25",
        f"  compared: with run {only[3].split()[5]}",
    ]
    assert shown[7] == ("  warning:  clocks went back on that day, and 02:30 was there twice")
    again = ("--from", "2026-10-25", "--to", "2026-10-25", "--reprocess", "all", "--wait")
    said("backfill", "looked-at", *again)
    twice = said("show-run", "looked-at", last)
    assert "  kind:     backfill, attempt 2\n" in twice
    assert "  earlier:  attempt 1: succeeded, report " in twice

    nights = ("--from", "2026-10-23", "--until", "2026-10-25")
    priced = said("reprice", "looked-at", *nights).splitlines()
    assert [one.split()[:7] for one in priced[2:4]] == [
        ["2026-10-23", "00:30Z", "2", "EUR", "0", "0", "1"],
        ["2026-10-24", "00:30Z", "2", "EUR", "0", "0", "1"],
    ]
    assert priced[4:] == ["2 runs priced again; the first prices stay"]
    backwards = ("--from", "2026-10-25", "--until", "2026-10-23")
    assert "--until is 2026-10-23, which is not after --from" in said(
        "reprice", "looked-at", *backwards, code=2
    )


def test_a_backfill_that_is_held_is_canceled(trainard: Program, address: str, make: Any) -> None:
    make("held", cron="0 3 * * *", paused=True)
    days = ("--from", "2026-10-24", "--to", "2026-10-25", "--url", address)
    made = trainard("schedule", "backfill", "held", *days, "--format", "json")
    backfill = json.loads(made.stdout)
    assert backfill["runs"]["due"] == 2
    done = trainard("schedule", "cancel-backfill", "held", backfill["id"], "--url", address)
    assert done.returncode == 0, done.stderr
    assert "2 slots: 2 canceled" in done.stdout
    runs = trainard("schedule", "runs", "held", "--kind", "backfill", "--url", address)
    assert runs.stdout.count("  canceled  ") == 2


def test_lists_of_none_and_of_many(trainard: Program, address: str, make: Any) -> None:
    none = trainard("schedule", "list", "--zone", "Asia/Tokyo", "--url", address)
    assert none.stdout == "There are no schedules.\n"
    for slug in ("many-b", "many-a"):
        make(slug, zone="Asia/Kolkata")
    listed = trainard(
        "schedule", "list", "--active", "--prefix", "many-", "--url", address, "--format", "json"
    )
    assert [one["slug"] for one in json.loads(listed.stdout)] == ["many-a", "many-b"]


def test_exit_codes_of_what_was_waited_for() -> None:
    states = ("succeeded", "partially_failed", "failed", "canceled", "skipped", "replaced")
    assert [run_exit_code({"state": state}) for state in states] == [0, 3, 4, 4, 4, 4]
    runs = {"succeeded": 0, "partially_failed": 0, "failed": 0, "taken_over": 0}

    def code(**changes: int) -> int:
        return backfill_exit_code({"slots": 3, "runs": {**runs, **changes}})

    assert (code(succeeded=3), code(succeeded=2, taken_over=1)) == (0, 0)
    assert (code(succeeded=2, failed=1), code(partially_failed=3), code(failed=3)) == (3, 3, 4)
