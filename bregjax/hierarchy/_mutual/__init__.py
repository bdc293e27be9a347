"""The engine of mutual nearest neighbours in parts: points, their products, and lists.

Panels (products of matrices) bound the costs of a block of rows with all points, points
compute those that matter, and neighbourhoods are what a search finds.
"""
