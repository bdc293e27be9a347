"""Cheap lower bounds of the merge costs of all pairs, which engines screen by."""

from bregjax.screening.base import CostScreen, Screen
from bregjax.screening.functions import screen_of
from bregjax.screening.negative_binomial import DispersionScreen
from bregjax.screening.sphere import DirectionScreen

__all__ = ["CostScreen", "DirectionScreen", "DispersionScreen", "Screen", "screen_of"]
