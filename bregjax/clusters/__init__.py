"""Cluster models: what an engine knows of clusters; sums along a tree; screens.

A cluster is a state. `union` makes the state of a merged cluster from two states, and
`merge_cost` says what the merge costs; engines know nothing else. Models differ in what
a state holds: a mean, a mean and a covariance, or statistics and a natural parameter
that is solved for. Nothing in this package knows a distribution: `Potential` is all
that a model needs of a distribution.
"""
