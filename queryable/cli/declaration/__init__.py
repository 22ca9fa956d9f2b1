"""How a command is declared, and how its arguments are read and explained.

A command is a function. Its parameters are its arguments and options, groups of options, or a
client of the deployment.
"""
