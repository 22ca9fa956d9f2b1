"""The most expensive requests that we know, of the largest size that nginx accepts."""

from __future__ import annotations

from collections.abc import Iterator

LARGEST_LINE = 32 * 1024
"""Bytes of a request line; nginx rejects longer ones with 414 (large_client_header_buffers)."""

# "GET ", " HTTP/1.1" and the line break
LARGEST_URI = LARGEST_LINE - 15

ENCODED = b"?encoding=base64url"


def _filled(before: bytes, unit: bytes, after: bytes = b"") -> bytes:
    """`before`, `unit` as often as it fits, and `after`."""
    return before + unit * ((LARGEST_URI - len(before) - len(after)) // len(unit)) + after


def uris() -> Iterator[tuple[str, bytes]]:
    """Pairs of a name and a URI, for the views of `tests.system.proxy.backends`, and `texts`, whose
    keys are stored as they are."""
    for path in (b"/words/", b"/texts/", b"/views/crc/keys/"):
        yield f"{path!r} padding before a letter", _filled(path, b"=", b"x" + ENCODED)
        yield f"{path!r} padding alone", _filled(path, b"=", ENCODED)
        yield f"{path!r} escaped padding", _filled(path, b"%3D", b"x" + ENCODED)
        yield f"{path!r} base64url", _filled(path, b"A", ENCODED)
        yield f"{path!r} escaped base64url", _filled(path, b"%41", ENCODED)
        yield f"{path!r} letters", _filled(path, b"k")
        yield f"{path!r} escapes", _filled(path, b"%6b")
        yield f"{path!r} escaped slashes", _filled(path, b"%2F")
        yield f"{path!r} escaped per cent signs", _filled(path, b"%25")
        yield f"{path!r} slashes", _filled(path, b"/")
        yield f"{path!r} dots", _filled(path, b"a/../", b"k")
        yield f"{path!r} raw bytes", _filled(path, b"\xff")
        yield f"{path!r} plus signs", _filled(path, b"+")
        yield f"{path!r} hashes", _filled(path, b"#")
    for before, after in ((b"", b""), (b"", b"x"), (b"-", b""), (b"-", b"-"), (b"", b"1x")):
        for digit in (b"0", b"9"):
            yield f"{before!r} {digit!r} {after!r}", _filled(b"/longs/" + before, digit, after)
    for before, after in ((b"", b"x"), (b"", b"."), (b"1e", b""), (b"-.", b"-")):
        for view in (b"/floats/", b"/avro/", b"/documents/"):
            yield f"{view!r} {before!r} digits {after!r}", _filled(view + before, b"0", after)
    yield "hexadecimal digits", _filled(b"/uuids/", b"a-")
    yield "slashes alone", _filled(b"", b"/")
    yield "a long first part", _filled(b"/", b"%61", b"/k")
    yield "a long name of a view", _filled(b"/views/", b"%61", b"/keys/k")
    yield "a long third part", _filled(b"/views/words/", b"%61", b"/k")
    yield "nearly a batch", _filled(b"/views/", b"a", b"/batcH")
    yield "a batch", _filled(b"/views/", b"a", b"/batch")
    yield "parts that are nearly batches", _filled(b"/views/", b"/batch", b"x")
    for unit in (
        b"&", b"=", b"e&", b"%65&", b"encoding&", b"encoding=&", b"encoding=base64url&", b"%", b";",
        b"e%6ecoding=base64ur%6c&", b"xencoding=base64url&", b"?", b"+", b"encodin&", b"a=1&",
    ):  # fmt: skip
        yield f"parameters {unit!r}", _filled(b"/words/AAAA?", unit)
        yield (
            f"parameters {unit!r} before the encoding",
            _filled(b"/words/AAAA?", unit, b"&" + ENCODED[1:]),
        )
    yield "a long encoding", _filled(b"/words/AAAA?encoding=", b"%62")
    yield "a long name of a parameter", _filled(b"/words/AAAA?", b"%65", b"=base64url")
    yield "an escaped path", _filled(b"/%77%6f%72%64%73/", b"%6b")


def headers() -> Iterator[tuple[str, bytes]]:
    """Pairs of a name and header lines."""
    large = LARGEST_LINE - 200
    yield "a long cookie", b"Cookie: " + b"c" * large + b"\r\n"
    yield (
        "seven long headers",
        b"".join(b"X-%d: %b\r\n" % (number, b" x" * (large // 2)) for number in range(7)),
    )
    yield "a long accept", b"Accept: " + b"text/plain," * (large // 11) + b"\r\n"
    yield "many accepts", b"Accept: */*\r\n" * 9000
    yield "many headers", b"".join(b"x-%d: y\r\n" % number for number in range(18_000))
    yield "a long condition", b'If-None-Match: "' + b"e" * large + b'"\r\n'
    yield "a long Accept of many", b"Accept: */*\r\n" + b"x:y\r\n" * 40_000
