"""The groups of rows: each measures ours and its references alternately.

A group is a function of the stack and the plan. It yields phases: lists of subjects that are
measured alternately (`bench.subject.measured`). The servers that it starts are stopped after it.
References have `reference=True`: their failures do not end the group.
"""
