"""Tests of windows, sessions, versions and custom stores."""
