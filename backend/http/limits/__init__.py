"""Bounds on requests in progress, on their bodies, and on the rate of requests to a view."""
