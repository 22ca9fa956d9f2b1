"""Decoders and encoders of records, and dead letters."""
