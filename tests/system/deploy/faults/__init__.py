"""Each alert fires in a real fault: with a real broker, and processes that are killed, stopped, cut
off or overloaded. The mark `raises` names the alerts of a test; `test_all_alerts.py` compares them
with the rules.

The commands of each runbook are run in its fault. The mark `walks` names the alerts whose pages the
test walks through.
"""
