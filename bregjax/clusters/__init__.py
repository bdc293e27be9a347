"""What a cluster is to an engine: the protocol, its models, sums along a tree, screens.

A cluster is a state that two clusters' states make by `union`, and a merge has a cost;
engines know nothing else. The models differ in what a state holds: a mean, a mean and a
covariance, statistics and a natural parameter that is solved for. Nothing in this
package knows a distribution: what models need of one is `Potential`.
"""
