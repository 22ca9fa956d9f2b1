"""Tests of `backend.security`."""
