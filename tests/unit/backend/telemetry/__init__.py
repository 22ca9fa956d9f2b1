"""Tests of what an instance counts of its requests."""
