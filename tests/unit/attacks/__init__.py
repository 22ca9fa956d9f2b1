"""Hostile clients next to honest readers: `python -m tests.attacks` (make attacks).

`attack` defines what an attack is, `families/` has all of them, one module per family. `site`
starts what is attacked, and `perform` runs one attack in a process of its own. `honest` reads in
another process, `measuring` is pure, `runner` combines them. The product imports none of it.
"""
