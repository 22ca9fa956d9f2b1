"""The proxy reads from a URI what the backends read, or leaves it to them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.settings import REPOSITORY
from model.problems import BadRequest
from tests.proxy.hostile import uris
from tests.vectors.librdkafka_vectors import key_bytes
from tests.vectors.uri_vectors import FILE, PROCESSORS, Routed, lines, routed, uri_of


class Proxy:
    """LuaJIT with the proxy's modules, as nginx runs them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["luajit", "tests/proxy/uris.lua"],
            cwd=REPOSITORY,
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._write(PROCESSORS)

    def _write(self, document: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document) + "\n")

    def read(self, uri: bytes) -> Routed:
        self._write(uri.decode("latin-1"))
        assert self._process.stdout is not None
        view, key, partition = json.loads(self._process.stdout.readline())
        return view, key, partition

    def close(self) -> None:
        self._process.communicate(timeout=10)
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    started = Proxy()
    yield started
    started.close()


def vectors() -> list[list[Any]]:
    header, *rest = map(json.loads, FILE.read_text().splitlines())
    assert header == PROCESSORS
    return rest


def test_the_vectors_are_what_backends_read() -> None:
    """If this is meant: `python -m tests.vectors.uri_vectors`."""
    assert lines() == FILE.read_text().splitlines()


def test_the_proxy_reads_what_backends_read(proxy: Proxy) -> None:
    taken = [vector for vector in vectors() if len(vector) > 1]
    assert len(taken) > 400
    for written, view, key, partition in taken:
        expected = (view, None if key is None else key_bytes(key).hex(), partition)
        assert proxy.read(uri_of(written)) == expected, written


def is_right(uri: bytes, said: Routed) -> bool:
    """Whether a request that is routed by this reaches who shall answer it."""
    try:
        return said == routed(uri)
    except BadRequest:
        return True  # whoever it reaches refuses it


def test_hostile_uris_are_read_alike(proxy: Proxy) -> None:
    for name, uri in uris():
        assert is_right(uri, proxy.read(uri)), name


_BYTE = st.sampled_from(b"aek09-_=/%&+;?#.A~\x00\x7f\x80\xff ").map(lambda byte: bytes([byte]))
_PIECES = st.sampled_from(
    [b"%2F", b"%2f", b"%25", b"%3D", b"%26", b"%65", b"%ff", b"%", b"YWI", b"42", b"-1", b"/"]
)
_TEXT = st.lists(st.one_of(_BYTE, _PIECES), max_size=6).map(b"".join)
_PREFIX = st.sampled_from(
    [b"/words/", b"/w%6Frds/", b"/words/deep/", b"/ints/", b"/longs/", b"/uuids/", b"/other/", b"/",
     b"/views/words/keys/", b"/views/raw.bytes_1/keys/", b"/views/%72aw.bytes_1/keys/", b"//words/",
     b"/words%2Fdeep/", b"/views/ints/keys", b""]
)  # fmt: skip


@st.composite
def _escaped(draw: st.DrawFn, text: bytes) -> bytes:
    """Some of its letters as escapes, in either case."""
    written = [
        draw(st.sampled_from([bytes([byte]), b"%%%02x" % byte, b"%%%02X" % byte])) for byte in text
    ]
    return b"".join(written)


_NAME = st.sampled_from([b"encoding", b"stale", b"ENCODING", b"", b"x"]).flatmap(_escaped)
_VALUE = st.one_of(
    st.sampled_from([b"base64url", b"text", b"allow", b"base64"]).flatmap(_escaped), _TEXT
)
_PAIR = st.one_of(
    st.tuples(_NAME, st.sampled_from([b"=", b"", b"%3D", b"=="]), _VALUE).map(b"".join), _TEXT
)
_QUERY = st.lists(_PAIR, max_size=3).map(b"&".join)
_URI = st.one_of(
    st.tuples(_PREFIX, _TEXT).map(b"".join),
    st.tuples(_PREFIX, _TEXT, st.just(b"?"), _QUERY).map(b"".join),
).filter(lambda uri: b"\n" not in uri)


@settings(max_examples=1000, deadline=None)
@given(uri=_URI)
def test_the_proxy_routes_by_no_other_key_than_backends_read(proxy: Proxy, uri: bytes) -> None:
    assert is_right(uri, proxy.read(uri))


@pytest.mark.parametrize("path", ["/words/", "/views/words/keys/"])
def test_longer_keys_than_backends_read_are_left_to_them(proxy: Proxy, path: str) -> None:
    fits, too_long = (proxy.read((path + "k" * size).encode()) for size in (8192, 8193))
    assert fits[1] == "6b" * 8192
    assert too_long == ("words", None, None)
