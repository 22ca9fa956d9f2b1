"""One module per group of rows: each measures ours and its references alternately.

`measure(stack, plan)` yields the rows measured so far, with their comparisons, after each single
measurement, `steps(plan)` times in total. The servers that it starts are stopped after it. Its
references are `Subject(…, reference=True)`, whose failures do not end the group.
"""
