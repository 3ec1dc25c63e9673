"""Cluster profiles and their revisions, on both databases."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from service.db.engine import Database
from service.db.profiles import ProfileFilter
from service.errors import (
    ConflictError,
    InvalidError,
    MalformedError,
    NotFoundError,
    PreconditionFailedError,
    TrainardError,
)
from service.jobs.actors import Actor
from service.jobs.page_tokens import make_token
from service.jobs.profile_changes import (
    archive_profile,
    create_profile,
    restore_profile,
    revise_profile,
)
from service.jobs.profile_documents import ProfileIn, ProfileOut, RevisionIn
from service.jobs.profiles import (
    list_page,
    list_revisions,
    read_profile,
    read_revision,
    resolve_profile,
)
from service.model.scenario import decode_scenario, full

ACTOR = Actor(name="sre")
DEFAULTS: dict[str, Any] = {"num_gpus": 1024, "load_ms": 30, "compute_ms": 300}


def profile(slug: str = "prod-h100", **changes: Any) -> ProfileIn:
    document = ProfileIn(
        slug=slug, name="Production", gpu_type="H100-SXM", defaults=DEFAULTS, tags={"site": "par1"}
    )
    return msgspec.structs.replace(document, **changes)


def revision(num_gpus: int = 512, **changes: Any) -> RevisionIn:
    document = RevisionIn(
        name="Production", gpu_type="H100-SXM", defaults={**DEFAULTS, "num_gpus": num_gpus}
    )
    return msgspec.structs.replace(document, **changes)


def create(database: Database, document: ProfileIn) -> ProfileOut:
    with database.write() as connection:
        return create_profile(connection, ACTOR, document)


def revise(database: Database, old: ProfileOut, document: RevisionIn) -> ProfileOut:
    with database.write() as connection:
        return revise_profile(connection, ACTOR, old.slug, document, version=old.version)


def archive(database: Database, old: ProfileOut) -> ProfileOut:
    with database.write() as connection:
        return archive_profile(connection, ACTOR, old.slug, version=old.version)


def slugs(database: Database, **wanted: Any) -> list[str]:
    with database.read() as connection:
        page = list_page(connection, ACTOR, ProfileFilter(**wanted), page_size=100, page_token=None)
    return [item.slug for item in page.items]


def test_a_profile_is_stored_with_every_default(database: Database) -> None:
    made = create(database, profile(cost_center="research"))
    with database.read() as connection:
        assert read_profile(connection, ACTOR, "prod-h100") == made
        first = read_revision(connection, ACTOR, "prod-h100", 1)
    assert made.defaults == msgspec.json.decode(
        msgspec.json.encode(full(decode_scenario(DEFAULTS)))
    )
    assert "period_days" in made.defaults
    assert (made.revision, made.version, made.team) == (1, 1, "default")
    assert (made.created_by, made.cost_center, made.archived_at) == ("sre", "research", None)
    assert made.tags == {"site": "par1"}
    assert first.defaults == made.defaults


def test_a_slug_is_taken_once_in_a_team(database: Database) -> None:
    create(database, profile())
    with pytest.raises(ConflictError, match="'prod-h100' is already taken") as caught:
        create(database, profile(name="Another"))
    assert [fault.pointer for fault in caught.value.errors] == ["/slug"]
    with database.read() as connection:
        assert read_profile(connection, ACTOR, "prod-h100").name == "Production"


def test_of_racing_creations_one_wins(database: Database) -> None:
    gate = threading.Barrier(6)
    errors: list[TrainardError] = []

    def run() -> None:
        gate.wait()
        try:
            create(database, profile())
        except TrainardError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [ConflictError] * 5
    assert slugs(database) == ["prod-h100"]


def test_every_fault_of_a_profile_is_named(database: Database) -> None:
    bad = profile(
        "Prod_H100",
        name=" x",
        gpu_type="H100\t",
        cost_center=" ",
        tags={"a b": "1", "x": "y\n"},
        defaults={"num_gpus": 0, "compute_ms": 300, "slow_group": []},
    )
    with pytest.raises(InvalidError) as caught:
        create(database, bad)
    pointers = [fault.pointer for fault in caught.value.errors]
    assert pointers[:6] == ["/slug", "/name", "/gpu_type", "/cost_center", "/tags/a b", "/tags/x"]
    assert sorted(pointers[6:]) == ["/defaults/num_gpus", "/defaults/slow_group"]
    assert slugs(database) == []


@pytest.mark.parametrize("slug", ["a", "7", "a-b", "a" * 64, "0--9"])
def test_good_slugs(sqlite_database: Database, slug: str) -> None:
    assert create(sqlite_database, profile(slug)).slug == slug


@pytest.mark.parametrize("slug", ["", "-a", "a-", "A", "a_b", "a" * 65, "a\n", "é", "a@1"])
def test_bad_slugs(sqlite_database: Database, slug: str) -> None:
    with pytest.raises(InvalidError, match="field") as caught:
        create(sqlite_database, profile(slug))
    assert [fault.code for fault in caught.value.errors] == ["malformed_slug"]


def test_a_revision_leaves_the_ones_before(database: Database) -> None:
    made = create(database, profile())
    revised = revise(database, made, revision(512, tags={"site": "ber1"}, gpu_type="H200"))
    assert (revised.revision, revised.version, revised.gpu_type) == (2, 2, "H200")
    assert revised.id == made.id
    assert revised.created_at == made.created_at
    with database.read() as connection:
        old = read_revision(connection, ACTOR, "prod-h100", 1)
        page = list_revisions(connection, ACTOR, "prod-h100", page_size=1, page_token=None)
        rest = list_revisions(
            connection, ACTOR, "prod-h100", page_size=1, page_token=page.next_page_token
        )
    assert (old.defaults["num_gpus"], old.gpu_type, old.tags) == (1024, "H100-SXM", made.tags)
    assert [item.revision for item in page.items] == [2]
    assert [item.revision for item in rest.items] == [1]
    assert rest.next_page_token is None


def test_a_stale_revision_is_refused(database: Database) -> None:
    made = create(database, profile())
    revise(database, made, revision())
    with pytest.raises(PreconditionFailedError, match="changed since"):
        revise(database, made, revision(8))
    with database.read() as connection, pytest.raises(NotFoundError, match="newest is 2"):
        read_revision(connection, ACTOR, "prod-h100", 3)


def test_of_racing_revisions_one_wins(database: Database) -> None:
    made = create(database, profile())
    gate = threading.Barrier(8)
    errors: list[TrainardError] = []

    def run(number: int) -> None:
        gate.wait()
        try:
            revise(database, made, revision(number + 1))
        except TrainardError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [PreconditionFailedError] * 7
    with database.read() as connection:
        assert read_profile(connection, ACTOR, "prod-h100").revision == 2


def test_an_archived_profile_is_read_but_takes_no_work(database: Database) -> None:
    made = create(database, profile())
    gone = archive(database, made)
    assert gone.archived_at is not None
    assert archive(database, gone) == gone
    assert slugs(database) == []
    assert slugs(database, include_archived=True) == ["prod-h100"]
    with database.read() as connection:
        assert read_revision(connection, ACTOR, "prod-h100", 1).revision == 1
        for reference in ("prod-h100", "prod-h100@1"):
            with pytest.raises(InvalidError, match="is archived since") as caught:
                resolve_profile(connection, ACTOR, reference)
            assert caught.value.problem == "archived-profile"
    with pytest.raises(ConflictError, match="archived"):
        revise(database, gone, revision())
    with pytest.raises(ConflictError, match="taken"):
        create(database, profile())
    with database.write() as connection:
        back = restore_profile(connection, ACTOR, "prod-h100", version=gone.version)
        assert restore_profile(connection, ACTOR, "prod-h100", version=back.version) == back
    assert back.archived_at is None
    assert slugs(database) == ["prod-h100"]
    with pytest.raises(PreconditionFailedError):
        archive(database, made)


def test_a_reference_is_resolved(database: Database) -> None:
    made = create(database, profile(cost_center="research"))
    revise(database, made, revision(512))
    with database.read() as connection:
        newest = resolve_profile(connection, ACTOR, "prod-h100")
        first = resolve_profile(connection, ACTOR, "prod-h100@1")
        second = resolve_profile(connection, ACTOR, "prod-h100@2")
    assert newest == second
    assert (newest.revision, newest.cost_center, newest.defaults["num_gpus"]) == (2, None, 512)
    assert (first.revision, first.cost_center) == (1, "research")
    assert first.defaults == made.defaults
    assert first.revision_id != second.revision_id


NO_REFERENCES = (
    ("nothing", "unknown-profile"),
    ("nothing@1", "unknown-profile"),
    ("prod-h100@2", "unknown-revision"),
    ("prod-h100@0", "unknown-revision"),
    ("prod-h100@" + "9" * 60, "unknown-revision"),
    ("prod-h100@4294967296", "unknown-revision"),
    ("prod-h100@", "malformed-profile-reference"),
    ("prod-h100@one", "malformed-profile-reference"),
    ("prod-h100@1@2", "malformed-profile-reference"),
    ("prod-h100@\u0663", "malformed-profile-reference"),
    ("\0", "malformed-profile-reference"),
)


def test_a_reference_that_stands_for_nothing(database: Database) -> None:
    create(database, profile())
    for reference, problem in NO_REFERENCES:
        with database.read() as connection, pytest.raises(TrainardError) as caught:
            resolve_profile(connection, ACTOR, reference)
        assert caught.value.problem == problem, reference


def test_a_profile_of_another_team_does_not_exist(database: Database) -> None:
    create(database, profile())
    stranger = Actor(team_id=UUID(int=7))
    with database.read() as connection:
        for slug in ("prod-h100", "\0"):
            with pytest.raises(NotFoundError):
                read_profile(connection, stranger, slug)
        with pytest.raises(NotFoundError):
            read_revision(connection, stranger, "prod-h100", 1)
        with pytest.raises(NotFoundError):
            list_revisions(connection, stranger, "prod-h100", page_size=5, page_token=None)
        page = list_page(connection, stranger, ProfileFilter(), page_size=5, page_token=None)
    assert page.items == []


def test_filters_of_the_list(database: Database) -> None:
    first = create(database, profile("one", tags={"site": "par1", "a.b/c": "x"}))
    create(database, profile("two", gpu_type="A100", cost_center="research", tags={}))
    made = create(database, profile("three", tags={"site": "ber1"}))
    revise(database, made, revision(tags={"site": "par1"}))
    assert slugs(database) == ["one", "three", "two"]
    assert slugs(database, gpu_type="A100") == ["two"]
    assert slugs(database, cost_center="research") == ["two"]
    assert slugs(database, tags=(("site", "par1"),)) == ["one", "three"]
    assert slugs(database, tags=(("site", "par1"), ("a.b/c", "x"))) == ["one"]
    assert slugs(database, tags=(("site", "ber1"),)) == []
    assert slugs(database, created_after=first.created_at) == ["three", "two"]
    assert slugs(database, created_before=first.created_at) == []
    later = datetime.now(UTC) + timedelta(days=1)
    assert slugs(database, created_after=later) == []


def test_pages_walk_through_all_profiles_once(database: Database) -> None:
    for number in range(7):
        create(database, profile(f"p{number}"))
    seen: list[str] = []
    token: str | None = None
    while True:
        with database.read() as connection:
            page = list_page(connection, ACTOR, ProfileFilter(), page_size=3, page_token=token)
        seen += [item.slug for item in page.items]
        # rows written between two pages neither repeat nor hide others
        create(database, profile(f"a{len(seen)}"))
        token = page.next_page_token
        if token is None:
            break
    assert seen == [f"p{number}" for number in range(7)]


@pytest.mark.parametrize("position", ["\0", "UPPER", 5])
def test_a_forged_page_token_is_refused(sqlite_database: Database, position: object) -> None:
    token = make_token(["profiles", msgspec.to_builtins(ProfileFilter())], position)
    with sqlite_database.read() as connection, pytest.raises(MalformedError):
        list_page(connection, ACTOR, ProfileFilter(), page_size=3, page_token=token)


def test_a_forged_revision_token_is_refused(sqlite_database: Database) -> None:
    create(sqlite_database, profile())
    token = make_token(["revisions", "prod-h100"], 2**40)
    with sqlite_database.read() as connection, pytest.raises(MalformedError):
        list_revisions(connection, ACTOR, "prod-h100", page_size=3, page_token=token)
