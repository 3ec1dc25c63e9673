"""Checking the audit trail: whether every event is there, as it was sealed, in its place."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from service.db import audit_chains
from service.db.api_keys import list_public_ids
from service.db.audit import NO_HASH, AuditFilter, last_sequence, list_from
from service.db.engine import Connection, Database, Row
from service.jobs.audit_documents import AuditEventOut
from service.jobs.audit_hashes import event_hash, event_of
from service.jobs.audit_pruning import confirms

EVENTS_PER_PAGE: Final = 1_000
# The sealer needs a second; a process that was stopped in between seals when it starts again.
UNSEALED_SINCE: Final = timedelta(minutes=1)
# Further ones are counted: an event that is put in between may move all that follow.
MAX_FINDINGS: Final = 50
# What reading raises for values that no column of ours was ever given
UNREADABLE: Final = (TypeError, ValueError, AttributeError, ArithmeticError, msgspec.MsgspecError)

Kind = Literal[
    "altered",
    "moved",
    "unlinked",
    "removed",
    "inserted",
    "chain",
    "unpruned",
    "head",
    "unrecorded",
    "unsealed",
    "unreadable",
    "team",
]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The last sealed event of a team: what is kept elsewhere to compare with later."""

    sequence: int
    hash: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it was recorded; `unsealed` is only a warning."""

    kind: Kind
    sequence: int
    sentence: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in the trail of one team."""

    team: str
    num_events: int
    pruned_sequence: int
    head: Head
    findings: list[Finding]
    num_findings: int
    warnings: list[Finding]


class _Walk:
    """One pass over the events of a team, in the order of their sequences."""

    def __init__(self, chain: Row[Any], kept: Head | None, now: datetime) -> None:
        self.chain = chain
        self.kept = kept
        self.unsealed_before = now - UNSEALED_SINCE
        self.expected = chain.pruned_sequence + 1
        self.last_hash: str | None = chain.pruned_hash
        self.head = Head(sequence=chain.pruned_sequence, hash=chain.pruned_hash)
        self.num_events = 0
        self.num_findings = 0
        self.findings: list[Finding] = []
        self.warnings: list[Finding] = []
        self.is_pruning_confirmed = chain.pruned_sequence == 0
        self.kept_hash: str | None = None
        self.made_keys: set[str] = set()

    def find(self, kind: Kind, sequence: int, sentence: str) -> None:
        """Note a finding."""
        self.num_findings += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind=kind, sequence=sequence, sentence=sentence))

    def take(self, event: AuditEventOut) -> None:
        """Compare the next event with what must stand there."""
        self.num_events += 1
        sequence = event.sequence
        if not self.chain.pruned_sequence < sequence < self.chain.next_sequence:
            self.find("inserted", sequence, f"event {sequence} was inserted: no such was recorded")
            return
        if sequence > self.expected:
            self._miss(sequence)
        if event.hash is None:
            self._take_unsealed(event)
        else:
            self._take_sealed(event, event.hash)
        self.is_pruning_confirmed |= confirms(
            event, self.chain.pruned_sequence, self.chain.pruned_hash
        )
        if event.action == "create_api_key" and event.outcome == "done":
            self.made_keys.add(event.subject)
        if self.kept is not None and sequence == self.kept.sequence:
            self.kept_hash = event.hash
        self.expected = sequence + 1

    def end(self) -> None:
        """Compare the end with where the chain stands."""
        chain, last = self.chain, self.chain.next_sequence
        if self.expected < last:
            self._miss(last)
        if chain.sealed_hash != self.head.hash or chain.sealed_sequence >= last:
            self.find(
                "chain",
                chain.sealed_sequence,
                f"the chain is sealed up to event {chain.sealed_sequence} with "
                f"{chain.sealed_hash}, but the last sealed event, {self.head.sequence}, has "
                f"{self.head.hash}: events were removed or the row of the chain was changed",
            )
        if not self.is_pruning_confirmed:
            self.find(
                "unpruned",
                chain.pruned_sequence,
                f"events up to {chain.pruned_sequence} are gone, and no event says that they were "
                "pruned",
            )
        if self.kept is not None:
            self._compare_kept(self.kept)

    def _miss(self, until: int) -> None:
        first, last = self.expected, until - 1
        which = f"event {first} was" if first == last else f"events {first} to {last} were"
        self.find("removed", first, f"{which} removed")
        # What the next one refers to is gone.
        self.last_hash = None

    def _take_unsealed(self, event: AuditEventOut) -> None:
        if event.sequence <= self.chain.sealed_sequence:
            self.find(
                "altered",
                event.sequence,
                f"event {event.sequence} has no hash, but the chain is sealed up to "
                f"{self.chain.sealed_sequence}: its hash was removed",
            )
            self.last_hash = None
        elif event.created_at < self.unsealed_before:
            sentence = f"event {event.sequence} of {event.created_at} is not sealed yet"
            if len(self.warnings) < MAX_FINDINGS:
                self.warnings.append(
                    Finding(kind="unsealed", sequence=event.sequence, sentence=sentence)
                )

    def _take_sealed(self, event: AuditEventOut, stored: str) -> None:
        sequence, previous = event.sequence, event.previous_hash or ""
        follows = self.last_hash in {None, previous}
        if sequence > self.chain.sealed_sequence:
            self.find(
                "chain",
                sequence,
                f"event {sequence} has a hash, but the chain is sealed up to "
                f"{self.chain.sealed_sequence} only",
            )
        if event_hash(event, previous) != stored:
            if follows:
                self.find("altered", sequence, f"event {sequence} was altered since it was sealed")
            else:
                self.find(
                    "moved",
                    sequence,
                    f"event {sequence} is another than was sealed under this number, and does not "
                    f"follow event {sequence - 1}: events were put in, or their order changed",
                )
        elif not follows:
            self.find(
                "unlinked",
                sequence,
                f"event {sequence} does not follow event {sequence - 1}: that one was altered and "
                "hashed anew",
            )
        self.last_hash = stored
        self.head = Head(sequence=sequence, hash=stored)

    def _compare_kept(self, kept: Head) -> None:
        if kept.sequence == self.chain.pruned_sequence:
            self.kept_hash = self.chain.pruned_hash
        if kept.sequence < self.chain.pruned_sequence:
            sentence = "was pruned since, so nothing can be compared"
        elif self.kept_hash is None:
            sentence = "is not there"
        elif self.kept_hash != kept.hash:
            sentence = f"has the hash {self.kept_hash}, not {kept.hash}: the chain was rewritten"
        else:
            return
        self.find("head", kept.sequence, f"event {kept.sequence}, the head kept, {sentence}")


