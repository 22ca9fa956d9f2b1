"""Tokens that are expired, foreign, malformed or many."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import jwt

from tests.attacks.attack import TOKENS, VIEW, Attack, Attempt, Perform, both, each, get, post

_KEY = f"/views/{VIEW}/keys/order%201"
_BATCH = f"/views/{VIEW}/batch"
_FOREIGN = "a key of someone else, which is long enough for HS256"


def _claims(**more: Any) -> dict[str, Any]:
    return {"sub": "attacker", "scope": "read:*", "exp": int(time.time()) + 600, **more}


def _signed(key: str, algorithm: str = "HS256", **claims: Any) -> str:
    return str(jwt.encode(_claims(**claims), key, algorithm))


def _part(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def _without_signature(algorithm: str) -> str:
    return f"{_part({'alg': algorithm, 'typ': 'JWT'})}.{_part(_claims())}."


def _sends(tokens_of: Callable[[str], list[str]]) -> Perform:
    """Reads a key and a batch with each token. `tokens_of(the site's key)`."""

    async def perform(attempt: Attempt) -> None:
        requests = []
        for token in tokens_of(attempt.site.token_key):
            header = b"Authorization: Bearer %b\r\n" % token.encode()
            requests += [get(_KEY, header), post(_BATCH, b'{"keys":["order 1"]}', header)]
        await each(*requests)(attempt)

    return perform


def _expired(key: str) -> list[str]:
    now = int(time.time())
    return [
        _signed(key, exp=now - 60),
        _signed(key, exp=1),
        _signed(key, nbf=now + 3600),
        _signed(key, exp="soon"),
    ]


def _foreign(key: str) -> list[str]:
    mine = _signed(key, scope="read:another-view")
    head, claims, _ = mine.split(".")
    others = _part(_claims())
    return [
        _signed(_FOREIGN),
        _signed(_FOREIGN, iss="https://issuer.example"),
        mine,
        f"{head}.{others}.{mine.split('.')[2]}",
        f"{head}.{claims}.",
        _signed(key, scope=""),
        _signed(key, scope="append:*"),
    ]


def _malformed(_: str) -> list[str]:
    return [
        *map(_without_signature, ("none", "None", "NONE", "nOnE", "HS0", "")),
        "a", "a.b", "a.b.c", "..", "." * 100, "A" * 8000,
        ".".join([_part({"alg": "HS256", "crit": ["x"], "x": 1}), _part(_claims()), "AAAA"]),
        ".".join([_part({"alg": "HS256", "jku": "http://127.0.0.1:1/"}), _part(_claims()), "AAAA"]),
        ".".join([_part([[[[]]]]), _part([]), "AAAA"]),
    ]  # fmt: skip


async def _flood(attempt: Attempt) -> None:
    """Another invalid token with each request, so that none is cached."""

    async def work(number: int) -> None:
        turn = 0
        while not attempt.is_over:
            token = _signed(_FOREIGN, jti=f"{number}-{turn}")
            outcome = await attempt.send(get(_KEY, f"Authorization: Bearer {token}\r\n".encode()))
            if outcome not in ("401", "429", "503"):
                attempt.fail(f"{outcome} to a foreign token")
            turn += 1

    await attempt.crowd(16, work)


async def _nobody(attempt: Attempt) -> None:
    """Everything but health, without a token; also nginx's own pages."""
    paths = [
        _KEY, "/views", "/processors", "/openapi.json", "/metrics", "/instance",
        "/proxy/health", "/proxy/metrics", "/metrics/targets",
        f"/views/{VIEW}/keys", f"/views/{VIEW}/count", f"/api/v1/stores/{VIEW}",
        f"{_KEY}/changes",
    ]  # fmt: skip
    await each(*map(get, paths), only=frozenset(["401", "429", "503"]))(attempt)


ATTACKS: list[Attack] = [
    *both("expired-tokens", "401", _sends(_expired), needs=TOKENS),
    *both("foreign-tokens", "401 or 403", _sends(_foreign), needs=TOKENS),
    *both("malformed-tokens", "401", _sends(_malformed), needs=TOKENS),
    *both("token-flood", "401", _flood, needs=TOKENS),
    *both("no-token", "401", _nobody, needs=TOKENS),
]
