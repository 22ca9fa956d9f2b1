"""Tests of ingest: from records to stored entries."""
