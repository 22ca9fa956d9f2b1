"""Tests of /metrics and of the durations of requests."""
