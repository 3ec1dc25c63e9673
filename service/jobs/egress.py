"""Where webhooks may go: every address of a name is checked, and exactly the checked one is used.

A webhook is a request that a user has this service send, from inside the network that it stands in.
So nothing but public addresses is reached, unless the operator lists private networks in
`TRAINARD_WEBHOOK_EGRESS`. Checked at every attempt: a name may be given other addresses later.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

import idna
from msgspec import Struct

from service.jobs.reason_sentences import say

Address: TypeAlias = IPv4Address | IPv6Address
# Name and port to addresses, as the system has them now
Resolver: TypeAlias = Callable[[str, int], Sequence[str]]

MAX_URL_LENGTH: Final = 2_000
FIRST_FREE_PORT: Final = 1_024
# Beside what `ipaddress` calls not global: ways into IPv4 that hide the address, and odd ones.
_REFUSED: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # protocol assignments, of which some Pythons know a part
            "192.88.99.0/24",  # relays of 6to4
            # Azure's platform: DHCP, DNS, health probes and the agent's wire server, from each of
            # its machines (learn.microsoft.com, "What is IP address 168.63.129.16?"). Public by its
            # number only. The other clouds' metadata is link-local, shared, private or in
            # 192.0.0.0/24 (AWS, Google, OpenStack 169.254.169.254; AWS fd00:ec2::254; Alibaba
            # 100.100.100.200; Oracle 192.0.0.192), and refused as such.
            "168.63.129.16/32",
            "::/96",  # IPv4-compatible
            "64:ff9b::/96",  # NAT64
            "64:ff9b:1::/48",  # NAT64 of one network
            "2001::/23",  # protocol assignments, Teredo among them
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
            "5f00::/16",  # segment routing
            "fec0::/10",  # site-local
        ),
    )
)
_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"({_LABEL}\.)*{_LABEL}", re.ASCII)
# Hosts that a C library would read as an address though Python does not: 127.1, 0x7f000001, …
_NUMERIC: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.ASCII)


class EgressError(Exception):
    """Where a webhook may not go, in a sentence without the secret parts of the URL."""


class Place(Struct, frozen=True, kw_only=True):
    """Where a URL leads: `host` as it is asked for (ASCII), `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """What the header Host says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == (443 if self.scheme == "https" else 80)
        return host if is_default else f"{host}:{self.port}"


def place_of(url: str, networks: Sequence[str] = ()) -> Place:
    """Read a URL that webhooks may be posted to; raises `EgressError` for any other.

    https, a port of 443 or from 1024 on, no user and password, no fragment. Plain http, and other
    ports, are for the operator's own networks only.
    """
    if len(url) > MAX_URL_LENGTH:
        raise EgressError(f"the URL has {len(url)} characters, but at most {MAX_URL_LENGTH} fit")
    if not url.isprintable() or re.search(r"[\x00-\x20\x7f\\]", url):
        raise EgressError("the URL holds a space, a control character or a backslash")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EgressError("this is no URL such as https://hooks.example.org/trainard") from error
    if port == 0:
        raise EgressError("port 0 is refused: no server listens there")
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise EgressError("the URL must be such as https://hooks.example.org/trainard")
    if "@" in parts.netloc:
        # Not shown: it may be a password.
        raise EgressError("a URL with a user or password is refused: messages are signed instead")
    if "#" in url:
        raise EgressError("a URL with a fragment (#) is refused: no server would see it")
    place = Place(
        scheme=parts.scheme,
        host=_bracketed(parts.hostname) if "[" in parts.netloc else _ascii_host(parts.hostname),
        port=port or (443 if parts.scheme == "https" else 80),
        target=_target(parts),
    )
    if not networks:
        _refuse_inner(place)
    literal = _literal(place.host)
    if literal is not None:
        _check(literal, place, networks)
    return place


def notice_of(url: str) -> str | None:
    """What to know of a URL by name that is for the operator's own networks only."""
    try:
        # As if any network were the operator's.
        place = place_of(url, ("0.0.0.0/0", "::/0"))
        if _literal(place.host) is None:
            _refuse_inner(place)
    except EgressError:
        host = urlsplit(url).hostname or "the host"
        return say("private_only", host=host, port=FIRST_FREE_PORT)
    return None


def checked_addresses(
    place: Place, networks: Sequence[str] = (), *, resolve: Resolver | None = None
) -> list[Address]:
    """All addresses of the place now, in the system's order; raises `EgressError` if one is bad.

    One bad address is enough: a name with a good and a bad one is how rebinding begins.
    """
    literal = _literal(place.host)
    if literal is not None:
        return [_check(literal, place, networks)]
    try:
        found = (resolve or _resolve)(place.host, place.port)
    except (OSError, UnicodeError) as error:
        because = say("no_address_because", host=place.host, detail=_reason(error))
        raise EgressError(because) from error
    if not found:
        raise EgressError(say("no_address", host=place.host))
    # A scope such as %eth0 is of link-local addresses only; without it they are refused as such.
    addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in found]
    return list(dict.fromkeys(_check(address, place, networks) for address in addresses))


def is_public(address: Address) -> bool:
    """Whether the address is a host of the public internet, and of nothing behind it."""
    if any(address.version == network.version and address in network for network in _REFUSED):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _check(address: Address, place: Place, networks: Sequence[str]) -> Address:
    """The address as it is connected to; raises `EgressError` when it is not to be."""
    plain = _plain(address)
    if any(plain in network for network in map(ipaddress.ip_network, networks)):
        return plain
    if plain is not address or not is_public(address):
        raise EgressError(say("no_public_address", host=place.host, address=address))
    _refuse_inner(place)
    return address


def _refuse_inner(place: Place) -> None:
    """What is for the operator's own networks only."""
    if place.scheme != "https":
        raise EgressError(f"the URL begins with {place.scheme}://, but must be https://")
    if place.port != 443 and place.port < FIRST_FREE_PORT:
        raise EgressError(
            f"port {place.port} is refused: webhooks go to 443 or from {FIRST_FREE_PORT} on"
        )


def _plain(address: Address) -> Address:
    """An IPv4 address behind ::ffff:0:0/96 as itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    """An address in brackets; raises `EgressError` for what else may stand there (v1.x)."""
    if not isinstance(_literal(host), IPv6Address):
        raise EgressError("what stands in [ ] is no IPv6 address")
    return _ascii_host(host)


def _ascii_host(host: str) -> str:
    """The host as DNS has it; raises `EgressError` for what is neither a name nor an address."""
    if _literal(host) is not None:
        if "%" in host:
            raise EgressError("an address with a zone (%) is refused")
        return host
    try:
        name = host if host.isascii() else idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        raise EgressError("the host of the URL is no name that DNS could have") from None
    name = name.lower().rstrip(".")
    if len(name) > 253 or _HOST.fullmatch(name) is None:
        raise EgressError("the host of the URL is no name that DNS could have")
    if _NUMERIC.fullmatch(name.rpartition(".")[2]):
        raise EgressError("the host of the URL is an address that is written in an odd way")
    return name


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _reason(error: OSError | UnicodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
