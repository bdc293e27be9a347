"""Pictures of trees, clusters and comparisons; needs matplotlib (extra `plot`).

Every function takes the axes to draw on, pyplot's if it is given none, and returns the
axes that it drew on. Figures are saved by matplotlib: `ax.figure.savefig("tree.pdf")`.
"""

from bregjax.plotting._comparison import plot_comparison as plot_comparison
from bregjax.plotting._dendrogram import plot_dendrogram as plot_dendrogram
from bregjax.plotting._heatmap import HeatmapAxes as HeatmapAxes
from bregjax.plotting._heatmap import plot_heatmap as plot_heatmap
