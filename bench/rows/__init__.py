"""One module per group of rows: each measures ours and its references alternately.

`measure(stack, plan, step)` returns the rows with their comparisons. It calls `step()` after each
single measurement, `steps(plan)` times in total.
"""
