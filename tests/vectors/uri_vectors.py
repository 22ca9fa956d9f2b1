"""Writes uris.jsonl: how backends parse URIs, by their own functions.

Run with the project's Python: ``python -m tests.vectors.uri_vectors``.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backend.http.parameters import (
    changes_parameters,
    key_bytes,
    point_parameters,
    span_parameters,
)
from backend.http.paths import Paths
from model.partitioner import partition_of, puts_anywhere
from model.problems import BadRequest
from model.view_versions import ViewVersions
from model.views import View

HERE = Path(__file__).parent
FILE = HERE / "uris.jsonl"

MAX_KEY_BYTES = 8192
PARTITIONS = 9
AVRO_KINDS = ("boolean", "int", "long", "float", "double", "string", "bytes")


def _view(name: str, path: str | None, key: str, partitioner: str = "murmur2") -> View:
    return View(name, name, path, key, "json", partitioner)


def _avro_view(name: str, schema: object) -> View:
    view = _view(name, f"/{name}", "avro")
    return dataclasses.replace(view, key_schema=json.dumps(schema))


VIEWS = {
    view.name: view
    for view in (
        _view("words", "/words", "string"),
        _view("deep", "/words/deep", "string", "fnv1a"),
        _view("ints", "/ints", "int32"),
        _view("longs", "/longs", "int64"),
        _view("uuids", "/uuids", "uuid"),
        _view("raw.bytes_1", None, "bytes", "crc32"),
        _view("floats", "/floats", "float64"),
        _view("documents", "/documents", "json"),
        *(_avro_view(f"avro-{kind}", kind) for kind in AVRO_KINDS),
        _avro_view("avro-date", {"type": "int", "logicalType": "date"}),
        _avro_view("avro-decimal", {"type": "bytes", "logicalType": "decimal", "precision": 9}),
        _avro_view(
            "avro-record",
            {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]},
        ),
    )
}
PATHS = Paths(ViewVersions(tuple(VIEWS.values())))

# the document of /processors
PROCESSORS: dict[str, Any] = {
    "epoch": "1-1",
    "max_key_bytes": MAX_KEY_BYTES,
    "views": {
        name: {
            "path": view.path,
            "key": view.key,
            "partitioner": view.partitioner,
            "partitions": PARTITIONS,
            **({"key_schema": view.description()["key_schema"]} if view.key_schema else {}),
        }
        for name, view in VIEWS.items()
    },
    "processors": [],
}

Routed = tuple[str | None, str | None, int | None]
"""View, key in hexadecimal, partition; None where there is none."""


def _is_base64url(rest: bytes, query: bytes) -> bool:
    if rest == b"changes":
        return changes_parameters(query)[0]
    return point_parameters(query, False)[0] if not rest else span_parameters(query)[0]


_LONG_EXPONENT = re.compile(rb"[eE][+-]?[0-9]{6}")


def _is_routed(view: View, text: bytes) -> bool:
    """Whether the proxy encodes this valid text of a key. Otherwise any backend is asked."""
    if text.startswith(b"{"):  # a key that is listed by its bytes
        return view.key in ("json", "string", "bytes")
    number = len(text) <= 64 and not _LONG_EXPONENT.search(text)
    if view.key == "float64":
        return number
    if view.key != "avro":
        return True
    kind = view.name.removeprefix("avro-")
    if text.strip(b" \t\r\n") != text or b"\\" in text:
        return False
    if kind in ("float", "double"):
        return number and not text.startswith(b'"')
    return kind in ("boolean", "int", "long", "string")


def _key(view: View, text: bytes, encoded: bool) -> bytes:
    """As the backends do it: the size first, then the format."""
    raw = key_bytes(text) if encoded else text
    if len(raw) > MAX_KEY_BYTES:
        raise BadRequest("key-too-long", "The key is longer than backends accept.")
    try:
        if not encoded:
            return view.key_codec.from_text(text)
        view.key_codec.check(raw)
    except ValueError as e:
        raise BadRequest("key-undecodable", str(e)) from None
    return raw


def routed(uri: bytes) -> Routed:
    """What the proxy must route by; BadRequest if every backend refuses the URI.

    The key is the one that backends parse. There is none for the empty text, as `/words/` may mean
    another path, and for text that the proxy leaves to the backends (`_is_routed`).
    """
    if not uri.startswith(b"/") or any(not 0x21 <= byte <= 0x7E for byte in uri):
        raise BadRequest("bad-request", "The backends' HTTP parser refuses this.")
    if b"#" in uri:
        return None, None, None  # parsers differ in whether it is part of the path
    raw_path, _, query = uri.partition(b"?")
    found = PATHS.key_path(raw_path)
    if found is None:
        return None, None, None
    encoded = _is_base64url(found.rest, query)
    if not found.text and not encoded:
        return found.view.name, None, None
    key = _key(found.view, found.text, encoded)
    if not encoded and not _is_routed(found.view, found.text):
        return found.view.name, None, None
    if puts_anywhere(found.view.partitioner, key):
        return found.view.name, key.hex(), None
    return found.view.name, key.hex(), partition_of(found.view.partitioner)(key, PARTITIONS)


def _uris() -> Iterator[list[Any]]:
    """Each is a list of texts (code points are bytes) and of pairs [text, repetitions]."""
    odd = ["a/b", "a%2Fb", "a%2fb", "a%252Fb", "50%25", "%20", "a+b", "a%2Bb", "%E6%97%A5", "..",
           "%2E%2E", "a?", "a%3Fb", "a%23b", "a#b", "\xff", "a\xe9", "a b", "a\x01", "a\x7f", "%00",
           "%FF", "%", "%4", "%zz", "a%4", "~!$&'()*+,;=:@", "\"\\^`{|}<>", "deep", "deep/k",
           "deep%2Fk", "deep/k%2Fl", "de%65p/k", "k/", "k//", "/k", "", "k/windows",
           "k/changes"]  # fmt: skip
    for prefix in ("/words/", "/views/words/keys/", "/w%6Frds/", "/views/raw.bytes_1/keys/",
                   "/views/r%61w%2Ebytes_1/k%65ys/", "//words/", "/words%2F",
                   "/views%2Fwords/keys/",
                   "/WORDS/", "/other/", "/views/other/keys/", "/views/words/key/"):  # fmt: skip
        for key in odd:
            yield [prefix + key]
    numbers = ["0", "-0", "42", "-1", "+1", "007", "2147483647", "2147483648", "-2147483648",
               "-2147483649", "9007199254740993", "9223372036854775807", "9223372036854775808",
               "-9223372036854775808", "-9223372036854775809", "%34%32", "4%32", "1e3", "0x1",
               "1.0",
               "-", "", "--1", "1_0", "00000000000000000007", "000000000000000000007",
               "-00000000000000000007", "-000000000000000000007", "%D9%A3",
               "99999999999999999999"]  # fmt: skip
    for number in numbers:
        yield ["/ints/" + number]
        yield ["/longs/" + number]
    floats = ["0", "-0", "+0", "0.0", "-0.0", "1", "+1", "-1", "1.", ".5", "-.5", ".", "", "-", "+",
              "e5", "1e5", "1E+5", "1e-5", "1e", "1e+", "1.5e3", "123456.789", "5e-324", "2e-324",
              "1e-400", "1e308", "1e309", "-1e309", "1.7976931348623157e308",
              "1.7976931348623159e308", "9007199254740993", "9007199254740992.9999999999999999999",
              "0.1", "3.4028235e38", "3.4028236e38", "1e39", "1.0000000596046448", "NaN", "-NaN",
              "nan", "Infinity", "-Infinity", "+Infinity", "inf", "infinity", "0x10", "0x1p3",
              "1_0", "1,5", " 1", "1 ", "%201", "1%20", "%31", "1%2E5", "1e99999", "1e100000",
              "1e-100000", "1e000001", "0" * 63 + "1", "0" * 64 + "1", "1" * 64, "1" * 65,
              "%D9%A3", "1LL", "1i", "%22NaN%22", "%22Infinity%22", "%22-Infinity%22", "01", "-01",
              "007.5", "\xff", "%FF"]  # fmt: skip
    for text in floats:
        for view in ("floats", "avro-float", "avro-double", "avro-int", "documents"):
            yield [f"/{view}/{text}"]
    for number in numbers:
        for view in ("avro-int", "avro-long", "floats"):
            yield [f"/{view}/{number}"]
    documents = ["%22%22", "%22a%22", '"a"', '"', '""', "%22a%2Fb%22", "%22%E6%97%A5%22",
                 "%22%FF%22", "%22%C3%A9%22", "%22a%5Cnb%22", "%22%5Cu0041%22", "%22%5C%22%22",
                 "%22a%22b%22", "%20%22a%22", "%22a%22%0A", "%22a%01%22", "%22%7F%22", "%22%00%22",
                 "a", "%22a", "a%22", "null", "true", "false", "True", "tru", "%7B%22id%22:1%7D",
                 "%7B%22id%22:%201%7D", "%7B%22id%22:1,%7D", "[1,2]", "[", "%222013-12-29%22",
                 "%2212.50%22", "%22YWI%22", "1.0", "%EF%BB%BF1", "%FF", "%22%F0%9F%92%A9%22",
                 "%22%ED%A0%80%22", "%7B%22@base64url%22:%22f_gAAAAAAAE%22%7D",
                 "%7B%22@base64url%22:%22f_gAAAAAAAA%22%7D",
                 "%7B%22@base64url%22:%22gAA%22%7D",
                 "%7B%22@base64url%22:%22AgIA%22%7D"]  # fmt: skip
    for text in documents:
        for view in VIEWS:
            if view.startswith("avro-") or view in ("documents", "floats"):
                yield [f"/views/{view}/keys/{text}"]
    for size in (62, 63, 64, 8190, 8191):
        yield ["/avro-string/%22", ["k", size], "%22"]
        yield ["/documents/", ["1", size]]
        yield ["/floats/", ["0", size], "x"]
        yield ["/floats/", ["9", size]]
    id_ = "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11"
    for text in (
        id_,
        id_.upper(),
        id_.replace("-", "%2D"),
        id_.replace("-", ""),
        id_[:-1],
        "{" + id_ + "}",
    ):
        yield ["/uuids/" + text]
    bases = ["YWI", "YWI=", "YWI==", "YWI===", "=YWI", "Y=WI", "YWI%3D", "YW", "Y", "", "=", "-_-_",
             "+/+/", "%59WI", "YWJj", "AAAAKg", "AAAAAAAAACo", "_w", "Li4"]  # fmt: skip
    for path in ("/words/", "/ints/", "/longs/", "/views/raw.bytes_1/keys/", "/words/deep/",
                 "/floats/", "/documents/", "/avro-int/", "/avro-string/", "/avro-record/",
                 "/avro-decimal/"):  # fmt: skip
        for text in bases:
            yield [path + text + "?encoding=base64url"]
    queries = ["encoding=base64url", "encoding=text", "encoding=base64ur%6c",
               "encoding=base64ur%6C",
               "%65ncoding=base64url", "%65%6E%63%6F%64%69%6E%67=%62%61%73%65%36%34%75%72%6C",
               "encoding=base64ur%256c", "encoding=BASE64URL", "Encoding=base64url",
               "ENCODING=text",
               "encoding=base64url+", "encoding=+base64url", "encoding=%2Bbase64url",
               "encoding+=text",
               "encoding=base64url%20", "encoding=base64url%00", "encoding=", "encoding", "=",
               "&", "",
               "encoding=base64url&encoding=base64url", "encoding=text&encoding=base64url",
               "encoding=base64url&%65ncoding=text", "encoding=base64url&", "&encoding=base64url",
               "&&encoding=base64url&&", "stale=allow&encoding=base64url",
               "encoding=base64url&stale=allow",
               "stale=allow;encoding=base64url", "encoding=base64url;stale=allow", "x=1", "stale",
               "encoding==base64url", "encoding=base64url=", "encoding%3Dbase64url",
               "stale=allow?encoding=text",
               "encoding=base64url#x", "encoding=base64url&stale=\xff", "?encoding=base64url",
               "encoding=%",
               "encoding=base64ur%6", "%=1&encoding=base64url", "encoding=base64url&route=redirect",
               "encoding=text&stale=never",
               "stale=allow&stale=allow&encoding=base64url"]  # fmt: skip
    for query in queries:
        yield ["/words/YWI?" + query]
        yield ["/words/YWI/changes?" + query]
        yield ["/words/YWI/windows?" + query]
    for size in (8191, 8192, 8193, 30_000):
        yield ["/words/", ["k", size]]
        yield ["/words/", ["%6b", min(size, 10_000)]]
        yield ["/words/", ["=", size], "x?encoding=base64url"]
        yield ["/words/", ["=", size], "?encoding=base64url"]
        yield ["/longs/", ["0", size], "x"]
        yield ["/longs/", ["0", size], "1"]
        yield ["/longs/-", ["9", size]]
        yield ["/words/", ["/", size], "k"]
        yield ["/", ["words/", size // 6], "k"]
        yield ["/views/", ["w", size], "/keys/k"]
        yield ["/words/YWI?", ["&", size], "encoding=base64url"]
        yield ["/words/YWI?", ["%65&", size // 4], "encoding=base64url"]
        yield ["/words/YWI?encoding=", ["%62", size // 3]]
    for size in (10_922, 10_923, 10_924, 10_925):
        yield ["/views/raw.bytes_1/keys/", ["A", size], "?encoding=base64url"]
    for path in ("/", "/words", "/views", "/views/", "/views/words", "/processors", "*", "",
                 "/?/words/k",
                 "/views/words/keys", "/views/words/keys?limit=5", "/views/words/batch",
                 "/api/v1/kv/words/k",
                 "?encoding=base64url", "words/k"):  # fmt: skip
        yield [path]


def uri_of(written: list[Any]) -> bytes:
    parts = [part if isinstance(part, str) else part[0] * part[1] for part in written]
    return "".join(parts).encode("latin-1")


def _short(key: str) -> str | dict[str, Any]:
    """As in the other files: a long key is one byte, repeated."""
    times = len(key) // 2
    is_long = times > 50 and key == key[:2] * times
    return {"repeat": key[:2], "times": times} if is_long else key


def lines() -> list[str]:
    """The whole file: the document of /processors, then for each URI [written, view, key,
    partition], or [written] if every backend refuses it."""
    out = [json.dumps(PROCESSORS)]
    for written in _uris():
        try:
            of = routed(uri_of(written))
        except BadRequest:
            out.append(json.dumps([written]))
            continue
        view, key, partition = of
        out.append(json.dumps([written, view, key if key is None else _short(key), partition]))
    return out


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n")
