"""Tests of the language of expressions."""
