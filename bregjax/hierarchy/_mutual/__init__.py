"""The engine of mutual nearest neighbours in parts: points, their products, and lists.

Panels (products of matrices) bound the costs of a block of rows with all points, or a
k-d tree finds the nearest of few columns; points compute the costs that matter, and
neighbourhoods are what a search finds.
"""
