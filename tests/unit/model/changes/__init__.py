"""Tests of state that changes by records of a topic."""
