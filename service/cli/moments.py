"""Moments as options of commands take them."""

from datetime import UTC, datetime, time

import rich_click as click


class MomentType(click.ParamType[datetime]):
    """A day (its first moment, UTC), or a moment with its zone."""

    name = "moment"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read it."""
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None and moment.time() != time.min:
                self.fail(f"{value!r} has no time zone: end it with Z", param, ctx)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a day nor a moment with its zone", param, ctx)
