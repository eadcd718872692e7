"""The target guard refuses targets that may lead to a non-public host, however they are spelled."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.guard.addresses import URL_CHARACTERS_MAX, Target, check_addresses, check_url
from upstreams.guard.table import why_not_public
from upstreams.model.errors import TargetRefused
from upstreams.transport.origin import Origin

PUBLIC_V4 = "93.184.215.14"
PUBLIC_V6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"

EVASIONS: dict[str, str] = {}
"""URLs that must be refused, each with the reason."""


def refused(reason: str, *urls: str, hosts: str = "") -> None:
    """Add URLs to the table, and hosts as `https://HOST/`."""
    EVASIONS.update(dict.fromkeys((*(f"https://{host}/" for host in hosts.split()), *urls), reason))


# how IPv4 addresses can be written (inet_aton, browsers)
refused(
    "host",
    hosts="""
        2130706433 017700000001 0x7f000001 0x7F.0.0.1 0x7f.1 0177.0.0.1 127.1 127.0.1 127.0.0.01 127.0.0.1.0
        256.256.256.256 0 0x 1.2.3.0x4 hooks.example.com.1
    """,
)  # fmt: skip
# dots and empty labels
refused(
    "host",
    hosts="127.0.0.1. localhost. hooks.example.com. hooks.example.com.. hooks..example.com .example.com .",
)  # fmt: skip
# special addresses in their usual spelling
refused(
    "address",
    "https://169.254.169.254/latest/meta-data/",
    hosts="""
        127.0.0.1 0.0.0.0 10.1.2.3 100.64.0.1 100.100.100.200 168.63.129.16 172.31.255.255 192.0.0.192
        192.88.99.1 192.168.0.1 198.19.255.255 203.0.113.9 224.0.0.1 239.255.255.250 255.255.255.255 [::] [::1]
        [0:0:0:0:0:0:0:1] [fc00::1] [fd00:ec2::254] [fe80::1] [febf::1] [fec0::1] [ff02::1] [100::1]
        [2001:db8::1] [3fff::1] [5f00::1] [4000::1]
    """,
)  # fmt: skip
# IPv4 inside IPv6; refused even if the inner address is public
refused(
    "address",
    f"https://[::ffff:{PUBLIC_V4}]/", f"https://[64:ff9b::{PUBLIC_V4}]/",
    hosts="""
        [::ffff:127.0.0.1] [::ffff:7f00:1] [::ffff:0:127.0.0.1] [::127.0.0.1] [::7f00:1] [64:ff9b::127.0.0.1]
        [64:ff9b:1::a00:1] [2002:7f00:1::1] [2002:5db8:d70e::1] [2001:0:4136:e378:8000:63bf:3fff:fdd2]
        [2001:10::1] [2001:20::1]
    """,
)  # fmt: skip
# zones, brackets, and other texts that are not hosts
refused(
    "host",
    f"https://[{PUBLIC_V6}%25eth0]/",
    hosts="[fe80::1%eth0] [fe80::1%25eth0] [127.0.0.1] [] [v1.x]",
)  # fmt: skip
refused(
    "malformed",
    "https:///path", "https://", "https://?query",
    hosts="[::1 ::1 [::1]example.com",
)  # fmt: skip
# international forms
refused(
    "host",
    "https://１２７.０.０.１/",  # noqa: RUF001 - the evasion
    "https://127．0．0．1/",  # noqa: RUF001 - the evasion
    "https://ｌocalhost/",  # noqa: RUF001 - the evasion
    "https://loca\N{KELVIN SIGN}host.example.com/",
    "https://example.com／.evil.com/",  # noqa: RUF001 - the evasion
    hosts="①②⑦.⓪.⓪.① 127。0。0。1 hooks｡example｡com ⓛocalhost ℀.example.com xn--0000h-fullwidth-.example.com-",
)  # fmt: skip
refused(
    "malformed",
    "https://exa\N{SOFT HYPHEN}mple.com/", "https://exa\N{ZERO WIDTH SPACE}mple.com/",
)  # fmt: skip
refused(
    "userinfo",
    "https://example.com／@127.0.0.1/",  # noqa: RUF001 - the evasion
)  # fmt: skip
# local names
refused(
    "host",
    hosts="""
        localhost LOCALHOST a.localhost metadata metadata.google.internal printer.local router.lan
        gateway.home.arpa x.onion
    """,
)  # fmt: skip
# userinfo, percent signs, backslashes, spaces
refused("userinfo", hosts="user@example.com user:pw@example.com @example.com example.com@127.0.0.1")
refused(
    "host",
    hosts="example.com%40127.0.0.1 127.0.0.1%2f.example.com %6c%6f%63%61%6c%68%6f%73%74 %31%32%37.0.0.1",
)  # fmt: skip
refused(
    "malformed",
    "https://example.com\\@127.0.0.1/", "https:\\\\example.com/",
    "https://example.com/ HTTP/1.1\r\nHost: evil\r\n\r\n", "https://example.com/\thidden", " https://example.com/",
    "https://exam ple.com/", "https://example.com/\0", "https://example.com/ä",
)  # fmt: skip
# ports
refused(
    "port",
    hosts="""
        example.com:22 example.com:25 example.com:80 example.com:0 example.com:1024 example.com:65536
        example.com:99999
    """,
)  # fmt: skip
refused(
    "malformed",
    hosts="example.com: example.com:-1 example.com:+443 example.com:443443 example.com:٤٤٣ example.com:443:443",
)  # fmt: skip
# schemes
refused(
    "scheme",
    "http://example.com/", "ftp://example.com/", "file://example.com/etc/passwd", "gopher://example.com/",
    "HTTP://example.com/",
)  # fmt: skip
refused(
    "malformed",
    "//example.com/", "https:example.com", "https:/example.com", "example.com", "",
)  # fmt: skip
# names that must not reach a resolver
refused(
    "host",
    f"https://{'a' * 64}.example.com/", f"https://{'a.' * 126}example.com/", f"https://{'ü' * 60}.example.com/",
    hosts="-a.example.com a-.example.com example.com;evil example.com,evil.com *.example.com",
)  # fmt: skip
refused(
    "too_long",
    "https://example.com:443" + "/" * URL_CHARACTERS_MAX,
)  # fmt: skip


def https(host: str, path: str = "/", port: int = 443, *, is_address: bool = False) -> Target:
    return Target("https", host, port, path, is_address=is_address)


TAKEN = {
    "https://hooks.example.com": https("hooks.example.com"),
    "HTTPS://Hooks.Example.COM/In?x=1&y=%20#part": https("hooks.example.com", "/In?x=1&y=%20"),
    "https://example.com?x=1": https("example.com", "/?x=1"),
    "https://example.com:443/": https("example.com"),
    "https://example.com:8443/": https("example.com", port=8443),
    "https://example.com:1025/@a:b": https("example.com", "/@a:b", 1025),
    "https://example.com:65535/": https("example.com", port=65535),
    "https://bücher.example.com/": https("xn--bcher-kva.example.com"),
    "https://BÜCHER.example.com/": https("xn--bcher-kva.example.com"),
    "https://xn--bcher-kva.example.com/": https("xn--bcher-kva.example.com"),
    "https://例え.jp/": https("xn--r8jz45g.jp"),
    "https://my_app.example.com/": https("my_app.example.com"),
    "https://1.example.com/": https("1.example.com"),
    f"https://{PUBLIC_V4}/": https(PUBLIC_V4, is_address=True),
    f"https://[{PUBLIC_V6.upper()}]:8443/": https(PUBLIC_V6, port=8443, is_address=True),
    "https://example.com/" + "a" * (URL_CHARACTERS_MAX - 20): https(
        "example.com", "/" + "a" * (URL_CHARACTERS_MAX - 20)
    ),
}


@pytest.mark.parametrize(("url", "reason"), EVASIONS.items())
def test_non_public_targets_are_refused_with_a_reason(url: str, reason: str) -> None:
    with pytest.raises(TargetRefused) as caught:
        check_url(url)
    assert caught.value.reason == reason
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("url", "target"), TAKEN.items())
def test_public_hosts_are_accepted_and_normalized(url: str, target: Target) -> None:
    assert check_url(url) == target


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8123/x", "http://localhost/x", "https://[::1]:4443/x", "https://10.0.0.1:22/x", "http://hook/x"],
)
def test_allow_insecure_accepts_private_targets(url: str) -> None:
    target = check_url(url, allow_insecure=True)
    assert url.startswith(f"{target.scheme}://")
    assert target.path == "/x"


@pytest.mark.parametrize("url", [url for url, reason in EVASIONS.items() if reason in ("userinfo", "malformed")])
def test_allow_insecure_keeps_strict_parsing(url: str) -> None:
    with pytest.raises(TargetRefused):
        check_url(url, allow_insecure=True)


def test_origin_has_checked_address_and_host_name() -> None:
    origin = check_url("https://hooks.example.com/").origin_at(PUBLIC_V6)
    assert origin == Origin("https", "hooks.example.com", 443, PUBLIC_V6)
    assert origin.authority == "hooks.example.com"


# The addresses of a name


def test_public_addresses_are_deduplicated_in_order() -> None:
    assert check_addresses([PUBLIC_V6, PUBLIC_V4, PUBLIC_V6]) == (PUBLIC_V6, PUBLIC_V4)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        [PUBLIC_V4, "10.0.0.1"],
        ["10.0.0.1", PUBLIC_V4],
        [PUBLIC_V4, PUBLIC_V6, "::1"],
        [PUBLIC_V4, f"::ffff:{PUBLIC_V4}"],
        [f"{PUBLIC_V6}%eth0"],
        ["fe80::1%2"],
        ["127.1"],
        ["2130706433"],
        ["localhost"],
        [""],
        [],
    ],
)
def test_one_private_address_refuses_the_name(addresses: list[str]) -> None:
    with pytest.raises(TargetRefused) as caught:
        check_addresses(addresses)
    assert caught.value.reason == "address"
    assert not any(address in str(caught.value) for address in addresses if address)


def test_allow_insecure_accepts_private_but_no_invalid_addresses() -> None:
    assert check_addresses(["127.0.0.1", "::1"], allow_insecure=True) == ("127.0.0.1", "::1")
    for addresses in ([], ["localhost"]):
        with pytest.raises(TargetRefused):
            check_addresses(addresses, allow_insecure=True)


# Every address that any registry lists as special is refused

ANY_ADDRESS = st.one_of(
    st.ip_addresses(v=4), st.ip_addresses(v=6), st.integers(0x2000 << 112, (0x4000 << 112) - 1).map(IPv6Address)
)
IANA_V4 = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24
    203.0.113.0/24 240.0.0.0/4 224.0.0.0/4
"""
IANA_V6 = """
    ::1/128 ::/128 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128
    2001:1::2/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16
    2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 ff00::/8 ::/96 fec0::/10
"""


