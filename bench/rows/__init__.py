"""One module a question: each measures ours and its reference in turn, round by round.

`measure(stack, plan, step)` gives the rows, with what stands beside them; it calls
`step()` after each single measurement, `steps(plan)` times in all.
"""
