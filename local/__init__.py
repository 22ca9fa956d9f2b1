"""The whole stack on one machine.

``kafka`` runs the broker, ``demo`` has the demo's data and their verification, ``stack`` runs all
processes, ``tailer`` ships the access log; ``commands`` are what ``python -m local`` offers.

Rule: this package starts and checks the product, and the product never imports it. What can go
wrong on a user's machine raises ``LocalError``: what failed, where, and what to do.
"""
