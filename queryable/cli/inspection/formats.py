"""Infers the format (docs/reference/formats.md) of keys or values. No I/O."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence

from model.formats.frames import FRAME, other_frame
from model.formats.registry import KEY_CODECS
from model.formats.schemas import CONFLUENT
from queryable.cli.inspection.inference import Confidence, Inference

# 8 or 4 bytes with a greater number are more likely something else
_PLAUSIBLE_INT64 = 1 << 53
_PLAUSIBLE_INT32 = 1 << 24
_MAX_SCHEMA_ID = 1 << 24
# the chance that this many integers of 8 bytes end like a varint is 2^-60
_ENOUGH_ENDS = 20


def infer_format(samples: Sequence[bytes], is_key: bool) -> Inference:
    """The most likely of the formats that fit all samples; several may fit."""
    if not samples:
        return Inference("bytes", Confidence.GUESS, "the sample has none")
    for infer in (_uuid, _document, _text, _other_frame, _framed, _number):
        if (inference := infer(samples)) is not None:
            return inference
    if not any(samples) and not is_key:
        return Inference("none", Confidence.GUESS, "all are empty")
    return Inference("bytes", Confidence.LIKELY, f"neither text nor numbers: {samples[0][:20]!r}…")


def _all_valid(samples: Sequence[bytes], parse: Callable[[bytes], object]) -> bool:
    try:
        for sample in samples:
            parse(sample)
    except ValueError:
        return False
    return True


def _uuid(samples: Sequence[bytes]) -> Inference | None:
    if not _all_valid(samples, KEY_CODECS["uuid"].check):
        return None
    return Inference("uuid", Confidence.CERTAIN, "all are UUIDs of 36 characters")


def _document(samples: Sequence[bytes]) -> Inference | None:
    """Objects, arrays and quoted texts; numbers alone could be text."""
    return Inference("json", Confidence.CERTAIN, "all are JSON") if _is_json(samples) else None


def _is_json(samples: Sequence[bytes]) -> bool:
    if not _all_valid(samples, KEY_CODECS["json"].check):
        return False
    return any(sample.lstrip()[:1] in (b"{", b"[", b'"') for sample in samples)


def _other_frame(samples: Sequence[bytes]) -> Inference | None:
    """A frame that is not read: the format is unknown."""
    [(frame, count)] = Counter(map(other_frame, samples)).most_common(1)
    if frame is None or not _are_most(count, samples) or _sizes(samples) == {8}:
        return None
    some = "all" if count == len(samples) else f"{count} of {len(samples)}"
    return Inference(None, Confidence.GUESS, f"{some} have {frame}")


def _text(samples: Sequence[bytes]) -> Inference | None:
    if not any(samples) or not _all_valid(samples, bytes.decode):
        return None
    texts = [sample.decode() for sample in samples]
    unprintable = sum(not text.isprintable() for text in texts)
    sizes = _sizes(samples)
    if sizes in ({4}, {8}) and unprintable:
        return None
    if unprintable * 2 > len(texts):
        return None
    if _all_valid(samples, KEY_CODECS["json"].check):
        return Inference("string", Confidence.GUESS, "all are numbers as text: string or json")
    is_varied = len(set(samples)) >= 20 and len(sizes) > 2
    confidence = (
        Confidence.CERTAIN
        if is_varied or not (unprintable or sizes in ({4}, {8}))
        else Confidence.LIKELY
    )
    return Inference("string", confidence, "all are text")


def _framed(samples: Sequence[bytes]) -> Inference | None:
    """The frame of Confluent's serializers, in which the schema says what the format is."""
    framed = [raw for raw in samples if len(raw) > FRAME and raw[0] == 0]
    ids = _schema_ids(framed)
    if not ids or not _are_most(len(framed), samples):
        return None
    schemas = f"schema {', '.join(map(str, sorted(ids)))}"
    if _is_json([raw[FRAME:] for raw in framed]):
        are_all = len(framed) == len(samples)
        confidence = Confidence.CERTAIN if are_all else Confidence.LIKELY
        reason = f"JSON with the frame of Confluent's serializers, {schemas}"
        return Inference("json", confidence, reason, CONFLUENT)
    reason = f"framed by Confluent's serializers, {schemas}"
    are_likely = all(_ends_in_varint(raw) or _ends_in_field(raw) for raw in framed)
    are_many = len(set(framed)) >= _ENOUGH_ENDS
    if _sizes(samples) != {8} or (are_likely and are_many):
        return Inference(None, Confidence.LIKELY, reason, CONFLUENT, ids)
    if not are_likely and are_many and len({raw[FRAME] for raw in framed}) > 1:
        return None
    return Inference(
        "int64", Confidence.GUESS, f"all are integers of 8 bytes, or {reason}", schema_ids=ids
    )


