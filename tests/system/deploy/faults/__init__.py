"""Each alert fires in a real fault: with a real broker, and processes that are killed, stopped, cut
off or overloaded. The mark `raises` names the alerts of a test; `test_all_alerts.py` compares them
with the rules.
"""
