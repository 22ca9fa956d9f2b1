"""Benchmarks: each measures ours and a reference, alternately.

Compare the ratios of a run: both sides had the same machine and the same noise. CPU time is that of
the servers, without the load generator's. docs/performance.md has the rows and the results.
"""
