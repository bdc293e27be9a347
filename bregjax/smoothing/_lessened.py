"""The same smoothing, but less of it."""

import dataclasses

import numpy as np

from bregjax.smoothing._by_block import ByBlock
from bregjax.smoothing._maps import Adding, Blur, Mixing, PseudoCount, StatisticMap

__all__ = ["lessened"]


def lessened(smoothing: StatisticMap | None, share: float) -> StatisticMap | None:
    """Return a known map with a share of its amount; maps of users' own as they are.

    Kernels keep that share of their covariance, so its root of their bandwidth.
    """
    replace = dataclasses.replace
    if isinstance(smoothing, ByBlock):
        return ByBlock(tuple(lessened(each, share) for each in smoothing.maps))
    if isinstance(smoothing, Blur):
        return replace(smoothing, bandwidth=np.sqrt(share) * smoothing.bandwidth)
    if isinstance(smoothing, Mixing | Adding):
        return replace(smoothing, amount=share * smoothing.amount)
    if isinstance(smoothing, PseudoCount):
        return replace(smoothing, count=share * smoothing.count)
    return smoothing
