"""Tests that the documentation is correct and complete: settings, codes, metrics, examples."""
