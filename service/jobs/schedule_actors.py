"""Who acts when a schedule does: nobody asked at that moment, and the trail must say so."""

from uuid import UUID

from service.jobs.actors import Actor


def schedule_actor(team_id: UUID, slug: str) -> Actor:
    """The actor of a schedule's runs; the team's limits are its own."""
    return Actor(team_id=team_id, name=f"schedule/{slug}", principal="program:schedule")
