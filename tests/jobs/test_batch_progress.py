from uuid import UUID

from service.db.engine import Database
from service.jobs.batch_progress import Change, read_changes
from tests.jobs.batch_bodies import cancel, item, read, submit
from tests.jobs.completed import complete


def changes(database: Database, known: dict[UUID, int]) -> dict[UUID, Change]:
    with database.read() as connection:
        return {change.batch_id: change for change in read_changes(connection, known)}


def test_only_what_has_changed_is_told(database: Database) -> None:
    first, second = submit(database, item()), submit(database, item(custom_id="b"))
    known = {first.id: -1, second.id: second.version}
    found = changes(database, known)
    assert found == {first.id: Change(batch_id=first.id, document=first)}
    assert not found[first.id].has_ended
    cancel(database, second.id)
    complete(database)
    known[first.id] = first.version
    found = changes(database, known)
    assert found.keys() == known.keys()
    assert found[first.id].document == read(database, first.id)
    assert all(change.has_ended for change in found.values())


def test_a_batch_that_is_no_more_is_told_once_as_such(database: Database) -> None:
    nobody = UUID(int=7)
    assert changes(database, {nobody: 3}) == {nobody: Change(batch_id=nobody, document=None)}
    assert changes(database, {}) == {}
