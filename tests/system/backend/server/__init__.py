"""Tests of backend/server."""
