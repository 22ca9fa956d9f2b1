"""Instances, proxies and clients of the last release beside those of the current code."""
