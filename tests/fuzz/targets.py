"""Functions that take any bytes, and fail if a property of a decoder is violated.

Bytes that are no valid input must raise the decoder's own error and nothing else. Valid ones must
survive another encoding and decoding.
"""

from __future__ import annotations

import io
import json
import secrets
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import orjson

from backend.http.parameters import (
    batch_parameters,
    changes_parameters,
    page_parameters,
    point_parameters,
    search_parameters,
    span_parameters,
)
from backend.http.paths import Paths
from backend.queries.key_bodies import parse_batch, parse_search
from backend.security.key_formats import parse_jwk_set, parse_key_file
from backend.security.signatures import parse_signature
from backend.security.tokens import TokenVerifier
from backend.wire.cursor import decode_cursor, encode_cursor
from backend.wire.point_batch import decode_reads
from backend.wire.scan_codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    pack,
    unpack,
)
from backend.wire.snapshot import SnapshotError, receive
from model.formats.codec import Codec
from model.formats.registry import VALUE_CODECS
from model.group.member_metadata import MemberMetadata
from model.kinds import layout
from model.problems import ConfigurationError, Problem, Unauthenticated
from model.records import ENTRY
from model.topology import Topology, TopologyError
from model.view_versions import ViewVersions
from model.views import View
from model.views_file import parse_views
from tests.support.in_process.avro_examples import ORDER
from tests.support.in_process.tokens import Keys, token
from tests.support.point_batch import assert_complete
from tests.unit.backend.wire.test_plain_requests import check_against_parser
from tests.unit.model.test_protobuf import ORDERS
from tests.vectors.uri_vectors import VIEWS

Target = Callable[[bytes], None]

_VIEW = View("orders", "orders", "/orders", "string", "json", "murmur2")
_WINDOWS = replace(_VIEW, store="window", window_size=60_000)
_AVRO = replace(_VIEW, value="avro", value_schema=json.dumps(ORDER)).value_codec
_CODECS: dict[str, Codec] = {
    **VALUE_CODECS,
    **{name: view.key_codec for name, view in VIEWS.items() if view.key == "avro"},
    "avro-order": _AVRO,
    "protobuf-order": ORDERS,
}
_PATHS = Paths(ViewVersions(tuple(VIEWS.values())))
_VERIFIER = TokenVerifier(Keys(secrets.token_bytes(32)))
_QUESTION = ("orders", 1, True, None)


def cursors(data: bytes) -> None:
    """Only text that was encoded for the same query is a cursor."""
    text = data.decode("utf-8", "replace")
    with suppress(Problem):
        key = decode_cursor(_QUESTION, text, layout.ALL)
        assert encode_cursor(_QUESTION, key) == text
    stored_key = ENTRY + data
    cursor = encode_cursor(_QUESTION, stored_key)
    assert decode_cursor(_QUESTION, cursor, layout.ALL) == stored_key


def scan_requests(data: bytes) -> None:
    with suppress(ValueError):
        decoded = decode_request(data)
        assert decode_request(encode_request(*decoded)) == decoded


def scan_responses(data: bytes) -> None:
    with suppress(ValueError):
        decoded = decode_response(data)
        assert decode_response(encode_response(decoded)) == decoded


def packed_strings(data: bytes) -> None:
    with suppress(ValueError):
        assert pack(unpack(data, 1000)) == data


def coalesced_reads(data: bytes) -> None:
    """No read is lost, added or moved to another token, and a stored key is that of an entry."""
    with suppress(ValueError):
        assert_complete(data, *decode_reads(data))


def signatures(data: bytes) -> None:
    found = parse_signature(data)
    assert found is None or parse_signature(found.header()) == found


def tokens(data: bytes) -> None:
    """No bytes but a signed token give an identity."""
    with suppress(Unauthenticated):
        _VERIFIER.identity(data)
        raise AssertionError("the key of the verifier signed nothing")


def token_keys(data: bytes) -> None:
    with suppress(ValueError):
        parse_key_file(data)
    with suppress(ValueError):
        parse_jwk_set(data, with_secrets=True)


def snapshots(data: bytes) -> None:
    """No file of a snapshot is outside its folder."""
    stream, files = io.BytesIO(data), list[str]()

    def create(name: str) -> io.BytesIO:
        assert "/" not in name
        assert not name.startswith(".")
        files.append(name)
        return io.BytesIO()

    with suppress(SnapshotError):
        receive(stream.read, stream.readline, create)
    assert len(files) <= len(data)


def plain_requests(data: bytes) -> None:
    """What is recognised without a parser is what the parser reads."""
    check_against_parser(data)


def codecs(data: bytes) -> None:
    """The first byte chooses the format; the rest is record bytes, or the text of a URL."""
    if not data:
        return
    names = sorted(_CODECS)
    codec, rest = _CODECS[names[data[0] % len(names)]], data[1:]
    with suppress(ValueError):
        codec.check(rest)
        _check_valid(codec, rest)
    with suppress(ValueError):
        raw = codec.from_text(rest)
        codec.check(raw)
        _check_valid(codec, raw)


