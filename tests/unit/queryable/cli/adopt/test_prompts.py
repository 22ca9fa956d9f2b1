"""Questions on a terminal."""

from __future__ import annotations

import io
import os
import pty
import sys
import tomllib

import pytest

from model.formats.format import Format, SchemaFormat
from model.formats.registry import FORMATS
from model.kinds.registry import KINDS
from model.partitioner import PARTITIONERS
from model.views import ANY_PARTITION, NEWEST, PARTIAL
from model.views_file import parse_views
from queryable.cli.adopt.entries import view_entry
from queryable.cli.adopt.prompts import ask_on_terminal
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.inspection.inference import Confidence, Inference
from queryable.cli.inspection.samples import SampledRecord
from queryable.cli.start.topic_view import topic_entry
from tests.support.in_process.avro_examples import registry
from tests.support.in_process.protobuf_examples import SHOP, order, serialized
from tests.unit.queryable.cli.inspection.records import BOTH, COMPACT, HOUR, sessions, windows


def test_question_is_repeated_until_the_answer_is_valid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["sesion", "session", "10 minutes", "10m", "-"])
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "r") as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            os.write(master, "".join(f"{answer}\n" for answer in answers).encode())
            unsure = Inference("window", Confidence.GUESS, "both fit")
            assert ask_on_terminal("t", "store", unsure) == "session"
            assert ask_on_terminal("t", "retention", Inference(None, Confidence.GUESS)) == "10m"
            assert ask_on_terminal("t", "window_size", Inference("1h", Confidence.GUESS)) == "-"
    finally:
        os.close(master)
    output = capsys.readouterr()
    assert output.out == ""
    assert "Unknown store 'sesion'. Use key-value, window, session, versioned, global" in output.err
    assert '"10 minutes"' in output.err


# of a schema format: what follows the frame, and the schema as a registry has it
PAYLOADS = {"avro": b"\x06abc", "protobuf": b"\0" + order(order_id=2**40)}
REGISTERED = {"avro": '"string"', "protobuf": serialized(SHOP)}


def example_of(chosen: Format) -> bytes:
    """A key or value, from which the format can be inferred."""
    if isinstance(chosen, SchemaFormat):
        return b"\0\0\0\0\7" + PAYLOADS[chosen.name]
    assert chosen.codec is not None
    if chosen.name == "bytes":
        return b"\xff\xfe"  # the example of its documentation is text
    text = chosen.openapi.example
    return b"" if text is None else chosen.codec.from_text(str(text).encode())


@pytest.mark.parametrize(
    ("what", "name"),
    [("value", name) for name in FORMATS]
    + [("key", name) for name, chosen in FORMATS.items() if chosen.for_keys],
)
def test_each_proposed_format_is_accepted_by_its_own_prompt(
    what: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: Enter and `avro` were refused for ever, and JSON lost its header."""
    chosen = FORMATS[name]
    record = SampledRecord(0, 1, b"k", b"text", {})
    sample = [record._replace(**{what: example_of(chosen)})]
    with registry() as running:
        if isinstance(chosen, SchemaFormat):
            document = {"schema": REGISTERED[name], "schemaType": chosen.registry_type}
            for query in ("", f"?format={chosen.registry_form}"):
                running.answers[f"/schemas/ids/7{query}"] = (200, document)
            # a record that does not fit, so that the format is not certain
            sample.append(record._replace(**{what: b"\0\0\0\0\7" + b"\xff" * 12}))
        schemas = Schemas(running.url, is_interactive=True)
        asked = []

        def ask(topic: str, field: str, inferred: Inference) -> str:
            asked.append(field)
            monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
            return ask_on_terminal(topic, field, inferred)

        text = topic_entry("t", 3, COMPACT, sample, ask, schemas)
    [view] = parse_views(schemas.toml + text).views
    assert what in asked
    assert getattr(view, what) == name, "no record is inferred to be in this format"
    schema = "confluent" if isinstance(chosen, SchemaFormat) else None
    assert getattr(view, f"{what}_schema") == schema
    assert "TODO" not in text


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("schema", [None, "confluent"])
def test_each_format_is_an_answer_unless_it_needs_a_file(
    field: str, name: str, schema: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = FORMATS[name]
    if (field == "key" and not chosen.for_keys) or (schema is None and chosen.codec is None):
        return
    for typed in ("\n", f"{name}\n"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        proposed = Inference(name, Confidence.GUESS, "", schema)
        assert ask_on_terminal("t", field, proposed) == name


def test_a_format_that_needs_a_file_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("avro\nbytes\n"))
    assert ask_on_terminal("t", "value", Inference("bytes", Confidence.GUESS)) == "bytes"
    assert "avro needs a file: set value_schema in the views file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "proposals"),
    [
        ("store", tuple(KINDS)),
        ("partitioner", (*PARTITIONERS, ANY_PARTITION)),
        ("same_key", (PARTIAL, NEWEST)),
        ("window_size", ("1h", "1 month", None)),
        ("retention", ("7d", None)),
    ],
)
def test_each_other_proposal_is_accepted_by_its_own_prompt(
    field: str, proposals: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for proposed in proposals:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
        answer = ask_on_terminal("t", field, Inference(proposed, Confidence.GUESS))
        assert answer == (proposed or "-")


@pytest.mark.parametrize(
    "sample", [windows(HOUR, HOUR, [b"a"])[:9], sessions([b"a"])[:9], []], ids=str
)
def test_entries_of_changelogs_are_complete_with_the_proposals(
    sample: list[SampledRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n" * 9))
    text = view_entry("s", "app-s-changelog", 3, BOTH, sample, ask_on_terminal, Schemas())
    parse_views(text)
    assert tomllib.loads(text)["views"]["s"]["value"]
    assert "TODO" not in text


def test_an_answer_keeps_the_header_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: framed JSON whose format was confirmed was written without value_schema."""
    sample = [SampledRecord(0, 1, b"k", b'\0\0\0\0\7{"a":1}', {})]
    for typed, schema in (("\n\n", "confluent"), ("\njson\n", "confluent"), ("\nbytes\n", None)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        text = topic_entry("t", 1, COMPACT, sample, ask_on_terminal, Schemas())
        assert parse_views(text).views[0].value_schema == schema
