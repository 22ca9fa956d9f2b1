"""Framing of coalesced point reads, which the proxy or an instance sends to an instance.

A request has a digest of each token in the first line, if its reads have tokens. Then
come groups of reads, which read keys of one partition each, and the keys of all groups.

    tokens DIGESTS
    lengths LENGTHS
    partition VIEW FORMAT PARTITIONER PARTITIONS PARTITION COUNT NUMBERS
        one line for each group; after an empty line,
        the keys, with nothing between them: 0x01 and the record key

DIGESTS are the SHA-256 digests of the tokens, in lower-case hex: a token itself is only sent with a
read that is sent separately. COUNT is the number of keys of the group. NUMBERS has the number of
each read's token, or one number if all reads of the group have the same token. The first token has
number 1; 0 means no token. LENGTHS has the length of each key (bytes), or one length if all keys of
the request have the same. DIGESTS, NUMBERS and LENGTHS are separated by commas.

The sender has encoded the keys in FORMAT, the format of the view's keys, and has computed the
partition from the number of partitions that it sends. With its first byte, a key is the stored key
in most views.

A response has numbers (4 B, little-endian), then bytes:

    "QTR2"
    number of groups, 0, length of the epoch
    per group: lengths of its fixed lines, its state lines and its miss
    per key: length of its entry, or ABSENT, or ALONE
    the epoch; the fixed lines, state lines and miss of each group; the entries of the keys

Keys are in the order of the request. ALONE: the sender must ask for that key separately. An entry
is 8 B as they are stored, the offset of its record (8 B, big-endian), and JSON. If keys are text,
this is the value, which is sent as it is stored, and the sender writes the document:
`{"key":…,"value":…}`. Keys of other formats need a decoder, so their entries have the document.

Lines are `name: value`, each ended by a line feed, in the order in which they are sent. The fixed
lines of a group rarely change, so that the proxy can keep them parsed: those of all its answers, an
empty line, and those of its found keys. The last of these lines has no line feed: it is the ETag up
to the offset. The state lines change with each record and with time. The miss is the answer to all
missing keys (404): its other lines, an empty line, and its body. All answers have the same
Topology-Epoch, so it is sent once. The proxy makes the line with the timestamp of a record from the
entry.

The proxy's side is proxy/reads/point_batch.lua.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from backend.wire.answer import Header
from model.records import ENTRY, ENTRY_HEAD_SIZE
from model.views import View

READS = b"/internal/reads"
"""The path of the requests."""

MAGIC = b"QTR2"
ALONE = 0xFFFF_FFFF
ABSENT = 0xFFFF_FFFE
MAX_READS = 1024
"""The maximum number of reads of a request, and of tokens."""
DIGEST_BYTES = 64
LARGE = 65_536
"""The least size (bytes) of an answer that is sent separately."""
MAX_ANSWER_BYTES = 4 << 20
"""Bytes of all answers in a response. The later reads of the proxy wait until it has arrived: see
MAX_CALL_S in proxy/reads/point_batch_client.lua."""

_TOKENS, _LENGTHS, _PARTITION = b"tokens ", b"lengths ", b"partition "
_AFTER_ENTRIES = bytes([ENTRY[0] + 1])


class TooManyReads(ValueError):
    """A request has more than MAX_READS reads or tokens."""


class Reads(NamedTuple):
    """A group of reads. `partition`: the words VIEW FORMAT PARTITIONER PARTITIONS PARTITION.
    `texts`: the keys, each after 0x01. `tokens`: the number of the token of each read, or a single
    one."""

    partition: bytes
    texts: list[bytes]
    tokens: Sequence[int] = (0,)

    def with_tokens(self) -> Iterator[tuple[bytes, int]]:
        """Each text, with the number of its token."""
        tokens = [*self.tokens] * (len(self.texts) if len(self.tokens) == 1 else 1)
        return zip(self.texts, tokens, strict=True)


KeyAnswers = tuple[bytes, bytes, bytes, Sequence[int], Sequence[bytes]]
"""The answers to a group of keys: fixed lines, state lines, the miss; the size of each key's entry,
or ABSENT, or ALONE; and the entries that are sent. It is a plain tuple, because creating an object
of a class would cost as much as the read."""


class AnswerBudget:
    """How many bytes the answers of one response may still have. Each has less than LARGE."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_ANSWER_BYTES

    @property
    def is_spent(self) -> bool:
        """Whether the next answer might not fit."""
        return self.left < LARGE

    def take(self, size: int) -> bool:
        """Take `size` bytes for one or several answers; return whether there was room for them."""
        if size > self.left:
            return False
        self.left -= size
        return True


