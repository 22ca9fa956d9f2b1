"""What tests of several folders share.

Processes, all real: `deployment` (the backends of one application and nginx in front of them),
`backends`, `nginx`; the broker and its topics are fixtures (`plugins/fixtures.py`). To use them:
`topics` writes and reads topics, `client` sends requests, `read_loop` reads all the time,
`tcp_faults` breaks connections, `stored` reads the files of a stopped backend.

`reference/` is the model that says what the right answers are. `in_process/` runs instances
without Kafka, network and processes. `plugins/` are pytest's: fixtures, logs of failed tests,
scheduling, time-outs. Everything waits with `local.waiting`: for a condition, with a deadline.
"""
