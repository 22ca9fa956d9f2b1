"""The topic texts: one line of text a record, UTF-8."""

from __future__ import annotations

from spark.formats.decoders import TextDecoder

TEXTS = TextDecoder()
