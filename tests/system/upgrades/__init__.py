"""Instances, proxies and clients of the last release next to those of the current code."""
