"""The engine of lower bounds in parts: their matrix, a run, and rounds of merges.

A run makes one merge at a time over the matrix. Where costs are rough, rounds find many
that are certain to be the next, from speculation about what their unions cost.
"""
