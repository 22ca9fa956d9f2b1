"""The whole stack on one machine: jars, broker, data, supervisor, proxy, demo.

Rule: this folder starts and checks the product, and the product never imports it. Whatever can go
wrong on somebody's machine raises ``LocalError`` with what failed, where, and what to do.
"""
