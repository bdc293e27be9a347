"""The windowed engine's parts: pool of clusters, frontier, window, check."""