def all_alone(count: int) -> KeyAnswers:
    """No answers to a group of `count` keys: each must be asked for separately."""
    return b"", b"", b"", [ALONE] * count, ()


def decode_reads(body: bytes) -> tuple[list[bytes], list[Reads]]:
    """The digests of the tokens of a request, and its groups. Raises ValueError if it is malformed;
    TooManyReads."""
    digests, at = _digests(body) if body.startswith(_TOKENS) else ([], 0)
    if not body.startswith(_LENGTHS, at):
        raise ValueError("There are no lengths of keys.")
    return digests, _groups(body, at, len(digests))


def _groups(body: bytes, at: int, tokens: int) -> list[Reads]:
    """The groups of keys that begin at `at`, in a request that has `tokens` tokens."""
    head, _, joined = body[at:].partition(b"\n\n")
    lengths, *lines = head.split(b"\n")
    keys = _split(joined, lengths[len(_LENGTHS) :])
    groups: list[Reads] = []
    first = 0
    for line in lines:
        named, _, numbers = line.rpartition(b" ")
        kind, _, count = named.rpartition(b" ")
        if not count.isdigit() or not kind.startswith(_PARTITION):
            raise ValueError("A line is not the first one of a group.")
        size = int(count)
        texts = keys[first : first + size]
        if len(texts) != size or not size:
            raise ValueError("A group has no keys, or fewer than its line says.")
        token_numbers = [0] if numbers == b"0" else _numbers(numbers, size, tokens)
        # half the time of Reads(…)
        groups.append(tuple.__new__(Reads, (kind[len(_PARTITION) :], texts, token_numbers)))
        first += size
    if first != len(keys):
        raise ValueError("There are more keys than the groups have.")
    return groups


