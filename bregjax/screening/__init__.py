"""Cheap lower bounds of the merge costs of all pairs, which engines screen by."""

from bregjax.screening.base import CostScreen, Screen
from bregjax.screening.functions import screen_of

__all__ = ["CostScreen", "Screen", "screen_of"]
