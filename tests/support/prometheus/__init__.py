"""Debian's promtool, and scrapes of running deployments."""
