"""Digests of documents over their canonical form (RFC 8785, by the `rfc8785` package)."""

import hashlib
from typing import Any

import rfc8785


def digest(document: Any) -> str:
    """SHA-256 of the canonical JSON of builtins, written `sha256:<hex>`."""
    return "sha256:" + hashlib.sha256(rfc8785.dumps(document)).hexdigest()
