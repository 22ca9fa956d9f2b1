"""What a changelog's records and settings tell of its store: keys laid out as Kafka Streams does,
and placed as the vectors of Java and librdkafka say."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from model.formats.codecs import KEY_CODECS
from model.times import parse_duration
from model.views import View
from model.views_file import parse_views
from queryable.console.adopted import entry, nobody
from queryable.console.changelog_checks import changelog, forgotten
from queryable.console.forgotten import lost
from queryable.console.guessed_formats import format_of
from queryable.console.guessed_inner import not_served
from queryable.console.guessed_partitioner import partitioner_of
from queryable.console.guessed_same_key import in_several
from queryable.console.guesses import Guess, Looked, Sampled, Sure
from queryable.console.guessing import DAY, duration, guess, store_of
from queryable.console.topic_checks import cleanup, placed

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
    # what a supplier says is not in the topic: too short a guess would hide what is there
    assert (found["retention"].value, found["retention"].sure) == (None, Sure.GUESS)
    assert "is 3h, and too short where a supplier" in found["retention"].why
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


def sliding(difference: int, count: int = 200) -> list[Sampled]:
    """As a real application's: each record ends a window, and is within those that others begin."""
    dice = Random(7)
    times = sorted(NOW + dice.randrange(30 * difference) for _ in range(count))
    found = []
    for number, time in enumerate(times):
        found.append(sampled(b"a" + struct.pack(">qi", time - difference, 0), time))
        for before in times[max(0, number - 5) : number]:
            if before + 1 + difference >= time:
                found.append(sampled(b"a" + struct.pack(">qi", before + 1, 0), time))
    return found


@pytest.mark.parametrize("difference", [3 * MINUTE, 1500, HOUR])
def test_sliding_windows_are_as_long_as_their_difference(difference: int) -> None:
    found = guess(1, BOTH, sliding(difference))["window_size"]
    assert (found.value, found.sure) == (duration(difference), Sure.LIKELY)


def test_windows_of_less_than_a_second() -> None:
    found = guess(1, BOTH, windows(500, 500, [b"a"], 1000))["window_size"]
    assert found.value == "500ms"


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


def test_floats_are_not_taken_for_integers() -> None:
    found = format_of([struct.pack(">f", n / 2) for n in range(20)], is_key=False)
    assert (found.value, found.sure) == ("bytes", Sure.GUESS)
    assert "Serdes.Float" in found.why
    dice = Random(7)
    hashes = [struct.pack(">i", dice.randrange(-(1 << 31), 1 << 31)) for _ in range(20)]
    assert format_of(hashes, is_key=False).sure is Sure.GUESS


def spread(key: bytes, partition: int, value: bytes | None = b"1") -> Sampled:
    return Sampled(partition, NOW, key, value, {})


def test_a_key_in_several_partitions_is_said_to_be_partial() -> None:
    records = [spread(b"key %d" % n, p) for n in range(9) for p in range(3)]
    text = entry("s", "app-s-changelog", 3, COMPACT, records, nobody)
    [view] = parse_views(text).views
    assert (view.partitioner, view.same_key) == ("none", "partial")
    assert "ambiguous-key" in text
    # one that was deleted there is in one partition alone
    once = [*(spread(b"a", p) for p in range(3)), spread(b"a", 0, None), spread(b"a", 1, None)]
    assert "same_key" not in entry("s", "app-s-changelog", 3, COMPACT, once, nobody)


def at(key: bytes, *times: int, form: str) -> bytes:
    return key + struct.pack(form, *times)


def test_windows_count_one_by_one_and_sessions_by_their_key() -> None:
    apart = [spread(at(b"a", NOW + n, 0, form=">qi"), n) for n in range(3)]
    assert in_several("window", apart) is None
    assert in_several("window", [*apart, spread(at(b"a", NOW, 0, form=">qi"), 1)]) is not None
    sessions = [spread(at(b"a", NOW + n, NOW, form=">qq"), n) for n in range(2)]
    found = in_several("session", sessions)
    assert found is not None
    assert (found.keys, found.key, found.partitions) == (1, b"a", [0, 1])


def looked(newest: Sequence[int], spans: list[tuple[int, int]]) -> Looked:
    records = [Sampled(n, time, b"a", b"1", {}) for n, time in enumerate(newest)]
    return Looked(records, spans)


def test_what_the_broker_deletes_and_the_store_keeps() -> None:
    kept = looked([NOW, NOW - HOUR], [(5, 9), (0, 2)])
    assert lost(BOTH, kept, 2 * HOUR, NOW + HOUR) is None
    # event time is long ago: what is there is deleted soon, some of it is gone
    found = lost(BOTH, looked([NOW, NOW - 3 * DAY], [(0, 9), (5, 9)]), 2 * HOUR, NOW)
    assert found is not None
    assert "partition 1 is 3d old" in found.says
    assert "has deleted 5 records" in found.says
    assert not found.everything
    # with the store's retention unknown, a day less than the topic's
    assert lost(BOTH, kept, None, NOW + 20 * HOUR) is None
    assert lost(BOTH, kept, None, NOW + 25 * HOUR) is not None
    # one partition is empty, and was not
    found = lost(BOTH, looked([NOW], [(0, 1), (7, 7), (0, 0)]), None, NOW)
    assert found is not None
    assert (found.empty, found.everything) == ([1], False)
    for config in (COMPACT, {**BOTH, "retention.ms": "-1"}):
        assert lost(config, looked([], [(7, 7)]), None, NOW) is None


