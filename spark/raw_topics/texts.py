"""The topic texts: one line of UTF-8 text per record."""

from __future__ import annotations

from spark.formats.decoders import TextDecoder

TEXTS = TextDecoder()
