"""Compares how the proxy's Lua and the backends' Python read generated URIs.

A URI is made from a grammar of paths, keys, escapes and parameters, or is random bytes, or is one
of these with a few bytes changed. Both sides must name the same view, key and partition, unless
every backend rejects the URI.
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from local.settings import REPOSITORY
from model.problems import BadRequest
from tests.vectors.uri_vectors import PROCESSORS, VIEWS, routed

_BYTES = b"aek09-_=/%&+;?#.A~\x00\x7f\x80\xff "
_ESCAPES = (b"%2F", b"%2f", b"%25", b"%3D", b"%26", b"%65", b"%ff", b"%00", b"%", b"%2", b"%zz")
_WORDS = (
    b"YWI", b"AQ", b"42", b"-1", b"+7", b"0x10", b"1e5", b"-0.0", b"NaN", b"Infinity", b"true",
    b"null", b"%22a%22", b'"a"', b"9223372036854775808", b"%7B%7D", b"/", b"a", b"", b"0.1",
    b"0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11", b"%E6%9D%B1", b"2147483647", b"==", b"keys",
)  # fmt: skip
_PREFIXES = (
    *(f"{view.path}/".encode() for view in VIEWS.values() if view.path),
    *(f"/views/{name}/keys/".encode() for name in VIEWS),
    b"/w%6Frds/", b"/words%2Fdeep/", b"//words/", b"/views/%72aw.bytes_1/keys/", b"/other/", b"/",
    b"/views/ints/keys", b"/views//keys/", b"", b"/views/words/", b"/words",
)  # fmt: skip
_RESTS = (b"", b"", b"", b"/windows", b"/sessions", b"/versions", b"/changes", b"/", b"/x")
_NAMES = (b"encoding", b"enc%6fding", b"stale", b"ENCODING", b"", b"x", b"from", b"at", b"wait")
_VALUES = (b"base64url", b"base64", b"text", b"allow", b"base64ur%6c", b"", b"1")


@dataclass
class Outcome:
    """`compared`: URIs; `routed`: of these, how many have a partition; `different`: the first few
    that the two sides read differently."""

    compared: int = 0
    routed: int = 0
    different: list[bytes] = field(default_factory=list)


def generate(random_: random.Random) -> bytes:
    """One URI without a line feed, which ends a line of the program in Lua."""
    kind = random_.random()
    if kind < 0.1:
        uri = random_.randbytes(random_.randint(0, 40))
    else:
        uri = random_.choice(_PREFIXES) + _text(random_) + random_.choice(_RESTS)
        if random_.random() < 0.5:
            pairs = (_parameter(random_) for _ in range(random_.randint(0, 3)))
            uri += b"?" + b"&".join(pairs)
        if kind < 0.3:
            uri = _changed(uri, random_)
    return uri.replace(b"\n", b"")


def _text(random_: random.Random) -> bytes:
    if random_.random() < 0.5:
        return random_.choice(_WORDS)
    pieces = []
    for _ in range(random_.randint(0, 5)):
        kind = random_.random()
        if kind < 0.4:
            pieces.append(bytes([random_.choice(_BYTES)]))
        elif kind < 0.7:
            pieces.append(random_.choice(_ESCAPES))
        elif kind < 0.9:
            pieces.append(random_.choice(_WORDS))
        else:
            pieces.append(b"%%%02X" % random_.randrange(256))
    return b"".join(pieces)


def _parameter(random_: random.Random) -> bytes:
    value = random_.choice(_VALUES) if random_.random() < 0.7 else _text(random_)
    return random_.choice(_NAMES) + random_.choice((b"=", b"=", b"=", b"", b"%3D", b"==")) + value


def _changed(uri: bytes, random_: random.Random) -> bytes:
    changed = bytearray(uri)
    for _ in range(random_.randint(1, 3)):
        at = random_.randint(0, len(changed))
        if random_.random() < 0.5:
            changed[at:at] = bytes([random_.randrange(256)])
        else:
            del changed[at : at + 1]
    return bytes(changed)


def compare(
    count: int, seed: int, progress: Callable[[int], None] = lambda _: None, most: int = 20
) -> Outcome:
    """Compares `count` URIs; ends early after `most` differences."""
    outcome = Outcome()
    process = subprocess.Popen(
        ["luajit", "tests/support/lua/uris.lua"],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    writer = threading.Thread(target=_write, args=(process, _uris(count, seed)), name="uris")
    writer.start()
    try:
        for uri in _uris(count, seed):
            line = process.stdout.readline()
            view, key, partition = json.loads(line)
            outcome.compared += 1
            outcome.routed += partition is not None
            try:
                expected = routed(uri)
            except BadRequest:
                expected = None  # every backend rejects it
            if expected not in (None, (view, key, partition)):
                outcome.different.append(uri)
                if len(outcome.different) >= most:
                    break
            if outcome.compared % 10_000 == 0:
                progress(outcome.compared)
    finally:
        process.kill()
        process.wait()
        writer.join()
        process.stdout.close()
    return outcome


def _uris(count: int, seed: int) -> Iterator[bytes]:
    random_ = random.Random(seed)
    return (generate(random_) for _ in range(count))


def _write(process: subprocess.Popen[bytes], uris: Iterator[bytes]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:  # broken: the comparison ended early
        process.stdin.write(json.dumps(PROCESSORS).encode() + b"\n")
        for uri in uris:
            process.stdin.write(json.dumps(uri.decode("latin-1")).encode() + b"\n")
