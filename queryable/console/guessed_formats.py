"""Which format (docs/reference.md) a topic's keys or values have."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence

from model.formats.codecs import KEY_CODECS
from queryable.console.guesses import Guess, Sure

_FRAME = 5  # Confluent's: a zero byte, the schema's id
_EXACT = 1 << 53
_SMALL = 1 << 24
_MOST_SCHEMAS = 1 << 24


def format_of(samples: Sequence[bytes], is_key: bool) -> Guess:
    """The likeliest format that fits all samples. Several may: four letters are an int32, too."""
    if not samples:
        return Guess("bytes", Sure.GUESS, "there was none to tell")
    for fits in (_uuid, _document, _text, _framed, _number):
        if (found := fits(samples)) is not None:
            return found
    if not any(samples) and not is_key:
        return Guess("none", Sure.GUESS, "all are empty")
    return Guess("bytes", Sure.LIKELY, f"neither text nor numbers: {samples[0][:20]!r}…")


def _all(samples: Sequence[bytes], of: Callable[[bytes], object]) -> bool:
    try:
        for sample in samples:
            of(sample)
    except ValueError:
        return False
    return True


def _uuid(samples: Sequence[bytes]) -> Guess | None:
    if not _all(samples, KEY_CODECS["uuid"].check):
        return None
    return Guess("uuid", Sure.SURE, "all are UUIDs' 36 characters")


def _document(samples: Sequence[bytes]) -> Guess | None:
    """Objects, arrays and quoted texts; numbers alone are as well text."""
    if not _all(samples, json.loads) or not any(s.lstrip()[:1] in b'{["' for s in samples):
        return None
    return Guess("json", Sure.SURE, "all are JSON")


def _text(samples: Sequence[bytes]) -> Guess | None:
    if not any(samples) or not _all(samples, bytes.decode):
        return None
    texts = [sample.decode() for sample in samples]
    odd = sum(not text.isprintable() for text in texts)
    sizes = {len(sample) for sample in samples}
    if sizes in ({4}, {8}) and odd:
        return None
    if odd * 2 > len(texts):
        return None
    if _all(samples, json.loads):
        return Guess("string", Sure.GUESS, "all are numbers as text: string, or json")
    telling = len(set(samples)) >= 20 and len(sizes) > 2
    sure = Sure.SURE if telling or not (odd or sizes in ({4}, {8})) else Sure.LIKELY
    return Guess("string", sure, "all are text")


def _framed(samples: Sequence[bytes]) -> Guess | None:
    """As Confluent's serializers do: a zero byte, the schema's id, then what is seldom seen."""
    if not all(len(sample) > _FRAME and sample[0] == 0 for sample in samples):
        return None
    ids = {int.from_bytes(sample[1:_FRAME], "big") for sample in samples}
    same_size = {len(sample) for sample in samples} == {8}
    if 0 in ids or max(ids) > _MOST_SCHEMAS or same_size or len(ids) > 1 + len(samples) // 10:
        return None
    if all(sample[_FRAME : _FRAME + 1] == b"{" for sample in samples):
        return Guess("bytes", Sure.GUESS, "JSON behind the frame of Confluent's serializers")
    shown = ", ".join(map(str, sorted(ids)))
    return Guess("avro", Sure.LIKELY, f"framed as Confluent's serializers do, schema {shown}")


def _number(samples: Sequence[bytes]) -> Guess | None:
    sizes = {len(sample) for sample in samples}
    if sizes == {4}:
        return _four_bytes(samples)
    if sizes != {8}:
        return None
    integers = sum(abs(int.from_bytes(s, "big", signed=True)) < _EXACT for s in samples)
    floats = sum(_is_usual(struct.unpack(">d", s)[0]) for s in samples)
    if integers == len(samples):
        # all zeros are as well floating-point numbers
        sure = Sure.SURE if any(any(sample) for sample in samples) else Sure.LIKELY
        return Guess("int64", sure, "all are whole numbers of 8 bytes")
    if floats == len(samples):
        return Guess("float64", Sure.LIKELY, "all are usual floating-point numbers")
    name = "int64" if integers >= floats else "float64"
    return Guess(name, Sure.GUESS, "all have 8 bytes: int64, float64, or bytes")


def _four_bytes(samples: Sequence[bytes]) -> Guess:
    """Small integers are no usual floating-point numbers, nor the other way round."""
    if all(abs(int.from_bytes(s, "big", signed=True)) < _SMALL for s in samples):
        return Guess("int32", Sure.LIKELY, "all have 4 bytes, as whole numbers")
    if all(_is_usual(struct.unpack(">f", s)[0]) for s in samples):
        return Guess(
            "bytes", Sure.GUESS,
            "all have 4 bytes: Serdes.Float, which no format reads, so bytes; or Serdes.Integer: "
            "int32",
        )  # fmt: skip
    return Guess("int32", Sure.GUESS, "all have 4 bytes: int32, or bytes of another serde")


def _is_usual(number: float) -> bool:
    return number == 0 or 1e-9 < abs(number) < 1e15
