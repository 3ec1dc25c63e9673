"""Why a remedy cannot be applied to a scenario."""


class DoesNotApplyError(Exception):
    """The reason as a sentence."""
