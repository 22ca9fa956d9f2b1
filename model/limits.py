"""Size limits for the parts of a request. All are checked before the part is parsed.

| what                                | at most                                        |
|-------------------------------------|------------------------------------------------|
| request line (path and query)       | 32 KiB: nginx and gunicorn check it            |
| parameters of a request             | 16                                             |
| a parameter that names a key, a prefix or a cursor | the request line, or the body of a page |
| `by`, `value`, `non_null`           | 1,024 bytes, 16 levels of fields               |
| `min_offset`                        | 16 KiB                                         |
| every other parameter               | 64 bytes                                       |
| `Accept`                            | 4,096 bytes                                    |
| body of a batch or a page           | 2 MiB                                          |
| JSON body                           | 32,768 commas, colons and opening brackets     |

Parsing blocks the event loop. Its cost depends more on the number of JSON values than on the size:
2 MiB of text take 5 ms, and 2 MiB of `[]` take 90 ms. Each value in an array or object needs a
comma, a colon or a bracket, so their number bounds the cost. These characters count inside strings,
too, because skipping them would need a parser.
"""

from __future__ import annotations

from model.problems import BadRequest

MAX_PARAMETERS = 16
MAX_PARAMETER_BYTES = 64
MAX_PATH_BYTES = 1024
MAX_PATH_FIELDS = 16
MAX_ACCEPT_BYTES = 4096
MAX_BATCH_BYTES = 2 << 20
MAX_JSON_PARTS = 32_768

LONGER_PARAMETERS = {
    **dict.fromkeys(
        ("from", "to", "key", "key_from", "key_to", "prefix", "cursor"), MAX_BATCH_BYTES
    ),
    **dict.fromkeys(("by", "value", "non_null", "order_by"), MAX_PATH_BYTES),
    "min_offset": 16 << 10,
    **dict.fromkeys(("where", "select"), 8 << 10),
}
"""Name -> maximum bytes (percent-decoded), for parameters with a greater limit than
MAX_PARAMETER_BYTES."""

_SHOWN = 64  # characters


def parameter_bytes(name: str) -> int:
    """The maximum size (bytes) of a parameter's value, percent-decoded."""
    return LONGER_PARAMETERS.get(name, MAX_PARAMETER_BYTES)


def check_parameter(name: str, value: str) -> None:
    """Raise BadRequest if the value (percent-decoded, one character per byte) is too long."""
    limit = parameter_bytes(name)
    if len(value) > limit:
        raise BadRequest(
            "bad-parameter",
            f"{name} has {len(value)} bytes; at most {limit} are allowed.",
            parameter=name,
            limit=limit,
        )


def check_path(path: str, parameter: str) -> None:
    """Raise BadRequest if the field path in the `parameter` is too long or too deep."""
    if len(path.encode()) > MAX_PATH_BYTES:
        raise BadRequest(
            "bad-parameter",
            f"{parameter} has more than {MAX_PATH_BYTES} bytes.",
            parameter=parameter,
            limit=MAX_PATH_BYTES,
        )
    fields = path.count(".") + 1
    if fields > MAX_PATH_FIELDS:
        raise BadRequest(
            "bad-parameter",
            f"{parameter} has {fields} levels of fields; at most {MAX_PATH_FIELDS} are allowed.",
            parameter=parameter,
            limit=MAX_PATH_FIELDS,
        )


def json_parts(body: bytes) -> int:
    """An upper bound for the number of values in the arrays and objects of a JSON document."""
    return sum(map(body.count, (b",", b":", b"[", b"{")))


def check_json(body: bytes, limit: int = MAX_JSON_PARTS) -> None:
    """Raise BadRequest if the body could be expensive to parse."""
    parts = json_parts(body)
    if parts > limit:
        raise BadRequest(
            "bad-request",
            f"The body has {parts} commas, colons and opening brackets; at most {limit} are "
            f"allowed. Send several requests.",
            limit=limit,
        )


def shown(text: str) -> str:
    """The start of a client's text, for an error message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