def check(
    database: Database, *, team: str | None = None, head: Head | None = None
) -> Iterator[Checked]:
    """Check the trails, of one team or all, each on one snapshot and page by page.

    With `head` the trail must also hold the event that was its last one when it was kept. That
    finds a chain that was rewritten as a whole, which nothing inside of the database can.
    """
    with database.read() as connection:
        for chain in audit_chains.list_chains(connection):
            if team is None or chain.slug == team:
                yield _check_team(connection, chain, head)
        if team is None:
            yield from map(_of_no_team, audit_chains.list_teamless(connection))


def _check_team(connection: Connection, chain: Row[Any], kept: Head | None) -> Checked:
    if chain.team_id is None:
        return _without_chain(connection, chain, kept)
    walk = _Walk(chain, kept, datetime.now(UTC))
    try:
        for row in _events(connection, chain.of_team):
            walk.take(event_of(row))
        walk.end()
    except UNREADABLE as error:
        sentence = (
            f"what stands after event {walk.expected - 1} is none of Trainard's values; nothing "
            f"behind it was compared: {type(error).__name__}"
        )
        walk.find("unreadable", walk.expected, sentence)
    if not chain.pruned_sequence:
        for finding in _unrecorded(connection, chain.of_team, walk.made_keys):
            walk.find(finding.kind, finding.sequence, finding.sentence)
    return Checked(
        team=chain.slug,
        num_events=walk.num_events,
        pruned_sequence=walk.chain.pruned_sequence,
        head=walk.head,
        findings=walk.findings,
        num_findings=walk.num_findings,
        warnings=walk.warnings,
    )


def _of_no_team(team_id: UUID) -> Checked:
    sentence = f"there are events or a chain of the team {team_id}, but its row was removed"
    return Checked(
        team=str(team_id),
        num_events=0,
        pruned_sequence=0,
        head=Head(sequence=0, hash=NO_HASH),
        findings=[Finding(kind="team", sequence=0, sentence=sentence)],
        num_findings=1,
        warnings=[],
    )


def _without_chain(connection: Connection, team: Row[Any], kept: Head | None) -> Checked:
    """Nothing was recorded for this team yet, or else it was removed with where it stood."""
    last = last_sequence(connection, team.of_team)
    findings = []
    if last:
        sentence = f"events up to {last} are there, but the row of the chain was removed"
        findings.append(Finding(kind="chain", sequence=last, sentence=sentence))
    findings += _unrecorded(connection, team.of_team, set())[:MAX_FINDINGS]
    if kept is not None:
        sentence = f"event {kept.sequence}, the head kept, is not there, nor is any chain"
        findings.append(Finding(kind="head", sequence=kept.sequence, sentence=sentence))
    return Checked(
        team=team.slug,
        num_events=0,
        pruned_sequence=0,
        head=Head(sequence=0, hash=NO_HASH),
        findings=findings,
        num_findings=len(findings),
        warnings=[],
    )


def _unrecorded(connection: Connection, team_id: UUID, made: set[str]) -> list[Finding]:
    """API keys without the event of their making: since there are keys, each has one.

    So that a trail is missed that was removed as a whole, with the row of its chain, and begun
    anew. Pruning takes such events away, and leaves the chain's row, which says so.
    """
    return [
        Finding(
            kind="unrecorded",
            sequence=0,
            sentence=f"the API key {public_id} is there, but not the event of its making: "
            "events were removed",
        )
        for public_id in list_public_ids(connection, team_id)
        if f"api-key/{public_id}" not in made
    ]


def _events(connection: Connection, team_id: UUID) -> Iterator[Row[Any]]:
    after: int | None = None
    while True:
        page = list_from(connection, team_id, AuditFilter(), after=after, limit=EVENTS_PER_PAGE)
        yield from page
        if len(page) < EVENTS_PER_PAGE:
            return
        after = page[-1].sequence
