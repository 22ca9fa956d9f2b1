"""Writes crc32.jsonl and fnv1a.jsonl: librdkafka's partitioners over the keys of murmur2.jsonl.

confluent-kafka bundles librdkafka but does not expose its partitioners, which are public C
functions (rdkafka.h: ``rd_kafka_msg_partitioner_*``). They use neither topic nor opaque: NULL does.
Run with the project's Python: ``python tests/vectors/librdkafka_vectors.py [folder to write to]``.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import confluent_kafka

HERE = Path(__file__).parent
FUNCTIONS = {
    "crc32": "rd_kafka_msg_partitioner_consistent",
    "fnv1a": "rd_kafka_msg_partitioner_fnv1a",
}


def librdkafka() -> ctypes.CDLL:
    """The librdkafka that confluent_kafka uses: bundled in the wheel, or the system's."""
    package = distribution("confluent-kafka")
    bundled = [f for f in package.files or [] if f.name.startswith("librdkafka")]
    shared = [f for f in bundled if ".so" in f.name or f.name.endswith(".dylib")]
    return ctypes.CDLL(str(package.locate_file(shared[0])) if shared else "librdkafka.so.1")


def partitioner(library: ctypes.CDLL, name: str) -> Callable[[bytes, int], int]:
    function = getattr(library, FUNCTIONS[name])
    function.restype = ctypes.c_int32
    function.argtypes = [
        ctypes.c_void_p,  # topic
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    return lambda key, partitions: function(None, key, len(key), partitions, None, None)


def key_bytes(written: str | dict) -> bytes:
    if isinstance(written, str):
        return bytes.fromhex(written)
    return bytes.fromhex(written["repeat"]) * written["times"]


def lines(name: str) -> list[str]:
    """The whole file for one partitioner, a JSON document a line."""
    library = librdkafka()
    of = partitioner(library, name)
    header, *vectors = map(json.loads, (HERE / "murmur2.jsonl").read_text().splitlines())
    counts = header["partitions"]
    made_by = f"librdkafka {confluent_kafka.libversion()[0]}"
    out = [json.dumps({"partitioner": name, "made_by": made_by, "partitions": counts})]
    for written, _ in vectors:
        key = key_bytes(written)
        out.append(json.dumps([written, [of(key, count) for count in counts]]))
    return out


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name in FUNCTIONS:
        (folder / f"{name}.jsonl").write_text("\n".join(lines(name)) + "\n")
