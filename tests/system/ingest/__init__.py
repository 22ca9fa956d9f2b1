"""Ingest: topics that change, brokers that fail, dead letters, appends."""
