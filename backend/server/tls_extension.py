"""The extension `tls` of ASGI (https://asgi.readthedocs.io/en/latest/specs/tls.html), as far as
the application needs it."""

from __future__ import annotations

from typing import Any

# Short names of RFC 4514, section 3; other attributes keep OpenSSL's names.
_SHORT = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_ESCAPED = frozenset('\\"+,;<>')


def tls_extension(ssl_object: Any) -> dict[str, Any]:
    """What the handshake has shown.

    `client_cert_name`: the subject of the client's certificate; None without a certificate. It was
    verified: a handshake with a certificate of another authority fails. A resumed session (of TLS
    1.2, which Python cannot turn off) has none: nothing was verified again.
    """
    certificate = None if ssl_object.session_reused else ssl_object.getpeercert()
    return {
        "client_cert_name": _name(certificate["subject"]) if certificate else None,
        "client_cert_error": None,
        "tls_version": ssl_object.version(),
    }


def _name(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """A distinguished name as text (RFC 4514): the last part first."""
    return ",".join(
        "+".join(f"{_SHORT.get(field, field)}={_escape(value)}" for field, value in part)
        for part in reversed(subject)
    )


def _escape(value: str) -> str:
    text = "".join("\\" + c if c in _ESCAPED else c for c in value)
    if text[:1] in (" ", "#"):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(value) > 1 else text
