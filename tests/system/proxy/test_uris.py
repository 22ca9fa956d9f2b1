"""The proxy parses a URI as the backends do, or lets any backend decide."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.settings import REPOSITORY
from model.formats.schemas import CONFLUENT
from model.problems import BadRequest
from model.views import View
from tests.support.security.hostile import uris
from tests.vectors.librdkafka_vectors import key_bytes
from tests.vectors.uri_vectors import (
    AVRO_KINDS,
    FILE,
    PROCESSORS,
    VIEWS,
    Routed,
    lines,
    routed,
    uri_of,
)


class Proxy:
    """LuaJIT with the proxy's modules, as nginx runs them."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["luajit", "tests/support/lua/uris.lua"],
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


def test_the_vectors_are_up_to_date() -> None:
    """To update them: `python -m tests.vectors.uri_vectors`."""
    assert lines() == FILE.read_text().splitlines()


def test_the_proxy_parses_uris_as_backends_do(proxy: Proxy) -> None:
    parsed = [vector for vector in vectors() if len(vector) > 1]
    assert len(parsed) > 400
    for written, view, key, partition in parsed:
        expected = (view, None if key is None else key_bytes(key).hex(), partition)
        assert proxy.read(uri_of(written)) == expected, written


def is_valid(view: View, text: bytes) -> bool:
    try:
        view.key_codec.from_text(text)
    except ValueError:
        return False
    return True


def test_views_say_which_encodings_are_routed(proxy: Proxy) -> None:
    texts = (b"1", b"true", b'"a"', b'"2013-12-29"', b'"12"', b'"YWI"', b'{"id":1}',
             b"0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11")  # fmt: skip
    for view in VIEWS.values():
        keys = f"/views/{view.name}/keys/"
        valid = [quote(text, safe="") for text in texts if is_valid(view, text)]
        routed_texts = [text for text in valid if proxy.read(f"{keys}{text}".encode())[1]]
        assert valid
        assert routed_texts == (valid if "text" in view.routed_encodings else []), view.name
        assert proxy.read(f"{keys}YWI?encoding=base64url".encode())[1] == "6162"
        assert "base64url" in view.routed_encodings
    assert dataclasses.replace(VIEWS["words"], partitioner="none").routed_encodings == ()
    framed = dataclasses.replace(VIEWS["avro-int"], key_schema=CONFLUENT)
    assert framed.routed_encodings == ("base64url",)


def is_right(uri: bytes, found: Routed) -> bool:
    """Whether a request routed by `found` reaches a backend that can answer it."""
    try:
        return found == routed(uri)
    except BadRequest:
        return True  # every backend rejects it


def test_hostile_uris_are_parsed_alike(proxy: Proxy) -> None:
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
     b"/words%2Fdeep/", b"/views/ints/keys", b"/floats/", b"/documents/", b"/avro-long/",
     b"/avro-string/", b"/avro-double/", b""]
)  # fmt: skip


@st.composite
def _escaped(draw: st.DrawFn, text: bytes) -> bytes:
    """The text with some of its letters as escapes, in either case."""
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


@settings(max_examples=1000)
@given(uri=_URI)
def test_the_proxy_routes_by_the_key_that_backends_parse(proxy: Proxy, uri: bytes) -> None:
    assert is_right(uri, proxy.read(uri))


_NUMBER = st.one_of(
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.integers().map(str),
    st.integers(-(2**63), 2**63).map(str),
    st.from_regex(r"-?([0-9]{0,30}\.?[0-9]{0,40})([eE][+-]?[0-9]{1,6})?", fullmatch=True),
    st.sampled_from(["NaN", "Infinity", "-Infinity"]),
)
_DOCUMENT = st.one_of(
    _NUMBER,
    st.text(max_size=9).map(json.dumps),
    st.text(max_size=9).map(lambda text: f'"{text}"'),
    st.sampled_from([" ", '"', "true", "null", "{}", '{"a": 1}']),
)


@settings(max_examples=2000)
@given(
    view=st.sampled_from(["floats", "documents", *(f"avro-{kind}" for kind in AVRO_KINDS)]),
    text=_DOCUMENT,
)
def test_numbers_and_documents_are_encoded_as_backends_do(
    proxy: Proxy, view: str, text: str
) -> None:
    uri = f"/{view}/{quote(text, safe='', errors='surrogatepass')}".encode()
    assert is_right(uri, proxy.read(uri))


@pytest.mark.parametrize("path", ["/words/", "/views/words/keys/"])
def test_keys_longer_than_backends_accept_are_not_routed(proxy: Proxy, path: str) -> None:
    fits, too_long = (proxy.read((path + "k" * size).encode()) for size in (8192, 8193))
    assert fits[1] == "6b" * 8192
    assert too_long == ("words", None, None)