@given(ANY_ADDRESS)
def test_addresses_special_to_the_ipaddress_module_are_refused(address: IPv4Address | IPv6Address) -> None:
    special = (
        not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local
    ) or address.is_unspecified
    if special:
        assert why_not_public(str(address)) is not None


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "::", "64:ff9b::", "::ffff:0:0:0"]))
def test_ipv4_in_ipv6_form_is_refused(inner: IPv4Address, prefix: str) -> None:
    assert why_not_public(str(IPv6Address(int(IPv6Address(prefix)) | int(inner)))) is not None


@given(st.ip_addresses(v=4), st.integers(0, 2**80 - 1))
def test_ipv4_tunnels_are_refused(inner: IPv4Address, rest: int) -> None:
    assert why_not_public(str(IPv6Address((0x2002 << 112) | (int(inner) << 80) | rest))) is not None
    assert why_not_public(str(IPv6Address((0x20010000 << 96) | (int(inner) << 64) | (rest % 2**64)))) is not None


@pytest.mark.parametrize("network", IANA_V4.split() + IANA_V6.split())
def test_every_special_purpose_network_is_refused(network: str) -> None:
    """Method: the registries' networks are listed here again. Their first, middle and last addresses are tested."""
    block = IPv4Network(network) if "." in network else IPv6Network(network)
    for at in (0, block.num_addresses // 2, block.num_addresses - 1):
        assert why_not_public(str(block[at])) is not None


@pytest.mark.parametrize(
    "address",
    [
        "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0",
        "198.17.255.255", "198.20.0.0", "223.255.255.255", "2000::1", "2001:200::", "2001:db7:ffff::", "2001:db9::",
        "2003::1", "2a00:1450:4001::1", "3ffd:ffff::1", "2620:4f:7fff::1",
    ],
)  # fmt: skip
def test_neighbors_of_special_networks_are_public(address: str) -> None:
    assert why_not_public(address) is None
    assert check_addresses([address]) == (str(ip_address(address)),)


@given(st.text(max_size=60))
def test_any_text_gives_a_clean_target_or_a_refusal(text: str) -> None:
    for url in (text, f"https://{text}", f"https://example.com{text}"):
        try:
            target = check_url(url)
        except TargetRefused:
            continue
        assert target.host.isascii()
        assert target.path.startswith("/")
        assert (target.path + target.host).isprintable()
