"""Pictures of trees, clusters and comparisons; needs matplotlib (extra `plot`).

Every function takes the axes to draw on, makes a new figure if it is given none, and
returns the axes that it drew on. Figures are saved by matplotlib:
`ax.figure.savefig("tree.pdf")`.
"""

from bregjax.plotting._comparison import plot_comparison as plot_comparison
from bregjax.plotting._costs import plot_costs as plot_costs
from bregjax.plotting._criteria import plot_num_clusters as plot_num_clusters
from bregjax.plotting._dendrogram import plot_dendrogram as plot_dendrogram
from bregjax.plotting._ellipses import plot_ellipses as plot_ellipses
from bregjax.plotting._heatmap import HeatmapAxes as HeatmapAxes
from bregjax.plotting._heatmap import plot_heatmap as plot_heatmap
from bregjax.plotting._profiles import plot_profiles as plot_profiles
from bregjax.plotting._tanglegram import TanglegramAxes as TanglegramAxes
from bregjax.plotting._tanglegram import plot_tanglegram as plot_tanglegram
from bregjax.plotting._untangling import entanglement as entanglement
from bregjax.plotting._untangling import untangle as untangle
