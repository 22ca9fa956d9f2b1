"""What a changelog's records and settings tell of its store: keys laid out as Kafka Streams does,
and placed as the vectors of Java and librdkafka say."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random

import pytest

from backend.core.codecs import KEY_CODECS
from backend.core.times import parse_duration
from backend.core.views_toml import parse_views
from queryable.console.adopted import entry, nobody
from queryable.console.guessed_formats import format_of
from queryable.console.guessed_partitioner import partitioner_of
from queryable.console.guesses import Guess, Sampled, Sure
from queryable.console.guessing import DAY, duration, guess, store_of

VECTORS = Path(__file__).parents[2] / "vectors"
NOW = 1_700_000_000_000
HOUR, MINUTE = 3_600_000, 60_000
KEYS = ["a", "N14228", "", "ä", "日本語", "a\0b", "key 17", "an altogether longer key"]
COMPACT = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}
BOTH = {"cleanup.policy": "compact,delete", "retention.ms": str(2 * HOUR + DAY)}


def sampled(key: bytes, timestamp: int = NOW, value: bytes = b"x") -> Sampled:
    return Sampled(0, timestamp, key, value, {})


def windows(size: int, advance: int, keys: list[bytes], count: int = 200) -> list[Sampled]:
    dice = Random(7)
    found = []
    for _ in range(count):
        time = NOW + dice.randrange(30 * size)
        key = dice.choice(keys)
        for start in range(time // advance * advance, time - size, -advance):
            found.append(sampled(key + struct.pack(">qi", start, 0), time))
    return found


def sessions(keys: list[bytes]) -> list[Sampled]:
    dice = Random(7)
    spans = [(NOW + dice.randrange(HOUR), dice.randrange(HOUR)) for _ in range(200)]
    return [
        sampled(dice.choice(keys) + struct.pack(">qq", start + long, start), start + long)
        for start, long in spans
    ]


# what a windowed key of one kind may be taken for depends on the bytes that its key ends with
BARE = {
    "text": [key.encode() for key in KEYS],
    "int32": [struct.pack(">i", n) for n in (-1, 0, 5, 1 << 30)],
    "int64": [struct.pack(">q", n) for n in (-1, 0, 5, NOW)],
}


@pytest.mark.parametrize("keys", BARE.values(), ids=BARE)
def test_windows_and_sessions_are_told_apart(keys: list[bytes]) -> None:
    assert store_of(BOTH, windows(HOUR, HOUR, keys)) == Guess(
        "window", Sure.SURE, "200 of 200 keys end as those of a window store"
    )
    found = store_of(BOTH, sessions(keys))
    assert (found.value, found.sure) == ("session", Sure.SURE)


def test_the_settings_of_the_topic_tell_the_other_stores() -> None:
    plain = [sampled(key.encode()) for key in KEYS]
    assert store_of(COMPACT, plain).value == "key-value"
    versioned = {**COMPACT, "min.compaction.lag.ms": str(2 * HOUR + DAY)}
    assert store_of(versioned, plain).value == "versioned"
    assert guess(1, versioned, plain)["retention"].value == "2h"
    duplicates = {"cleanup.policy": "delete", "retention.ms": str(3 * HOUR + DAY)}
    points = [sampled(k.encode() + struct.pack(">qi", NOW, n)) for n, k in enumerate(KEYS)]
    found = guess(1, duplicates, points)
    assert (found["store"].value, found["window_size"].value) == ("window", None)
    assert found["retention"].value == "3h"
    assert "retention" not in guess(1, COMPACT, plain)


def test_nothing_is_sure_of_an_empty_topic() -> None:
    for config in (COMPACT, BOTH):
        found = guess(3, config, [])
        unsure = {name for name, each in found.items() if each.sure is not Sure.SURE}
        assert {"key", "value", "partitioner"} <= unsure
    assert found["store"].sure is Sure.GUESS


@pytest.mark.parametrize(
    ("size", "advance", "expected"),
    [(10 * MINUTE, 10 * MINUTE, "10m"), (30 * MINUTE, 10 * MINUTE, "30m"), (DAY, HOUR, "1d")],
)
def test_sizes_of_windows(size: int, advance: int, expected: str) -> None:
    found = guess(1, BOTH, windows(size, advance, [b"a"], 1000))["window_size"]
    assert (found.value, found.sure) == (expected, Sure.LIKELY)


def test_points_in_time_have_no_size() -> None:
    points = [sampled(b"k" + struct.pack(">qi", NOW + n, 0), NOW + n) for n in range(30)]
    assert guess(1, BOTH, points)["window_size"].value is None


def numbers(kind: str) -> list[bytes]:
    """As Java's serializers write them."""
    texts = [b"%d" % n for n in range(-10, 30)]
    return [KEY_CODECS[kind].from_text(text) for text in texts]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([text.encode() for text in KEYS] * 3, "string"),
        ([b"LEBL", b"KJFK", b"EDDF"], "string"),
        ([f"{n:08}-0000-4000-8000-0123456789aB".encode() for n in range(20)], "uuid"),
        ([b'{"n": %d}' % n for n in range(20)], "json"),
        ([b'"a"', b"[]", b"1"], "json"),
        ([b"17", b"4"], "string"),
        (numbers("int32"), "int32"),
        (numbers("int64"), "int64"),
        (numbers("float64"), "float64"),
        ([struct.pack(">d", n / 7) for n in range(20)], "float64"),
        ([b"\0\0\0\0\7\x06abc", b"\0\0\0\0\7\x08abcd"], "avro"),
        ([b'\0\0\0\0\7{"a":1}'], "bytes"),
        ([b"\xff\xfe\0", b"\x80"], "bytes"),
        ([], "bytes"),
    ],
)
def test_formats(samples: list[bytes], expected: str) -> None:
    assert format_of(samples, is_key=False).value == expected


