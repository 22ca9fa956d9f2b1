"""From the log to the store: the data plane (confluent-kafka).

One consumer with a manual assignment, from the stored positions. What it writes to is declared in
`protocols`; `backend.storage` fulfils it.
"""