def _are_most(count: int, samples: Sequence[bytes]) -> bool:
    """Whether so many of the samples have a frame that the others are mistakes of producers."""
    return count * 10 >= len(samples) * 9


def _sizes(samples: Sequence[bytes]) -> set[int]:
    return {len(raw) for raw in samples}


def _schema_ids(framed: Sequence[bytes]) -> tuple[int, ...]:
    """The ids after the zero byte, the most frequent one first; empty if they are not few, or not
    those of schemas."""
    ids = Counter(int.from_bytes(raw[1:FRAME], "big") for raw in framed)
    if not ids or 0 in ids or max(ids) > _MAX_SCHEMA_ID or len(ids) > 1 + len(framed) // 10:
        return ()
    return tuple(schema_id for schema_id, _ in ids.most_common())


def _ends_in_varint(raw: bytes) -> bool:
    """Whether the last 3 of 8 bytes are one varint, as those of Avro's whole numbers from 8,192 to
    1,048,575. Of integers of 8 bytes, one in eight ends so."""
    return [byte >> 7 for byte in raw[FRAME:]] == [1, 1, 0]


def _ends_in_field(raw: bytes) -> bool:
    """Whether the last 3 of 8 bytes may be a message of Protobuf with one small number."""
    return raw[FRAME : FRAME + 2] == b"\0\x08"


def _number(samples: Sequence[bytes]) -> Inference | None:
    sizes = _sizes(samples)
    if sizes == {4}:
        return _four_bytes(samples)
    if sizes != {8}:
        return None
    integers = sum(abs(int.from_bytes(s, "big", signed=True)) < _PLAUSIBLE_INT64 for s in samples)
    floats = sum(_is_plausible(struct.unpack(">d", s)[0]) for s in samples)
    if integers == len(samples):
        # zeros could be floating-point numbers
        confidence = (
            Confidence.CERTAIN if any(any(sample) for sample in samples) else Confidence.LIKELY
        )
        return Inference("int64", confidence, "all are integers of 8 bytes")
    if floats == len(samples):
        return Inference("float64", Confidence.LIKELY, "all are plausible floating-point numbers")
    name = "int64" if integers >= floats else "float64"
    return Inference(name, Confidence.GUESS, "all have 8 bytes: int64, float64 or bytes")


def _four_bytes(samples: Sequence[bytes]) -> Inference:
    """Small integers are not plausible as floating-point numbers, nor the reverse."""
    if all(abs(int.from_bytes(s, "big", signed=True)) < _PLAUSIBLE_INT32 for s in samples):
        return Inference("int32", Confidence.LIKELY, "all are integers of 4 bytes")
    if all(_is_plausible(struct.unpack(">f", s)[0]) for s in samples):
        return Inference(
            "bytes", Confidence.GUESS,
            "all have 4 bytes: bytes if of Serdes.Float, which has no format here; int32 if of "
            "Serdes.Integer",
        )  # fmt: skip
    return Inference(
        "int32", Confidence.GUESS, "all have 4 bytes: int32, or bytes of another serde"
    )


def _is_plausible(number: float) -> bool:
    return number == 0 or 1e-9 < abs(number) < 1e15
