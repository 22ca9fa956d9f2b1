"""The keys and the policy of authentication, from the settings."""

from __future__ import annotations

import logging
import re
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from backend.instance.settings import Settings, is_loopback
from backend.security.key_formats import parse_jwk_set, parse_key_file
from backend.security.keys import FileSource, TokenKeys, UrlSource
from backend.security.tokens import ALGORITHMS, TokenPolicy
from model.problems import ConfigurationError

log = logging.getLogger(__name__)

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")


def token_keys(settings: Settings) -> TokenKeys | None:
    """The keys that verify tokens; None if authentication is off. The owner starts and stops them.

    Reads a file, but does not wait for a URL. Raises ConfigurationError.
    """
    sources = {
        "QUERYABLE_JWT_KEY_FILE": settings.jwt_key_file,
        "QUERYABLE_JWT_JWKS": settings.jwt_jwks,
    }
    set_names = [name for name, value in sources.items() if value]
    if settings.auth == "off":
        if set_names:
            raise ConfigurationError(
                f"{set_names[0]} is set, but authentication is off. Set QUERYABLE_AUTH=jwt, or "
                f"remove {set_names[0]}."
            )
        return None
    if len(set_names) != 1:
        raise ConfigurationError(
            f"QUERYABLE_AUTH=jwt needs one of {' and '.join(sources)}; "
            f"{'both are' if set_names else 'none is'} set."
        )
    if not settings.cluster_secret_file and settings.tls_client_ca_file is None:
        raise ConfigurationError(
            "QUERYABLE_AUTH=jwt needs QUERYABLE_CLUSTER_SECRET_FILE or "
            "QUERYABLE_TLS_CLIENT_CA_FILE: nginx and other instances have no token of their own."
        )
    policy = token_policy(settings)
    keys = _keys(settings)
    if keys.algorithms and keys.algorithms.isdisjoint(policy.algorithms):
        raise ConfigurationError(
            f"{set_names[0]} has keys for {', '.join(sorted(keys.algorithms))}, but "
            f"QUERYABLE_JWT_ALGORITHMS allows {', '.join(policy.algorithms)}."
        )
    return keys


def token_policy(settings: Settings) -> TokenPolicy:
    """What a token must have. Raises ConfigurationError."""
    algorithms = tuple(filter(None, (name.strip() for name in settings.jwt_algorithms.split(","))))
    unknown = [name for name in algorithms if name not in ALGORITHMS]
    if unknown or not algorithms:
        raise ConfigurationError(
            f"QUERYABLE_JWT_ALGORITHMS is {settings.jwt_algorithms!r}: only "
            f"{', '.join(ALGORITHMS)} are allowed."
        )
    if settings.jwt_header and not _HEADER_NAME.fullmatch(settings.jwt_header):
        raise ConfigurationError(
            f"QUERYABLE_JWT_HEADER is {settings.jwt_header!r}, which is not the name of a header."
        )
    return TokenPolicy(algorithms, settings.jwt_issuer, settings.jwt_audience)


def _keys(settings: Settings) -> TokenKeys:
    if settings.jwt_key_file:
        source = FileSource("QUERYABLE_JWT_KEY_FILE", Path(settings.jwt_key_file))
        keys = TokenKeys(source, parse_key_file)
        keys.load()
        return keys
    location = settings.jwt_jwks
    if "://" not in location:
        source = FileSource("QUERYABLE_JWT_JWKS", Path(location))
        keys = TokenKeys(source, partial(parse_jwk_set, with_secrets=True))
        keys.load()
        return keys
    url = urlsplit(location)
    if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
        raise ConfigurationError(
            "QUERYABLE_JWT_JWKS must be a file, or an http or https URL without a user."
        )
    if url.scheme == "http" and not is_loopback(url.hostname):
        log.warning("QUERYABLE_JWT_JWKS is fetched without TLS: others can replace the keys")
    return TokenKeys(
        UrlSource("QUERYABLE_JWT_JWKS", location), partial(parse_jwk_set, with_secrets=False)
    )


def unchecked_claims(settings: Settings) -> str:
    """The warning about claims of tokens that are not checked; "" if all are."""
    claims = {
        "QUERYABLE_JWT_ISSUER": settings.jwt_issuer,
        "QUERYABLE_JWT_AUDIENCE": settings.jwt_audience,
    }
    missing = [name for name, value in claims.items() if not value]
    if settings.auth == "off" or not missing:
        return ""
    return (
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: tokens that the "
        f"same keys sign for other services are accepted, if they have the scopes."
    )


def open_to_others(settings: Settings) -> str:
    """The warning about an instance that is open to others."""
    return (
        f"This instance listens on {settings.host}:{settings.port} without authentication: "
        f"everyone who reaches it can read all views. Set QUERYABLE_AUTH=jwt, or "
        f"QUERYABLE_HOST=127.0.0.1."
    )
