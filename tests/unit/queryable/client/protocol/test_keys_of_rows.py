"""The key of a listed row, as the client gives it, is one by which the row is found."""

from __future__ import annotations

from uuid import UUID

from queryable.client.protocol.formats import FORMATS

ID = "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e11"


def test_a_uuid_in_capitals_is_text() -> None:
    form = FORMATS["uuid"]
    assert form.key_from_json(ID) == UUID(ID)
    for text in (ID, ID.upper(), ID[:18] + ID[18:].upper()):
        assert form.record_bytes(form.key_from_json(text)) == text.encode()
    # values are UUIDs
    assert form.from_json(ID.upper()) == UUID(ID)