@pytest.mark.parametrize("name", ["murmur2", "crc32", "fnv1a"])
@pytest.mark.parametrize("column", [1, 2, 3])
def test_partitioners_of_the_clients_themselves(name: str, column: int) -> None:
    lines = (VECTORS / f"{name}.jsonl").read_text().splitlines()
    partitions = json.loads(lines[0])["partitions"][column]
    placed = [
        (of[column], bytes.fromhex(key))
        for key, of in map(json.loads, lines[2:])
        if isinstance(key, str)
    ]
    assert partitioner_of(placed[:200], partitions).value == name
    assert partitioner_of(placed[:200], partitions).sure is Sure.SURE
    # librdkafka's default puts an empty key anywhere
    assert partitioner_of([*placed[:200], (0, b""), (1, b"")], partitions).value == name
    moved = [((placed[0][0] + 1) % partitions, placed[0][1]), *placed[1:200]]
    assert partitioner_of(moved, partitions).value == "none"
    assert partitioner_of(placed[:3], partitions).sure is Sure.GUESS


def test_durations_are_those_of_the_file() -> None:
    for ms in (1, 999, 1000, 90_000, HOUR, 36 * HOUR, DAY):
        assert parse_duration(duration(ms)) == ms
    # a file's durations have nine digits at most: what has more is rounded up
    assert parse_duration(duration(1_234_567_891)) == 1_234_568_000


FRAMED = [Sampled(n % 3, NOW, b"k%d" % n, b"\0\0\0\0\7\x06abc", {}) for n in range(50)]


@pytest.mark.parametrize(
    ("store", "config", "records"),
    [
        ("a.b", BOTH, windows(HOUR, HOUR, [b"a"])),
        ("visits", BOTH, sessions([b"a"])),
        ("odd", {**BOTH, "retention.ms": str(DAY + 1_234_567_891)}, sessions([b"a"])),
        ("for-ever", {**BOTH, "retention.ms": str(2**63 - 1)}, sessions([b"a"])),
        ("framed", COMPACT, FRAMED),
        ("empty", BOTH, []),
        ("versions", {**COMPACT, "min.compaction.lag.ms": str(DAY + 1)}, [sampled(b"a")]),
    ],
)
def test_an_entry_is_one_of_views_toml(
    store: str, config: dict[str, str], records: list[Sampled]
) -> None:
    text = entry(store, f"app-{store}-changelog", 3, config, records, nobody)
    [view] = parse_views(text).views
    assert (view.name, view.topic) == (store, f"app-{store}-changelog")
    # what could not be known is marked, on the line or in its place
    assert "TODO?" in text


def test_what_a_person_says_is_taken() -> None:
    said = {"store": "session", "key": "int64", "value": "bytes", "retention": "5m"}
    asked = []

    def ask(topic: str, field: str, guessed: Guess) -> str:
        asked.append(field)
        return said.get(field, guessed.value or "-")

    text = entry("s", "app-s-changelog", 3, BOTH, [], ask)
    [view] = parse_views(text).views
    assert asked == ["store", "key", "value", "retention", "partitioner"]
    assert (view.store, view.key, view.value) == ("session", "int64", "bytes")
    assert view.retention == 5 * MINUTE
    assert "TODO?" not in text


@pytest.mark.parametrize(
    ("store", "headers"),
    [
        ("KSTREAM-OUTERSHARED-0000000004-store", {}),
        ("both-outer-shared-join-store", {}),
        ("suppressed-store", {"v": b"\3"}),
    ],
)
def test_inner_formats_are_not_served(store: str, headers: dict[str, bytes]) -> None:
    records = [Sampled(0, NOW, b"a", b"x", headers)]
    text = entry(store, f"app-{store}-changelog", 1, COMPACT, records, nobody)
    assert text.startswith(f"# app-{store}-changelog: not served")
    assert "[views" not in text
