"""Issuers of tokens that replace their keys, and a client that keeps an old token."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from local.waiting import wait_until
from tests.support.background import Background
from tests.support.client import Client, key_path
from tests.support.in_process.avro_examples import FakeRegistry
from tests.support.security.private_file import write_private
from tests.support.security.signing_keys import jwk, jwk_set, pem

_NEW: dict[str, Callable[[], Any]] = {
    "EdDSA": Ed25519PrivateKey.generate,
    "ES256": lambda: generate_private_key(SECP256R1()),
    "HS256": lambda: secrets.token_bytes(32),
}


@dataclass(frozen=True)
class Key:
    """`signing`: the private key, or the secret of HS256. `id`: None if tokens name no key."""

    algorithm: str
    signing: Any
    id: str | None = None


Publish = Callable[[Sequence[Key]], None]
"""Makes the keys known to the instances, instead of those before."""


class Issuer:
    """Signs tokens with one of its keys, and publishes all of them."""

    def __init__(self, algorithm: str, publish: Publish, *, with_ids: bool = False) -> None:
        self._algorithm = algorithm
        self._publish = publish
        self._with_ids = with_ids
        self._keys: list[Key] = []
        self._made = 0
        self.token = ""
        self.add_key()
        self.use_new_key()

    def add_key(self) -> None:
        self._keys.append(self._new_key())
        self._publish(self._keys)

    def use_new_key(self) -> None:
        self.token = self.token_of_new_key()

    def token_of_new_key(self) -> str:
        return _signed(self._keys[-1])

    def token_of_unknown_key(self) -> str:
        return _signed(self._new_key())

    def remove_old_key(self) -> None:
        del self._keys[0]
        self._publish(self._keys)

    def _new_key(self) -> Key:
        self._made += 1
        key_id = f"key {self._made}" if self._with_ids else None
        return Key(self._algorithm, _NEW[self._algorithm](), key_id)


def _signed(key: Key) -> str:
    claims = {"sub": "reader", "scope": "read:* metrics", "exp": time.time() + 3600}
    headers = None if key.id is None else {"kid": key.id}
    return jwt.encode(claims, key.signing, algorithm=key.algorithm, headers=headers)


def into_file(path: Path, content: Callable[[Sequence[Key]], bytes]) -> Publish:
    """As an operator should: under another name, then renamed."""

    def publish(keys: Sequence[Key]) -> None:
        write_private(path.with_name("new"), content(keys)).rename(path)

    return publish


def on_web_server(server: FakeRegistry, path: str) -> Publish:
    """As a JWK set."""

    def publish(keys: Sequence[Key]) -> None:
        server.answers[path] = 200, jwk_set_of(keys)

    return publish


def pem_of(keys: Sequence[Key]) -> bytes:
    return b"".join(pem(key.signing) for key in keys)


def jwk_set_of(keys: Sequence[Key]) -> bytes:
    return jwk_set(*map(_jwk, keys))


def _jwk(key: Key) -> dict[str, Any]:
    more = {} if key.id is None else {"kid": key.id}
    if key.algorithm == "HS256":
        text = base64.urlsafe_b64encode(key.signing).rstrip(b"=").decode()
        return {"kty": "oct", "k": text, **more}
    return jwk(key.algorithm, key.signing, **more)


class Holder(Background):
    """Reads with one token at each port. It notes when a read that was accepted began, and when one
    that was refused ended."""

    def __init__(self, ports: list[int], keys: list[str], token: str) -> None:
        super().__init__("holder", len(ports))
        self._ports = ports
        self._keys = keys
        self._token = token
        self.reads = [0] * len(ports)
        self.accepted: list[float] = []
        self.refused: list[float] = []

    def _work(self, number: int) -> None:
        with Client(self._ports[number]) as client:
            while not self._stop.is_set():
                began = time.monotonic()
                path = key_path("v", self._keys[self.reads[number] % len(self._keys)])
                answer = client.get(path, Authorization=f"Bearer {self._token}")
                self.reads[number] += 1
                if answer.status == 200:
                    self.accepted.append(began)
                else:
                    # a URL is read again for a key that is not in it: it might have come back
                    assert answer.code in ("unauthenticated", "keys-unavailable"), answer
                    self.refused.append(time.monotonic())

    def wait_for_more(self) -> None:
        before = list(self.reads)
        wait_until(
            lambda: self.failures
            or all(now > then + 20 for now, then in zip(self.reads, before, strict=True)),
            20, "reads with the old token", 0.02,
        )  # fmt: skip
        self.check()
