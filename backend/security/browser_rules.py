"""What pages in browsers may do: which Host names, origins and kinds of requests are served.

Browsers let any page send requests to this server. Three things stop pages of other sites:

- Host (DNS rebinding): a page whose own name is made to resolve to this server sends that name. It
  is refused unless it is an IP address, a name that cannot be registered (`localhost`,
  names without a dot), or a configured name.
- Origin and Sec-Fetch-Site: a request that a page of another site causes is refused. Pages of the
  configured origins may read and append (CORS), but send no commands. A link to the admin page
  works from everywhere.
- writes need a content type for which browsers ask first (a preflight).

Programs that are not browsers send none of these headers, except Host. Sources: RFC 9110, 7.2; the
Fetch standard (CORS) and Fetch Metadata of the W3C. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from socket import gethostname

from backend.instance.settings import Settings
from backend.wire.answer import Answer, Header
from model.problems import BadRequest, ConfigurationError, Forbidden

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)(?::[0-9]{0,5})?")
_NAME = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)
_ORIGIN = re.compile(r"https?://[a-z0-9_.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_MAX_KNOWN = 1000  # hosts whose decision is remembered
_MAX_KNOWN_BYTES = 300  # of such a host: a name has 253 at most
_ANY = "*"

_PAGES = (b"/admin", b"/admin/")  # that other sites may link to

VARY_ORIGIN: Header = (b"vary", b"origin")
# the methods and headers of the API, and the headers of answers that are not always readable
_METHODS = b"GET, HEAD, POST"
_REQUEST_HEADERS = (
    b"Authorization, Content-Type, If-None-Match, Last-Event-ID, View-Push, View-Version"
)
_READABLE_HEADERS = (
    b"ETag, Lag, Link, Location, Offset, Partition, Pipeline-Lag, Pipeline-Staleness, "
    b"Pipeline-State, Record-Timestamp, Retry-After, Retry-Elsewhere, Schema-Fingerprint, "
    b"Schema-Id, Served-By, Staleness, Topology-Epoch, View-Definition, View-Push, View-Version, "
    b"WWW-Authenticate"
)
_PREFLIGHT_SECONDS = b"600"


class BrowserRules:
    """Decides about requests by their headers."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        """`hosts`: as from `parse_hosts`; `origins`: as from `parse_origins`."""
        self.hosts = frozenset(hosts)
        self._origins = frozenset(origins)
        self._known: dict[bytes, bool] = {}

    @classmethod
    def from_settings(cls, settings: Settings) -> BrowserRules:
        """The rules of an instance. Raises ConfigurationError."""
        names = {settings.advertised_host.lower(), gethostname().lower()}
        return cls(
            parse_hosts(settings.allowed_hosts) | names, parse_origins(settings.cors_origins)
        )

    def allows_host(self, host: bytes) -> bool:
        """Whether the value of a Host header is allowed. Costs a look-up: for the hot path."""
        known = self._known.get(host)
        if known is None:
            known = is_allowed_host(host, self.hosts)
            if len(host) > _MAX_KNOWN_BYTES:
                return known
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[host] = known
        return known

    def admit(
        self, method: str, raw_path: bytes, headers: list[Header], is_admin: bool = False
    ) -> list[Header]:
        """The headers to add to the answer. Raises Forbidden, BadRequest. `is_admin`: whether the
        request needs the scope `admin`, which pages of other origins never have."""
        host, origin, site, mode, target = _browser_headers(headers)
        if not self.allows_host(host):
            raise Forbidden(
                "host-not-allowed",
                f"The server does not have the name {host.decode('latin-1')[:255]!r}. Use its IP "
                "address, or add the name to QUERYABLE_ALLOWED_HOSTS.",
            )
        more = [VARY_ORIGIN] if self._origins else []
        if origin is not None:
            if _is_own(origin, host):
                return more
            if origin.decode("latin-1").lower() in self._origins:
                if is_admin:
                    raise Forbidden(
                        "cross-site",
                        "Pages of the origins in QUERYABLE_CORS_ORIGINS read and append. For what "
                        "needs the scope admin, use the server's own page.",
                    )
                return [
                    *more,
                    (b"access-control-allow-origin", origin),
                    (b"access-control-expose-headers", _READABLE_HEADERS),
                ]
        elif site != b"cross-site" or _is_link(method, raw_path, mode, target):
            return more
        raise Forbidden(
            "cross-site",
            "A page of another site sent this request. QUERYABLE_CORS_ORIGINS lists the origins "
            "whose pages may do so.",
        )


def preflight(method: str, headers: list[Header], allowed: list[Header]) -> Answer | None:
    """The answer to a preflight of an allowed origin; None for other requests.

    `allowed`: what `admit` has returned.
    """
    is_allowed = any(name == b"access-control-allow-origin" for name, _ in allowed)
    asks = any(name == b"access-control-request-method" for name, _ in headers)
    if method != "OPTIONS" or not is_allowed or not asks:
        return None
    return Answer(
        204,
        [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", _PREFLIGHT_SECONDS),
        ],
        b"",
    )


def is_allowed_host(host: bytes, names: frozenset[str]) -> bool:
    """Whether `Host: {host}` is an IP address, a name that no other site can have, or in `names`.

    HTTP/1.0 clients may omit it, and clients may send it empty; browsers do neither.
    """
    if not host or _ANY in names:
        return True
    match = _HOST.fullmatch(host.decode("latin-1"))
    if match is None:
        return False
    name = match[1].lower().removesuffix(".")
    if _is_address(name.strip("[]")):
        return True
    if "." not in name or name.endswith(".localhost") or name in names:
        return True
    return any(name.endswith(suffix) for suffix in names if suffix.startswith("."))


def parse_hosts(text: str) -> frozenset[str]:
    """`name,name`; `.example.com` for all names below it, `*` for any. Raises
    ConfigurationError."""
    names = frozenset(_items(text))
    for name in names:
        if name != _ANY and not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"QUERYABLE_ALLOWED_HOSTS: {name!r} is not a name such as queryable.example.com, "
                "without a scheme or port; .example.com allows all names below example.com."
            )
    return names


def parse_origins(text: str) -> frozenset[str]:
    """`https://app.example.com,…`, with the port if it is not the default. Raises
    ConfigurationError."""
    origins = frozenset(origin.removesuffix("/") for origin in _items(text))
    for origin in origins:
        if not _ORIGIN.fullmatch(origin) or origin.endswith(_DEFAULT_PORTS[origin.split(":")[0]]):
            raise ConfigurationError(
                f"QUERYABLE_CORS_ORIGINS: {origin!r} is not an origin such as "
                "https://app.example.com, or http://127.0.0.1:3000: scheme, name, and the port if "
                "it is not the default one."
            )
    return origins


def _items(text: str) -> Iterable[str]:
    return (item for part in text.split(",") if (item := part.strip().lower()))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _browser_headers(
    headers: list[Header],
) -> tuple[bytes, bytes | None, bytes, bytes, bytes]:
    """Host, Origin, and the Sec-Fetch headers Site, Mode and Dest. Raises BadRequest."""
    host = origin = None
    site = mode = target = b""
    for name, value in headers:
        if name == b"host":
            if host is not None:
                raise BadRequest("bad-request", "Host is given more than once.")
            host = value
        elif name == b"origin":
            # several values together are not an origin that could be allowed
            origin = value if origin is None else origin + b" " + value
        elif name == b"sec-fetch-site":
            site = value if site != b"cross-site" else site
        elif name == b"sec-fetch-mode":
            mode = value
        elif name == b"sec-fetch-dest":
            target = value
    return host or b"", origin, site, mode, target


def _is_own(origin: bytes, host: bytes) -> bool:
    """Whether the page comes from this server. A proxy may have ended TLS, so that the scheme is
    not known here."""
    scheme, _, authority = origin.decode("latin-1").lower().partition("://")
    port = _DEFAULT_PORTS.get(scheme)
    named = host.decode("latin-1").lower()
    return port is not None and authority.removesuffix(port) == named.removesuffix(port)


def _is_link(method: str, raw_path: bytes, mode: bytes, target: bytes) -> bool:
    """Whether a person follows a link to the admin page."""
    is_page = method in ("GET", "HEAD") and raw_path in _PAGES
    return is_page and mode == b"navigate" and target == b"document"
