"""Benchmarks: each measures ours (this project) and a reference, alternately.

Compare the ratios of a run: both sides had the same machine and the same noise. CPU time is the
time of the servers, without the load generator. docs/performance.md has the rows and the results.
"""
