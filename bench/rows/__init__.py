"""One module a question: each measures ours and its reference in turn, round by round.

`measure(stack, plan, step)` gives the rows for results.json and the lines of the table; it calls
`step()` after each single measurement, `steps(plan)` times in all.
"""