def _split(keys: bytes, lengths: bytes) -> list[bytes]:
    """The keys of a request. `struct.unpack` takes a third of the time of slices."""
    form = None  # of one key
    if not lengths.isdigit():
        form = lengths.replace(b",", b"s") + b"s"
        if not form.replace(b"s", b"").isdigit() or b"ss" in form or form[:1] == b"s":
            raise ValueError("There are no lengths of keys.")
    elif (length := int(lengths)) != len(keys):
        form = (lengths + b"s") * min(len(keys) // (length or 1), MAX_READS + 1)
    if form is not None and form.count(b"s") > MAX_READS:
        raise TooManyReads(f"There are more than {MAX_READS} reads.")
    try:
        split = [keys] if form is None else list(struct.unpack(form, keys))
    except struct.error:
        raise ValueError("The keys do not have these lengths.") from None
    # a store also has keys that are not entries: its position, and its metadata
    if not split or min(split) < ENTRY or max(split) >= _AFTER_ENTRIES:
        raise ValueError("A key does not begin with 0x01.")
    return split


def _digests(body: bytes) -> tuple[list[bytes], int]:
    """The digests of the tokens of a request that has them, and where its reads begin."""
    line, _, rest = body.partition(b"\n")
    digests = line[len(_TOKENS) :].split(b",")
    if len(digests) > MAX_READS:
        raise TooManyReads(f"There are more than {MAX_READS} tokens.")
    if set(map(len, digests)) != {DIGEST_BYTES}:
        raise ValueError("The first line has not the digests of tokens.")
    if not rest:
        raise ValueError("There are no reads.")
    return digests, len(line) + 1


def _numbers(text: bytes, count: int, tokens: int) -> Sequence[int]:
    """The token numbers of `count` reads, in a request that has `tokens` tokens."""
    try:
        numbers = list(map(int, text.split(b",")))
    except ValueError:
        numbers = []
    if len(numbers) not in (1, count) or not 0 <= min(numbers) <= max(numbers) <= tokens:
        raise ValueError("A group must have one known token, or one for each of its reads.")
    return numbers


class KeysFrame:
    """The answers to groups of keys, while they are being written. The hot loop appends to the
    lists itself."""

    __slots__ = ("entries", "line_sizes", "lines", "sizes")

    def __init__(self) -> None:
        self.line_sizes: list[int] = []  # per group, of its fixed lines, state lines and miss
        self.lines: list[bytes] = []  # these
        self.sizes: list[int] = []  # per key
        self.entries: list[bytes] = []

    def add(self, answer: KeyAnswers) -> None:
        """Add the answers to the next group."""
        fixed, state, miss, sizes, entries = answer
        self.line_sizes += (len(fixed), len(state), len(miss))
        self.lines += (fixed, state, miss)
        self.sizes += sizes
        self.entries += entries

    def response(self, epoch: bytes) -> bytes:
        """The response with the answers to all groups."""
        first = len(self.line_sizes) // 3, 0, len(epoch)
        numbers = array("I", (*first, *self.line_sizes, *self.sizes))
        return b"".join((MAGIC, numbers.tobytes(), epoch, *self.lines, *self.entries))


def key_format_of(view: View) -> str:
    """The format of a view's keys as nginx names it, from the view's public description."""
    description = view.description()
    schema = description.get("key_schema")
    return f"{description['key']}:{schema}" if schema else str(description["key"])


def encode_reads(digests: Collection[bytes], groups: Iterable[Reads]) -> bytes:
    """The body of a request."""
    lines: list[bytes] = []
    keys: list[bytes] = []
    for partition, texts, tokens in groups:
        numbers = b",".join(map(b"%d".__mod__, tokens))
        lines.append(b"%b%b %d %b" % (_PARTITION, partition, len(texts), numbers))
        keys += texts
    sizes = list(map(len, keys))
    lengths = b",".join(map(b"%d".__mod__, sizes[:1] if len(set(sizes)) == 1 else sizes))
    lines = [_LENGTHS + lengths, *lines, b"", b"".join(keys)]
    return b"\n".join([_TOKENS + b",".join(digests), *lines] if digests else lines)


def decode_keys(response: bytes, counts: Sequence[int]) -> list[KeyAnswers]:
    """The answers in the response to a request for groups of as many keys as `counts` says. Raises
    ValueError if it is malformed."""
    at = 16 + 4 * (3 * len(counts) + sum(counts))
    if response[:4] != MAGIC or len(response) < at:
        raise ValueError("it does not begin with the numbers of its groups")
    groups, heads, epoch_size, *numbers = struct.unpack_from(f"<{at // 4 - 1}I", response, 4)
    if groups != len(counts) or heads:
        raise ValueError("it has other groups than the request")
    sizes = numbers[3 * groups :]
    sent = [size for size in sizes if size < ABSENT]
    if min(sent, default=ENTRY_HEAD_SIZE) < ENTRY_HEAD_SIZE:
        raise ValueError("an entry is too short")
    size = at + epoch_size + sum(numbers[: 3 * groups]) + sum(sent)
    if size != len(response):
        raise ValueError(f"it has {len(response)} bytes, not {size}")
    at += epoch_size

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return response[at - size : at]

    lines = [list(map(take, numbers[first : first + 3])) for first in range(0, 3 * groups, 3)]
    answers: list[KeyAnswers] = []
    first = 0
    for (fixed, state, miss), count in zip(lines, counts, strict=True):
        of_keys = sizes[first : first + count]
        entries = [take(size) for size in of_keys if size < ABSENT]
        answers.append((fixed, state, miss, of_keys, entries))
        first += count
    return answers


def headers_of(lines: bytes) -> list[Header]:
    """The headers in lines. Raises ValueError if a line is not `name: value`."""
    *ended, rest = lines.split(b"\n")
    split = [line.partition(b": ") for line in ended]
    if rest or not all(separator for _, separator, _ in split):
        raise ValueError("a line is malformed")
    return [(name, value) for name, _, value in split]
