"""Money is withheld from whoever lacks costs:read, in every use case and on both databases."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from service.db.engine import Connection, Database
from service.db.rates import RateFilter
from service.errors import ForbiddenError, NotFoundError
from service.jobs import (
    comparisons,
    export_files,
    export_making,
    export_results,
    exports,
    finished_batches,
    loss_histories,
    repricings,
    results,
)
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut
from service.jobs.comparisons import ComparisonQuery
from service.jobs.export_documents import ComparisonIn, ExportIn
from service.jobs.history_documents import HistoryQuery
from service.jobs.rate_corrections import correct_rate
from service.jobs.rate_documents import CorrectionIn, RateOut
from service.jobs.rates import list_page
from service.jobs.repricings import RepricingIn
from service.jobs.result_queries import ResultsQuery
from service.jobs.scopes import ROLE_SCOPES, Scope
from service.reports.cost_changes import withheld_change
from tests.jobs.batch_bodies import ACTOR
from tests.jobs.export_bodies import FORMATS, a_profile_with_a_rate, ask, run
from tests.reports.export_readers import READERS

NOW = datetime(2026, 12, 31, tzinfo=UTC)

VIEWER = Actor(
    name="vera", principal="key:vera", role="viewer", scopes=frozenset(ROLE_SCOPES["viewer"])
)
FINANCE = Actor(
    name="fina", principal="key:fina", role="finance", scopes=frozenset(ROLE_SCOPES["finance"])
)
PRICE = Decimal("1.875")
NEEDS = "needs the scope costs:read, which vera has not"


def with_scopes(*scopes: Scope) -> Actor:
    return Actor(name="vera", principal="key:vera", role="finance", scopes=frozenset(scopes))


@pytest.fixture
def batches(database: Database) -> tuple[BatchOut, BatchOut]:
    """Two priced batches of one scenario: a slow GPU, and a less slow one."""
    a_profile_with_a_rate(database)
    past, new = (
        run(
            database,
            {
                "custom_id": "slow",
                "name": "one slow GPU",
                "profile": "prod",
                "overrides": {"slow_groups": [{"count": 1, "speed_fraction": speed}]},
                "axes": [{"path": "num_gpus", "values": [64, 1024]}],
            },
            start_on="2026-12-01",
            currency="EUR",
        )
        for speed in (0.7, 0.9)
    )
    return past, new


def test_results_are_shown_without_money(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    past, _ = batches
    with database.read() as connection:
        shown = results.list_page(connection, FINANCE, ResultsQuery(batch=past.id)).items
        hidden = results.list_page(connection, VIEWER, ResultsQuery(batch=past.id)).items
        ended = finished_batches.read_finished(connection, VIEWER, past.id)
        one = results.read_one(connection, VIEWER, f"{past.id}.1")
        full = results.read_one(connection, FINANCE, f"{past.id}.1")
    for row in shown:
        exact = Decimal(repr(row.result.gpu_hours_lost)) * PRICE
        assert row.cost_of_loss is not None
        assert Decimal(row.cost_of_loss.amount) == round(exact, 2)
    assert hidden == [
        msgspec.structs.replace(
            row, cost_of_loss=None, cost_status="withheld", unpriced_days=None, rates=[]
        )
        for row in shown
    ]
    assert ended.results.items == hidden
    assert one.result == hidden[1]
    assert (full.provenance.pricing, full.provenance.rates_as_of) == (1, past.rates_as_of)
    assert one.provenance == msgspec.structs.replace(full.provenance, pricing=0, rates_as_of=None)


def test_comparisons_are_shown_without_money(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    past, new = batches
    query = ComparisonQuery(
        baseline=past.id, candidate=new.id, order_by="-difference.gpu_hours_lost"
    )
    with database.read() as connection:
        shown = comparisons.compare(connection, FINANCE, query, page_size=50)
        hidden = comparisons.compare(connection, VIEWER, query, page_size=50)
    assert [row.cost_of_loss.status for row in shown.items] == ["priced", "priced"]
    assert shown.summary.cost_of_loss.difference is not None
    assert Decimal(shown.summary.cost_of_loss.difference.amount) < 0
    nothing = withheld_change()
    assert hidden.items == [
        msgspec.structs.replace(row, cost_of_loss=nothing) for row in shown.items
    ]
    assert hidden.summary == msgspec.structs.replace(
        shown.summary,
        cost_of_loss=nothing,
        profiles=[
            msgspec.structs.replace(total, cost_of_loss=nothing) for total in shown.summary.profiles
        ],
    )


def test_the_history_is_shown_without_money(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    with database.read() as connection:
        query = HistoryQuery(scenario="one slow GPU")
        shown = loss_histories.history(connection, FINANCE, query, NOW).items
        hidden = loss_histories.history(connection, VIEWER, query, NOW).items
    assert len(shown) == len(batches)
    assert [row.cost_status for row in shown] == ["priced", "priced"]
    assert [row.cost_status for row in hidden] == ["withheld", "withheld"]
    assert [row.cost_of_loss_per_day for row in hidden] == [None, None]
    assert [row.cost_of_loss_per_30_days for row in hidden] == [None, None]
    assert hidden[1].change is not None
    assert hidden[1].change.cost_of_loss_per_30_days == withheld_change()
    assert [row.gpu_hours_lost for row in hidden] == [row.gpu_hours_lost for row in shown]


@pytest.mark.parametrize("format_name", FORMATS)
def test_exports_keep_their_columns_and_lose_their_money(
    database: Database, batches: tuple[BatchOut, BatchOut], format_name: str
) -> None:
    past, new = batches
    comparison = ComparisonIn(baseline=past.id, candidate=new.id)
    for query in (
        ExportIn(format=format_name),  # type: ignore[arg-type] # one of the formats
        ExportIn(format=format_name, order_by="-gpu_hours_lost"),  # type: ignore[arg-type]
        ExportIn(format=format_name, comparison=comparison),  # type: ignore[arg-type]
    ):
        with database.read() as connection:
            shown, hidden = (
                exports.extract(connection, actor, query) for actor in (FINANCE, VIEWER)
            )
            assert hidden.fields == shown.fields
            assert [(batch.pricing, batch.currency) for batch in hidden.batches] == [
                (None, None)
            ] * 2
            assert [(batch.pricing, batch.currency) for batch in shown.batches] == [(1, "EUR")] * 2
            priced = READERS[format_name](b"".join(shown.written(query)))
            withheld = READERS[format_name](b"".join(hidden.written(query)))
        assert len(priced) == len(withheld) == (2 if query.comparison else 4)
        for row, other in zip(priced, withheld, strict=True):
            money = [name for name in row if "cost" in name or name.endswith("currency")]
            assert len(money) == (11 if query.comparison else 3)
            for name, value in row.items():
                if name not in money:
                    assert other[name] == value
                elif name.endswith("cost_status"):
                    assert (value, other[name]) == ("priced", "withheld")
                else:
                    assert value not in {None, ""}
                    assert other[name] in {None, ""}


REFUSED: dict[str, Callable[[Connection, UUID, UUID], object]] = {
    "sort": lambda c, past, _: results.list_page(
        c, VIEWER, ResultsQuery(batch=past, order_by="num_gpus,-cost_of_loss")
    ),
    "filter": lambda c, past, _: results.list_page(
        c, VIEWER, ResultsQuery(batch=past, where=("cost_of_loss:gt:1",))
    ),
    "null filter": lambda c, past, _: results.list_page(
        c,
        VIEWER,
        ResultsQuery(batch=past, currency="EUR", where=("cost_of_loss:is_null:true",)),
    ),
    "currency": lambda c, _p, _n: results.list_page(c, VIEWER, ResultsQuery(currency="EUR")),
    "pricing": lambda c, past, _: results.list_page(c, VIEWER, ResultsQuery(batch=past, pricing=2)),
    "pricing of none": lambda c, _p, _n: results.list_page(c, VIEWER, ResultsQuery(pricing=2)),
    "order of a comparison": lambda c, past, new: comparisons.compare(
        c,
        VIEWER,
        ComparisonQuery(baseline=past, candidate=new, order_by="past.cost_of_loss"),
        page_size=1,
    ),
    "pricing of a comparison": lambda c, past, new: comparisons.compare(
        c,
        VIEWER,
        ComparisonQuery(baseline=past, candidate=new, candidate_pricing=2),
        page_size=1,
    ),
    "export": lambda c, _p, _n: exports.extract(c, VIEWER, ExportIn(currency="EUR")),
    "file": lambda c, _p, _n: export_files.create(
        c, VIEWER, ExportIn(currency="EUR", where=("cost_of_loss:gt:1",))
    ),
    "file of a comparison": lambda c, past, new: export_files.create(
        c,
        VIEWER,
        ExportIn(
            comparison=ComparisonIn(baseline=past, candidate=new, order_by="-relative.cost_of_loss")
        ),
    ),
    "file of a pricing": lambda c, past, new: export_files.create(
        c,
        VIEWER,
        ExportIn(comparison=ComparisonIn(baseline=past, candidate=new, baseline_pricing=3)),
    ),
    "repricing": lambda c, past, _: repricings.reprice(c, VIEWER, past, RepricingIn()),
    "pricings": lambda c, past, _: repricings.list_pricings(c, VIEWER, past),
}


def test_what_would_tell_of_money_is_refused(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    past, new = batches
    with database.write() as connection:
        for name, ask_for in REFUSED.items():
            with pytest.raises(ForbiddenError) as caught:
                ask_for(connection, past.id, new.id)
            assert NEEDS in caught.value.detail, name


def test_a_pricing_that_is_not_there_is_told_only_to_those_who_see_money(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    past, _ = batches
    query = ResultsQuery(batch=past.id, pricing=2)
    with database.read() as connection:
        with pytest.raises(NotFoundError, match="has no pricing 2"):
            results.list_page(connection, FINANCE, query)
        with pytest.raises(ForbiddenError, match=NEEDS):
            results.list_page(connection, VIEWER, query)


def test_page_tokens_of_finance_do_not_help_a_viewer(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    past, new = batches
    by_cost = ResultsQuery(currency="EUR", order_by="-cost_of_loss", page_size=1)
    compared = ComparisonQuery(
        baseline=past.id, candidate=new.id, order_by="-difference.cost_of_loss"
    )
    with database.read() as connection:
        token = results.list_page(connection, FINANCE, by_cost).next_page_token
        other = comparisons.compare(connection, FINANCE, compared, page_size=1).next_page_token
        assert token
        assert other
        with pytest.raises(ForbiddenError, match=NEEDS):
            results.list_page(
                connection, VIEWER, msgspec.structs.replace(by_cost, page_token=token)
            )
        with pytest.raises(ForbiddenError, match=NEEDS):
            comparisons.compare(
                connection,
                VIEWER,
                msgspec.structs.replace(compared, page_token=other),
                page_size=1,
            )


def test_a_file_made_for_finance_is_closed_to_viewers(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    export_id = ask(database, currency="EUR", where=("cost_of_loss:gt:1",))
    export_making.run(database, export_id)
    with database.read() as connection:
        made = export_files.get(connection, FINANCE, export_id)
        assert made.rows == 2 * len(batches)
        assert export_files.stored_file(connection, FINANCE, export_id).num_bytes == made.bytes
        for look in (export_files.sidecar, export_files.stored_file):
            with pytest.raises(ForbiddenError, match=NEEDS):
                look(connection, VIEWER, export_id)
        seen = export_files.get(connection, VIEWER, export_id)
    assert made.with_costs
    assert seen == msgspec.structs.replace(
        made, query=None, rows=None, bytes=None, sha256=None, content_url=None, sidecar_url=None
    )


def test_why_a_file_for_finance_failed_is_not_told(
    database: Database, batches: tuple[BatchOut, BatchOut], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(batches) == 2
    monkeypatch.setattr(export_results, "MAX_SORTED_ROWS", 1)
    export_id = ask(database, currency="EUR", where=("cost_of_loss:gt:1",), order_by="point")
    export_making.run(database, export_id)
    with database.read() as connection:
        told = export_files.get(connection, FINANCE, export_id)
        seen = export_files.get(connection, VIEWER, export_id)
        with pytest.raises(ForbiddenError, match=NEEDS):
            export_files.stored_file(connection, VIEWER, export_id)
    assert "more than 1 rows match" in str(told.failure)
    assert (seen.state, seen.failure) == ("failed", "told only to those with the scope costs:read")


def test_a_file_made_for_a_viewer_holds_no_money_whoever_reads_it(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    past, _ = batches
    with database.write() as connection:
        export_id = export_files.create(connection, VIEWER, ExportIn(batch=past.id)).id
    export_making.run(database, export_id)
    with database.read() as connection:
        told = export_files.sidecar(connection, VIEWER, export_id)
        file = export_files.stored_file(connection, FINANCE, export_id)
    rows = READERS["csv"](b"".join(export_files.content(database, file, 0, file.num_bytes)))
    assert told.created_by == "vera"
    assert (told.batches[0].pricing, told.batches[0].currency) == (None, None)
    assert [(row["cost_of_loss"], row["currency"], row["cost_status"]) for row in rows] == [
        ("", "", "withheld")
    ] * 2


def test_a_correction_would_show_the_price_that_it_keeps(
    database: Database, batches: tuple[BatchOut, BatchOut]
) -> None:
    assert len(batches) == 2
    (rate,) = current_rates(database)
    late = CorrectionIn(reason="ends earlier", valid_until=rate.valid_from.replace(year=2030))
    writer = with_scopes("costs:write")
    with database.write() as connection, pytest.raises(ForbiddenError, match=NEEDS):
        correct_rate(connection, writer, rate.id, late, version=rate.version)
    assert current_rates(database) == [rate]


def current_rates(database: Database) -> list[RateOut]:
    with database.read() as connection:
        return list_page(connection, ACTOR, RateFilter(), page_size=9, page_token=None).items
