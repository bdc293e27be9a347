"""The windowed engine in layers: store, neighbours and windows; and its fallbacks.

The store (on devices) knows where clusters lie and what pairs of them cost, the
neighbours (on the host) which clusters live and which are nearest, the windows (NumPy
alone) in what order merges are greedy's. Each imports only from those before it, and
windows import neither JAX nor the other two. `docs/windowed.md` explains them by an
example of eight points.
"""
