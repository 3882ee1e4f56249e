"""Where a webhook may be sent: nowhere that only this machine can reach. Refused after the name was resolved."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

from adaexplore_site.core import env

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Refused whatever is allowed: metadata of clouds, and numbers behind which another number may stand.
NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "192.0.0.0/24", "168.63.129.16/32", "fd00:ec2::254/128", "64:ff9b:1::/48", "::ffff:0:0:0/96",
        "fec0::/10",
    )
)  # fmt: skip
LOOK_UP_S = 5.0
Resolve = Callable[[str, int], list[str]]


class BadAddress(ValueError):
    """Nothing is sent there. The message says why."""


@dataclass(frozen=True)
class Target:
    """What to connect to: `url` with the checked number in place of the name, which a second look-up could change."""

    url: str
    host: str  # for the header Host
    name: str  # for TLS


def private_allowed() -> bool:
    """Whether addresses of private networks and of this machine may be used (`ADAEXPLORE_WEBHOOK_PRIVATE`)."""
    return env.flag("ADAEXPLORE_WEBHOOK_PRIVATE")


def parts_of(address: str) -> SplitResult:
    """A web address in parts, its host in ASCII (IDNA). Raises BadAddress."""
    try:
        parts = urlsplit(address.strip())
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"This is no web address: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadAddress("Write a web address that begins with https:// or http://.")
    if parts.username is not None or parts.password is not None:
        raise BadAddress("Leave name and password out of the address: the signature says who sends.")
    if port == 0 or any(char.isspace() or not char.isprintable() for char in address.strip()):
        raise BadAddress("This is no web address that can be reached.")
    return parts if parts.netloc.isascii() else parts._replace(netloc=_ascii(parts))


def _ascii(parts: SplitResult) -> str:
    try:
        host = str(parts.hostname).encode("idna").decode("ascii")
    except UnicodeError as error:
        raise BadAddress(f"{parts.hostname} is no name of a host: {error}.") from error
    return host if parts.port is None else f"{host}:{parts.port}"


def target_of(address: str, *, resolve: Resolve | None = None, within_s: float = LOOK_UP_S) -> Target:
    """Look the name up once and check every number it has. Raises BadAddress, also when that takes too long."""
    parts = parts_of(address)
    name = str(parts.hostname)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    numbers = _in_time(resolve or _resolve, name, port, within_s)
    for number in numbers:
        if why := refusal(ipaddress.ip_address(number.partition("%")[0]), private=private_allowed()):
            raise BadAddress(f"{name} is {why}. Nothing is sent there.")
    first = f"[{numbers[0]}]" if ":" in numbers[0] else numbers[0]
    url = urlunsplit((parts.scheme, f"{first}:{port}", parts.path or "/", parts.query, ""))
    return Target(url=url, host=parts.netloc, name=name)


def refusal(number: IP, *, private: bool) -> str:
    """Why nothing may be sent to this number; empty when it may."""
    inner = _inner(number)
    if inner is not None:
        return refusal(inner, private=private)
    if number.is_link_local or number.is_multicast or number.is_unspecified:
        return "a link-local, multicast or empty address"  # metadata of clouds among them: never, whatever is allowed
    if any(number in net for net in NEVER) or (number.is_reserved and not number.is_loopback):
        return "a reserved address"
    if private and (number.is_private or number.is_loopback):
        return ""
    if number.is_loopback:
        return "this machine"
    return "" if number.is_global else "an address of a private network"


def _inner(number: IP) -> IP | None:
    """The IPv4 number within an IPv6 number."""
    if isinstance(number, ipaddress.IPv4Address):
        return None
    if number in NAT64:
        return ipaddress.IPv4Address(int(number) & 0xFFFFFFFF)
    return number.ipv4_mapped or number.sixtofour or (number.teredo[1] if number.teredo else None)


def _in_time(resolve: Resolve, name: str, port: int, within_s: float) -> list[str]:
    """In a thread: the system has no limit of its own for it that we could set. One that is late is left to end."""
    found = Future[list[str]]()

    def look() -> None:
        try:
            found.set_result(resolve(name, port))
        except BadAddress as error:
            found.set_exception(error)

    threading.Thread(target=look, daemon=True, name="webhook-look-up").start()
    try:
        return found.result(max(within_s, 0.0))
    except TimeoutError as error:
        raise BadAddress(f"{name} was not found in time.") from error


def _resolve(name: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BadAddress(f"{name} is not known: {error}.") from error
    return [str(row[4][0]) for row in found]
