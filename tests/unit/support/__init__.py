"""Code that tests of several folders share.

Real processes: `deployment` (the backends of one application, with nginx in front), `backends` and
`nginx`. The broker and its topics are fixtures (`plugins/fixtures.py`). `topics` writes and reads
topics, `client` sends requests, `read_loop` reads continuously, `tcp_faults` breaks connections,
`stored` reads the files of a stopped backend.

`reference/` is the model of correct answers. `in_process/` runs instances without Kafka, network
and processes. `plugins/` has pytest plugins: fixtures, logs of failed tests, scheduling, time-outs.
All waiting is for a condition, with a deadline (`local.waiting`).
"""
