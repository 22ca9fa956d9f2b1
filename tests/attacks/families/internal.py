"""Internal calls that are malformed, forged, replayed or meant for another receiver."""

from __future__ import annotations

import hashlib
import hmac
import json
import time

from tests.attacks.attack import (
    BACKEND,
    CLUSTER,
    REFUSALS,
    VIEW,
    Attack,
    Attempt,
    Perform,
    each,
    post,
)

_OCTETS = b"Content-Type: application/octet-stream\r\n"
_READS = "/internal/reads"
_ZEROS = b"0" * 64
_LARGE = b"\xff\xff\xff\xff"


def _internal(path: str, *bodies: bytes, headers: bytes = b"") -> list[bytes]:
    return [post(f"/internal/{path}", body, _OCTETS + headers) for body in bodies]


_MALFORMED = [
    *_internal("scan", b"", b"{}", b"[" * 10_000, b'{"view":"orders"}', b"\x00" * 1000),
    *_internal("batch", b"", _LARGE * 100, b"\x00" * 1000, _LARGE + b"orders", b"[" * 100_000),
    *_internal("heartbeat", b"", b"{}", _ZEROS + b"{}", _ZEROS + b"[" * 3000),
    *_internal(
        "reads",
        b"\n" * 5000,
        b"a\n" * 500_000,
        b"lengths 9\npartition orders string murmur2 9 0 1 0\n\n\x00position",
        b"lengths 9\npartition orders string murmur2 9 0 999999999 0\n\n\x01position",
        b"lengths " + b"9," * 100_000,
        b"lengths " + b"9" * 100_000,
    ),
]


def _signed_with_nothing(view: str) -> bytes:
    text = json.dumps({"view": view, "hash": "../..", "partition": 0}).encode()
    return hmac.new(b"guessed", text, hashlib.sha256).hexdigest().encode() + text


_TRAVERSAL = [
    *_internal(
        "copy",
        *(
            _signed_with_nothing(view)
            for view in ("../../etc", "/etc", "orders/../..", "orders\0", "..%2f..%2fetc", VIEW)
        ),
        b"../../etc/passwd",
    ),
    post("/internal/copy/../../etc/passwd", b"", _OCTETS),
    post("/internal/copy?view=../../etc", b"", _OCTETS),
]


def _signature(secret: bytes, body: bytes, receiver: str, at: int, target: str = _READS) -> bytes:
    """As a proxy signs, written independently of the product."""
    key = hmac.digest(secret, b"queryable-topics proxy", "sha256")
    nonce, body_hash = b"%x" % time.time_ns(), hashlib.sha256(body).hexdigest().encode()
    lines = [b"POST", target.encode(), b"%d" % at, nonce, body_hash, receiver.encode()]
    mac = hmac.digest(key, b"\n".join(lines), "sha256").hex().encode()
    return b"Queryable-Signature: %d:%b:%b:%b\r\n" % (at, nonce, body_hash, mac)


_BODY = f"paths 1 0\n/views/{VIEW}/keys/order%201".encode()


def _now() -> int:
    return time.time_ns() // 1_000_000


async def _forged(attempt: Attempt) -> None:
    """Signed with another secret, for another receiver, path or body, or at another time."""
    secret, me = attempt.site.cluster_secret.encode(), attempt.site.instance
    hour = 3_600_000
    others = [
        b"",
        b"Queryable-Signature: 1:2:3:4\r\n",
        b"Queryable-Signature: " + b"9" * 5000 + b"\r\n",
        _signature(b"another secret, which is long enough", _BODY, me, _now()),
        _signature(secret, _BODY, "another", _now()),
        _signature(secret, _BODY, "*", _now()),
        _signature(secret, b"another body", me, _now()),
        _signature(secret, _BODY, me, _now(), target="/internal/scan"),
        _signature(secret, _BODY, me, _now() - hour),
        _signature(secret, _BODY, me, _now() + hour),
    ]
    await each(*(post(_READS, _BODY, _OCTETS + lines) for lines in others))(attempt)


async def _replayed(attempt: Attempt) -> None:
    """A valid call, as someone on the network has seen it, sent again."""
    site = attempt.site
    lines = _signature(site.cluster_secret.encode(), _BODY, site.instance, _now())
    request = post(_READS, _BODY, _OCTETS + lines)
    if (first := await attempt.send(request)) != "200":
        attempt.fail(f"{first} to a valid call")
    await each(request)(attempt)


def _flood_of_signatures() -> Perform:
    """Signatures that are well-formed and wrong: they may not push valid ones out of memory."""

    async def perform(attempt: Attempt) -> None:
        async def work(number: int) -> None:
            while not attempt.is_over:
                secret = b"another secret, which is long enough, %d" % number
                lines = _signature(secret, _BODY, attempt.site.instance, _now())
                outcome = await attempt.send(post(_READS, _BODY, _OCTETS + lines))
                if outcome not in REFUSALS:
                    attempt.fail(f"{outcome} to a forged signature")

        await attempt.crowd(32, work)

    return perform


ATTACKS: list[Attack] = [
    Attack("malformed-internal", BACKEND, "400 or 403", each(*_MALFORMED)),
    Attack("traversal-in-copies", BACKEND, "403 or 404", each(*_TRAVERSAL)),
    Attack("forged-internal", BACKEND, "403", _forged, needs=CLUSTER),
    Attack("replayed-internal", BACKEND, "403", _replayed, needs=CLUSTER),
    Attack("signature-flood", BACKEND, "403", _flood_of_signatures(), needs=CLUSTER),
]
