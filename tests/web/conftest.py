"""The service of the API's tests: the pages are served by the same one."""

from tests.api.conftest import shared_client, shared_database, shared_limits

__all__ = ["shared_client", "shared_database", "shared_limits"]
