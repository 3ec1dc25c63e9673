"""Where webhooks may go; the ranges are those of the IANA special-purpose registries."""

from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from service.jobs.egress import EgressError, checked_addresses, is_public, notice_of, place_of

HOOK = "https://hooks.example.org/trainard"
BAD = [
    *("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"),
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254"),  # noqa: S104
    *("127.0.0.1", "127.255.255.254", "169.254.0.1", "169.254.169.254", "172.16.0.1"),
    *("172.31.255.254", "192.0.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
    *("198.18.0.1", "198.19.255.254", "198.51.100.7", "203.0.113.9", "224.0.0.1"),
    *("239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:10.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1"),
    *("2001:db8::1", "2001:2::1", "2001:10::1", "2002:7f00:1::1", "2002:808:808::1"),
    *("3fff::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1"),
    *("ff02::1", "ff0e::1"),
]
GOOD = ["8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.1", "2606:4700::1111"]


def answers(*addresses: str) -> "Answers":
    return Answers([list(addresses)])


class Answers:
    """A resolver that gives one answer after the other, the last for ever."""

    def __init__(self, given: Sequence[list[str]]) -> None:
        self.given = list(given)
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return self.given.pop(0) if len(self.given) > 1 else self.given[0]


@pytest.mark.parametrize("address", BAD)
def test_no_address_but_a_public_one_is_reached(address: str) -> None:
    with pytest.raises(EgressError, match="no public address"):
        checked_addresses(place_of(HOOK), resolve=answers(address))
    # One of several is enough, wherever it stands.
    for mixed in (("8.8.8.8", address), (address, "8.8.8.8")):
        with pytest.raises(EgressError, match="no public address"):
            checked_addresses(place_of(HOOK), resolve=answers(*mixed))


@pytest.mark.parametrize("address", [part for part in BAD if "%" not in part])
def test_a_bad_address_as_the_host_is_refused_when_it_is_written_down(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(EgressError, match="no public address"):
        place_of(f"https://{host}/hook")


@pytest.mark.parametrize("address", GOOD)
def test_public_addresses_are_reached_as_they_are(address: str) -> None:
    assert is_public(ip_address(address))
    found = checked_addresses(place_of(HOOK), resolve=answers(address, address))
    assert found == [ip_address(address)]


def test_the_operators_networks_are_reached_too() -> None:
    networks = ("10.1.0.0/16", "fd00::/8")
    place = place_of(HOOK, networks)
    assert checked_addresses(place, networks, resolve=answers("10.1.2.3")) == [
        ip_address("10.1.2.3")
    ]
    # Behind ::ffff: it is the same host, and connected to as such.
    mapped = answers("::ffff:10.1.2.3", "fd00::7")
    assert checked_addresses(place, networks, resolve=mapped) == [
        ip_address("10.1.2.3"),
        ip_address("fd00::7"),
    ]
    for other in ("10.2.0.1", "::ffff:10.2.0.1", "127.0.0.1"):
        with pytest.raises(EgressError, match="no public address"):
            checked_addresses(place, networks, resolve=answers(other))


def test_plain_http_and_low_ports_are_for_the_operators_networks_only() -> None:
    networks = ("10.1.0.0/16",)
    for url in ("http://hooks.example.org/", "https://hooks.example.org:25/", "http://a.org:80"):
        with pytest.raises(EgressError, match=r"https|port 25"):
            place_of(url)
        place = place_of(url, networks)
        assert checked_addresses(place, networks, resolve=answers("10.1.0.9"))
        with pytest.raises(EgressError, match=r"https|port 25"):
            checked_addresses(place, networks, resolve=answers("8.8.8.8"))
    assert place_of("https://hooks.example.org:8443/a").port == 8443


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://a.org:0/", "port 0"),
        ("https://[v1.x]/", "no IPv6 address|no URL"),
        ("https://[8.8.8.8]/", "no IPv6 address|no URL"),
        ("ftp://a.org/", "must be such as"),
        ("https:///path", "must be such as"),
        ("//a.org/x", "must be such as"),
        ("https://me:secret@a.org/", "user or password"),
        ("https://me@a.org/", "user or password"),
        ("https://@a.org/", "user or password"),
        ("https://a.org/#x", "fragment"),
        ("https://a.org/#", "fragment"),
        ("https://a.org:99999/", "no URL"),
        ("https://[::1/", "no URL"),
        ("https://a.org/a b", "space"),
        ("https://a.org\\@b.org/", "backslash"),
        ("https://a.org/\r\nHost: b", "control"),
        ("https://a.org/\u00a0", "space"),
        ("https://a..org/", "no name"),
        ("https://-_./", "no name"),
        ("https://[fe80::1%25eth0]/", "zone"),
        ("https://2130706433/", "odd way"),
        ("https://0x7f000001/", "odd way"),
        ("https://127.1/", "odd way"),
        ("https://0177.0.0.1/", "odd way"),
        ("https://127.0.0.0x1/", "odd way"),
        (f"https://a.org/{'x' * 2000}", "characters"),
        (f"https://{'a' * 64}.org/", "no name"),
    ],
)
def test_what_is_no_plain_https_url_is_refused(url: str, reason: str) -> None:
    with pytest.raises(EgressError, match=reason) as refused:
        place_of(url)
    assert "secret" not in str(refused.value)


def test_a_name_is_asked_for_as_dns_has_it() -> None:
    place = place_of("https://Bücher.Example.org.:8443/hook?x=1&y=%20")
    assert place.host == "xn--bcher-kva.example.org"
    assert place.authority == "xn--bcher-kva.example.org:8443"
    assert place.target == "/hook?x=1&y=%20"
    resolver = answers("8.8.8.8")
    checked_addresses(place, resolve=resolver)
    assert resolver.asked == [("xn--bcher-kva.example.org", 8443)]
    assert place_of("https://[2606:4700::1111]/").authority == "[2606:4700::1111]"
    assert place_of("https://a.org").target == "/"
    # ⑯⑨.254… is read as 169.254… by some
    for odd in ("https://\u2460\u2466\u2463.0.0.1/", "https://a\u2024b\uff0fc/"):
        with pytest.raises(EgressError):
            place_of(odd)


def test_a_name_without_an_address_is_said() -> None:
    def away(_host: str, _port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    for resolver in (away, Answers([[]])):
        with pytest.raises(EgressError, match=r"hooks.example.org has no address"):
            checked_addresses(place_of(HOOK), resolve=resolver)


def test_each_attempt_is_checked_anew() -> None:
    """DNS rebinding: the second answer is another one than the first."""
    rebound = Answers([["8.8.8.8"], ["127.0.0.1"]])
    place = place_of(HOOK)
    assert checked_addresses(place, resolve=rebound) == [ip_address("8.8.8.8")]
    with pytest.raises(EgressError, match=r"leads to 127.0.0.1"):
        checked_addresses(place, resolve=rebound)


def test_a_name_for_the_operators_networks_only_is_noted() -> None:
    for url in (HOOK, "https://a.org:8443/", "http://10.1.0.9/", "http://[fd00::1]:81/"):
        assert notice_of(url) is None
    for url in ("http://a.org/", "https://a.org:25/", "http://a.org:8080/"):
        assert str(notice_of(url)).startswith("It is reached only while a.org leads to")
