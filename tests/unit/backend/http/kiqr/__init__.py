"""Tests of the dialect of KIQR."""
