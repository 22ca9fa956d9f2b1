"""Tests of schemas that ingest and requests wait for."""
