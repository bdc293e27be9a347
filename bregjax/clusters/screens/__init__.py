"""Cheap lower bounds of merge costs, by which engines leave out most pairs."""

from bregjax.clusters.screens.base import CostScreen, Screen
from bregjax.clusters.screens.functions import screen_of
from bregjax.clusters.screens.negative_binomial import DispersionScreen
from bregjax.clusters.screens.sphere import DirectionScreen

__all__ = ["CostScreen", "DirectionScreen", "DispersionScreen", "Screen", "screen_of"]