def test_a_versioned_history_that_compaction_cuts() -> None:
    versioned = {**COMPACT, "min.compaction.lag.ms": str(2 * HOUR + DAY)}
    there = looked([NOW], [(0, 9)])
    assert lost(versioned, there, 2 * HOUR, NOW + 23 * HOUR) is None
    found = lost(versioned, there, 2 * HOUR, NOW + 25 * HOUR)
    assert found is not None
    assert "compacts" in found.says


def test_of_a_changelog_that_was_emptied_nothing_is_proposed() -> None:
    gone = lost(BOTH, looked([], [(7, 7), (0, 0)]), None, NOW)
    text = entry("s", "app-s-changelog", 2, BOTH, [], nobody, gone)
    assert text.startswith("# app-s-changelog: not proposed, the broker has deleted all 7 records")
    assert "[views" not in text


SUBSCRIPTION = (
    b"\0\0\0\5town3person17",
    b"\1\3\xab\x7f\xa3AI\xbdq\xa6\x10\xcd\x99\rJ\xaf+>person17\0\0\0\1",
)
SHARED = (b"\0\0\1\xa2\0A\x98\xca\1key-15", b"\1\0\0\0\1\0\0\0\3\1v0")


@pytest.mark.parametrize("pair", [SUBSCRIPTION, SHARED], ids=["foreign-key", "shared"])
def test_inner_stores_with_names_of_the_user_are_known_by_their_records(
    pair: tuple[bytes, bytes],
) -> None:
    """Records of a real application (Kafka Streams 4.1)."""
    records = [sampled(pair[0], value=pair[1]), Sampled(0, NOW, pair[0], None, {})]
    assert "an inner format" in not_served("mine", records)
    other = sampled(b"a", value=b"x")
    assert not_served("mine", [*records, other]) == ""
    assert not_served("mine", []) == ""


@pytest.mark.parametrize("value", [(17).to_bytes(8, "big"), b"\0\1", b"\0\0\0\0\5" + bytes(13)])
def test_a_store_of_numbers_is_no_inner_store(value: bytes) -> None:
    """`Serdes.Long()` keys, with counts, flags or short framed values."""
    records = [sampled((n + 1).to_bytes(8, "big"), value=value) for n in range(20)]
    assert not_served("totals", records) == ""


def changelog_check(view: View, config: dict[str, str], records: list[Sampled]) -> str:
    found = changelog(view, config, Looked(records, [(0, len(records))]))
    return "\n".join(each.line() for each in found)


def test_check_tells_the_kind_of_a_changelogs_store() -> None:
    [window, totals] = parse_views(
        '[views.w]\ntopic = "app-w-changelog"\nkey = "string"\nvalue = "string"\n'
        'store = "window"\n'
        '[views.t]\ntopic = "app-t-changelog"\nkey = "string"\nvalue = "string"\n'
    ).views
    assert 'set store = "session"' in changelog_check(window, BOTH, sessions([b"a"]))
    assert changelog_check(window, BOTH, windows(HOUR, HOUR, [b"a"])) == ""
    assert "inner format" in changelog_check(
        totals, COMPACT, [sampled(SUBSCRIPTION[0], value=SUBSCRIPTION[1])]
    )
    several = [spread(b"a", n) for n in range(2)]
    assert "ambiguous-key" in changelog_check(totals, COMPACT, several)
    [finding] = list(forgotten(window, BOTH, looked([], [(7, 7)]), NOW))
    assert finding.status == "wrong"
    [finding] = list(forgotten(window, BOTH, looked([NOW], [(0, 7)]), NOW + 9 * DAY))
    assert finding.status == "warning"


def test_check_does_not_advise_producers_of_changelogs() -> None:
    [view] = parse_views(
        '[views.t]\ntopic = "app-t-changelog"\nkey = "string"\nvalue = "string"\n'
    ).views
    placed_elsewhere = [(1, b"key %d" % n) for n in range(30)]
    finding = placed(view, 3, placed_elsewhere)
    assert finding.status == "wrong"
    assert "producers" not in finding.do
    assert 'partitioner = "none"' in finding.do
    assert "producers" in placed(replace(view, topic="orders"), 3, placed_elsewhere).do
    # nor is a topic's retention the store's
    said = cleanup(view, BOTH)
    assert "application's code" in said.do
    assert "26h" not in said.do


@pytest.mark.parametrize(
    ("store", "headers"),
    [
        ("KSTREAM-OUTERSHARED-0000000004-store", {}),
        ("both-outer-shared-join-store", {}),
        ("seen-left-shared-join-store", {}),
        ("suppressed-store", {"v": b"\3"}),
        ("suppressed-long-ago-store", {"v": b"\1"}),
    ],
)
def test_inner_formats_are_not_served(store: str, headers: dict[str, bytes]) -> None:
    records = [Sampled(0, NOW, b"a", b"x", headers)]
    text = entry(store, f"app-{store}-changelog", 1, COMPACT, records, nobody)
    assert text.startswith(f"# app-{store}-changelog: not served")
    assert "[views" not in text
