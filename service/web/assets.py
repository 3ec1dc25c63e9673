"""Files of the pages: our own, under an address with a digest of all of them.

Modules import each other by their names, so they share one folder, and one digest.
"""

import hashlib
from functools import cache
from importlib import resources
from typing import Final

MEDIA_TYPES: Final = {
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
}
FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def static_files() -> dict[str, bytes]:
    """Contents by name."""
    folder = resources.files("service.web") / "static"
    return {
        entry.name: entry.read_bytes()
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.rpartition(".")[2] in MEDIA_TYPES
    }


@cache
def digest() -> str:
    """Of all names and contents: it changes with any of them."""
    found = hashlib.sha256()
    for name, content in static_files().items():
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:16]


def address(name: str) -> str:
    """Where the file is served."""
    if name not in static_files():
        raise KeyError(name)
    return f"/assets/{digest()}/{name}"
