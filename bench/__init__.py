"""Measures side by side: each number of ours beside a reference that ran in turn with it.

Ratios are what a run tells: both sides had the same machine, noise and all. Only servers' CPU
counts, never the load generator's. What is measured, and what came out: docs/performance.md.
"""
