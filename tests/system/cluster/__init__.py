"""Instances that come, go, take over and copy from one another."""
