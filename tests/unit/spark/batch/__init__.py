"""Tests of batch jobs: pushes, and reading views back."""
