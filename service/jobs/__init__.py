"""Use cases: called alike by API, CLI and the durable engine."""
