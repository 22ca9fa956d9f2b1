"""The settings of a deployment whose requests need tokens and signatures."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import jwt

from backend.instance.settings import Settings

SECRET = "a cluster secret of the attacks, 0123456789abcdef"
TOKEN_KEY = "a key for tokens of the attacks, 0123456789abcdef"
_SETTINGS = {"auth", "jwt_key_file", "cluster_secret_file"}


def is_available() -> bool:
    """Whether this version has authentication."""
    return set(Settings.model_fields) >= _SETTINGS


@dataclass(frozen=True)
class Authentication:
    """`settings` of the backends, `environment` of nginx, and a token with all scopes."""

    settings: dict[str, str]
    environment: dict[str, str]
    token: str


def authentication(folder: Path) -> Authentication:
    """Writes the files of the secrets into `folder`."""
    files = {"cluster-secret": SECRET + "\n", "token-key": TOKEN_KEY}
    for name, text in files.items():
        path = folder / name
        path.touch(0o600)
        path.write_text(text)
    secret = str(folder / "cluster-secret")
    claims = {"sub": "honest", "scope": "read:* metrics admin", "exp": time.time() + 3600}
    return Authentication(
        {
            "auth": "jwt",
            "jwt_key_file": str(folder / "token-key"),
            "jwt_algorithms": "HS256",
            "cluster_secret_file": secret,
        },
        {"QUERYABLE_CLUSTER_SECRET_FILE": secret},
        jwt.encode(claims, TOKEN_KEY, "HS256"),
    )
