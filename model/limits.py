"""How large the parts of a request may be. All of it is checked before anything is parsed.

| what                                | at most                                        |
|-------------------------------------|------------------------------------------------|
| request line (path and query)       | 32 KiB: nginx and gunicorn check it            |
| parameters of a request             | 16                                             |
| a parameter that names a key, a prefix or a cursor | the request line                |
| `by`                                | 1,024 bytes, 16 fields of fields               |
| `min_offset`                        | 16 KiB                                         |
| every other parameter               | 64 bytes                                       |
| `Accept`                            | 4,096 bytes                                    |
| body of a batch                     | 2 MiB                                          |
| JSON body                           | 32,768 commas, colons and opening brackets     |

Parsing holds the event loop. Its cost is that of the JSON values more than of the bytes: 2 MiB of
text take 5 ms, 2 MiB of `[]` 90 ms. A value of an array or an object needs a comma, a colon or a
bracket, so counting these bounds the cost. Those within strings count, too: telling them apart
would be parsing.
"""

from __future__ import annotations

from model.problems import BadRequest

MOST_PARAMETERS = 16
MOST_PARAMETER_BYTES = 64
MOST_PATH_BYTES = 1024
MOST_PATH_FIELDS = 16
MOST_ACCEPT_BYTES = 4096
MOST_BATCH_BYTES = 2 << 20
MOST_JSON_PARTS = 32_768

_LINE = 32 << 10
LONGER_PARAMETERS = {
    **dict.fromkeys(("from", "to", "key_from", "key_to", "prefix", "cursor"), _LINE),
    "by": MOST_PATH_BYTES,
    "min_offset": 16 << 10,
}
"""Name -> bytes (percent-decoded), where that is not MOST_PARAMETER_BYTES."""

_SHOWN = 64


def parameter_bytes(name: str) -> int:
    """How many bytes the value of a parameter may have, percent-decoded."""
    return LONGER_PARAMETERS.get(name, MOST_PARAMETER_BYTES)


def check_parameter(name: str, value: str) -> None:
    """BadRequest if the value (percent-decoded, a character a byte) is too long."""
    most = parameter_bytes(name)
    if len(value) > most:
        raise BadRequest(
            "bad-parameter",
            f"{name} has {len(value)} bytes; at most {most} are allowed.",
            parameter=name,
            limit=most,
        )


def check_path(path: str) -> None:
    """BadRequest if the field of a value that `by=` names lies too deep."""
    if len(path.encode()) > MOST_PATH_BYTES:
        raise BadRequest(
            "bad-parameter",
            f"by has more than {MOST_PATH_BYTES} bytes.",
            parameter="by",
            limit=MOST_PATH_BYTES,
        )
    fields = path.count(".") + 1
    if fields > MOST_PATH_FIELDS:
        raise BadRequest(
            "bad-parameter",
            f"by names {fields} fields of fields; at most {MOST_PATH_FIELDS} are allowed.",
            parameter="by",
            limit=MOST_PATH_FIELDS,
        )


def json_parts(body: bytes) -> int:
    """At least as many as there are values in the arrays and objects of a JSON document."""
    return sum(map(body.count, (b",", b":", b"[", b"{")))


def check_json(body: bytes, most: int = MOST_JSON_PARTS) -> None:
    """BadRequest if parsing the body could take long."""
    parts = json_parts(body)
    if parts > most:
        raise BadRequest(
            "bad-request",
            f"The body has {parts} commas, colons and opening brackets; at most {most} are "
            f"allowed. Send several requests.",
            limit=most,
        )


def shown(text: str) -> str:
    """The beginning of what a client sent, for the text of an error."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
