"""Cheap lower bounds of merge costs, by which engines leave out most pairs."""

from bregjax.clusters._screens.base import CostScreen, Screen
from bregjax.clusters._screens.functions import screen_of
from bregjax.clusters._screens.negative_binomial import DispersionScreen
from bregjax.clusters._screens.sphere import DirectionScreen

__all__ = ["CostScreen", "DirectionScreen", "DispersionScreen", "Screen", "screen_of"]
