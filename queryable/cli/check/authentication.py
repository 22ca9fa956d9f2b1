"""Checks whether requests need tokens, and whether an instance can verify them."""

from __future__ import annotations

from backend.instance.settings import Settings
from backend.security.configuration import token_keys, unchecked_claims
from model.problems import ConfigurationError
from queryable.cli.check.findings import Finding, ok, warning, wrong

_SUBJECT = "authentication"


def check_authentication(settings: Settings) -> Finding:
    """Whether others may read without a token, or an instance would refuse these settings.

    Reads the file with the keys, but does not ask a URL.
    """
    try:
        token_keys(settings)
    except ConfigurationError as error:
        return wrong(_SUBJECT, str(error), "an instance does not start: correct these settings")
    if settings.is_open_to_others:
        return warning(
            _SUBJECT,
            f"everyone who reaches {settings.host}:{settings.port} can read all views",
            "set QUERYABLE_AUTH=jwt (docs/security/authentication.md), or QUERYABLE_HOST=127.0.0.1",
        )
    if settings.auth == "off":
        return ok(_SUBJECT, f"off; only this machine can reach {settings.host}")
    if unchecked := unchecked_claims(settings):
        return warning(
            _SUBJECT,
            f"each request needs a token, but {unchecked}",
            "set both to what your identity provider writes into tokens for this service",
        )
    return ok(_SUBJECT, "each request needs a token")
