"""Says in words what a derived view does, keeps and needs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from model.derive.derivation import Aggregate, Derivation, Windows

_ROW_BYTES = 220
"""What a row costs in the default state store, next to its values."""
_VALUE_BYTES = {"count": 8, "sum": 16, "min": 16, "max": 16, "avg": 24, "distinct": 4096}
_SELECTED_BYTES = 16


def explain(derivation: Derivation) -> str:
    """The steps in their order, the state that Spark keeps, and what a replay needs."""
    written = {key: json.loads(value) for key, value in derivation.written}
    lines = ["Steps:"]
    lines += [f"  {number}. {step}" for number, step in enumerate(_steps(derivation, written), 1)]
    lines += ["State:", *(f"  - {part}" for part in _state(derivation)), "Replay:"]
    sources = [derivation.source, *(join.source for join in derivation.joins)]
    lines.append(
        f"  - All records of {' and '.join(sources)} from the first one that should count. The "
        "topic must still have them."
    )
    lines.append("  - The same records give the same entries, in any order of reading.")
    return "\n".join(lines)


def _steps(derivation: Derivation, written: dict[str, object]) -> Iterator[str]:
    fields = ", ".join(name for name, _ in derivation.fields) or "the text of the value"
    yield f"read {derivation.source}: {fields}; a value without these is a dead letter"
    time = derivation.time
    if "time" in written and time is not None:
        late = "no record is late; one" if time.before_s is None else "a record"
        bounds = "" if time.before_s is None else f"more than {time.before_s} s late or "
        yield (
            f"time {written['time']}: {late} that is {bounds}more than {time.after_s} s early is a "
            "dead letter"
        )
    if "require" in written:
        yield f"require {written['require']}; else the record is a dead letter"
    if derivation.identity:
        yield f"identity {', '.join(derivation.identity)}: equal records count once"
    for join in derivation.joins:
        yield f"join {join.name}: the newest row of its key in {join.source}"
    if derivation.each is not None:
        yield f"each {derivation.each[0]}: a row for each element"
    for name in ("where", "filter"):
        if name in written:
            yield f"{name} {written[name]}; other rows do not count"
    yield f"key {written['key']}"
    window = derivation.window
    if window is not None:
        if isinstance(window, Windows):
            yield f"windows of {window}, a new one each {window.advance} ms, in UTC"
        else:
            yield f"windows of {window} in {window.zone}"
    if derivation.points:
        yield "points: an entry for each key and time"
    if derivation.session is not None:
        yield f"sessions that end after {derivation.session} ms without a record"
    for aggregate in derivation.aggregates:
        yield f"{aggregate.function}: {aggregate.name}"
    if derivation.is_map:
        newest = "newest row" if derivation.is_rekeyed else "last row"
        yield f"no aggregate: the {newest} of a key counts"


def _state(derivation: Derivation) -> Iterator[str]:
    size = _ROW_BYTES + sum(_bytes(derivation, aggregate) for aggregate in derivation.aggregates)
    time = derivation.time
    is_kept = time is not None and time.before_s is None
    freed = "never freed, because no record is late" if is_kept else "freed by the watermark"
    is_stateless = derivation.is_map and not (derivation.changing or derivation.is_rekeyed)
    if is_stateless and derivation.pairs is None:
        yield "none: a map keeps no rows"
    elif derivation.is_table or derivation.changing:
        yield f"a row for each row of {derivation.source}, in RocksDB; freed when it is deleted"
    elif derivation.pairs is not None:
        yield f"the records of both streams; {freed}"
    elif derivation.shape == "keys":
        yield f"a row for each key, about {size} bytes and the key; never freed"
    elif derivation.shape == "windows":
        what = "key and window" if derivation.window is not None else "key and time"
        yield f"a row for each {what}, about {size} bytes and the key; {freed}"
    else:
        yield f"a row for each key with live sessions, about {size} bytes and the key; {freed}"
    if derivation.identity:
        freed = "never freed" if time is None else freed
        yield f"a row for each identity, about {_ROW_BYTES} bytes and its fields; {freed}"
    for join in derivation.joins:
        if join.static:
            yield f"the whole table {join.name}, in each executor"
    for join in derivation.changing:
        yield f"each row of the table {join.name}, in RocksDB; freed when it is deleted"


def _bytes(derivation: Derivation, aggregate: Aggregate) -> int:
    if aggregate.function in ("latest", "top_k") and derivation.select is not None:
        values = 1 + len(derivation.select.values)
        return max(aggregate.k, 1) * _SELECTED_BYTES * values
    return _VALUE_BYTES.get(aggregate.function, _SELECTED_BYTES)
