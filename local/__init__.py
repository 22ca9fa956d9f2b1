"""The whole stack on one machine.

``kafka`` runs the broker, ``demo`` has the demo's data and verifies its answers, ``stack`` runs all
processes, ``tailer`` ships the access log, ``commands`` implements ``python -m local``.

Rule: this package starts and checks the product, and the product never imports it. Errors of the
user's machine raise ``LocalError``: what failed, where, and what to do.
"""