def _check_valid(codec: Codec, raw: bytes) -> None:
    codec.probe(raw)
    if not codec.stores_values:
        return
    stored = codec.to_store(raw)
    assert codec.from_store(stored) == raw
    assert codec.size in (None, len(stored))
    try:
        document = codec.to_json(raw)
    except ValueError as e:
        raise AssertionError(f"{codec.name}: {raw!r} is valid, but has no JSON: {e}") from e
    orjson.loads(document)


def paths(data: bytes) -> None:
    with suppress(Problem):
        _PATHS.key_path(data)


def query_strings(data: bytes) -> None:
    for parse in (
        lambda: point_parameters(data, versioned=True),
        lambda: search_parameters(data, versioned=False),
        lambda: span_parameters(data),
        lambda: changes_parameters(data),
        lambda: batch_parameters(data),
        lambda: page_parameters(_VIEW, "keys", data),
        lambda: page_parameters(_WINDOWS, "windows", data, stream=True),
    ):
        with suppress(Problem):
            parse()


def key_bodies(data: bytes) -> None:
    for exact in (False, True):
        with suppress(Problem):
            parse_batch(data, exact)
    with suppress(Problem):
        parse_search(data)


def topologies(data: bytes) -> None:
    with suppress(TopologyError):
        topology = Topology.decode(data, 7)
        assert Topology.decode(topology.encode(), 7) == topology


def members(data: bytes) -> None:
    with suppress(TopologyError):
        member = MemberMetadata.decode(data)
        assert MemberMetadata.decode(member.encode()) == member


def views_files(data: bytes) -> None:
    with suppress(ConfigurationError):
        parse_views(data.decode("utf-8", "replace"))


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        cursors, scan_requests, scan_responses, packed_strings, coalesced_reads, snapshots,
        signatures, tokens, token_keys,
        plain_requests, codecs, paths, query_strings, key_bodies, topologies, members, views_files,
    )
}  # fmt: skip


def seeds(name: str) -> list[bytes]:
    """Valid inputs of a target, from which a fuzzer starts."""
    return _SEEDS.get(name, [b""])


def _snapshot() -> bytes:
    import hashlib

    body = b"data"
    return b"".join((
        b'{"name":"000012.sst","size":4}\n', body, hashlib.sha256(body).digest(),
        b'{"files":1,"bytes":4}\n',
    ))  # fmt: skip


_REQUEST = (
    b'{"view":"orders","view_hash":"00","total":9,"what":"rows","query":{"low":"","high":"ff",'
    b'"backwards":false,"first":null,"last":null,"stale_allowed":false},"limit":10,"arguments":{},'
    b'"partitions":[1,2],"after":null}'
)
_SEEDS: dict[str, list[bytes]] = {
    "cursors": [encode_cursor(_QUESTION, ENTRY + b"a").encode(), b"AQ"],
    "scan_requests": [_REQUEST],
    "packed_strings": [pack([b"a", b"", b"ccc"])],
    "coalesced_reads": [
        b"tokens %b,%b\nlengths 2,3\npartition orders string murmur2 2 0 2 1,0\n\n\x01a\x01bc"
        % (b"0" * 64, b"1" * 64),
        b"lengths 5\npartition orders int32 murmur2 2 0 2 0\n\n\x01\0\0\0\1\x01\0\0\0\n",
    ],
    "signatures": [b"1:0a:%b:%b" % (b"0" * 64, b"f" * 64)],
    "tokens": [token("read:*").encode(), b"e30.e30."],
    "token_keys": [
        b'{"keys":[{"kty":"oct","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","kid":"1"}]}',
        b'{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","x":'
        b'"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}',
        b"-----BEGIN PUBLIC KEY-----\n"
        b"MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
        b"-----END PUBLIC KEY-----\n",
    ],
    "snapshots": [_snapshot()],
    "plain_requests": [
        b"GET /orders/a HTTP/1.1\r\nHost: b\r\nAccept: */*\r\n\r\n",
        b"POST /internal/reads HTTP/1.1\r\nHost: b\r\nContent-Length: 53\r\n\r\n"
        b"lengths 2\npartition orders string murmur2 2 0 1 0\n\n\x01a",
    ],
    "codecs": [
        *(bytes([number]) + text
          for number in range(len(_CODECS))
          for text in (b"1", b'"a"', b"-1.5e300", b'{"a":[1,null]}', b"YWI",
                       b"00000000-0000-0000-0000-0000000000ff", struct.pack(">d", 0.5))),
        bytes([sorted(_CODECS).index("avro-order")]) + b"\x02" + struct.pack("<d", 0.5) + b"\x00",
    ],
    "paths": [b"/words/a%2Fb", b"/views/raw.bytes_1/keys/a/windows", b"/words/deep/k"],
    "query_strings": [
        b"encoding=base64url&stale=allow&at=12", b"from=a&to=b&limit=10&order=desc&cursor=AQ",
        b"prefix=ab", b"from=2013-12-29T00:00:00Z&to=5", b"min_offset=3:4",
    ],
    "key_bodies": [b'{"keys":["a",1,{"base64url":"YQ"}]}', b'{"key":"a"}'],
    "topologies": [Topology().encode()],
    "views_files": [b'[views.orders]\ntopic = "orders"\nkey = "string"\nvalue = "json"\n'],
}  # fmt: skip
