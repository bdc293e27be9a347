"""The same smoothing, but less of it."""

import dataclasses
from numbers import Real
from typing import Any

import numpy as np

from bregjax.smoothing._by_block import ByBlock
from bregjax.smoothing._maps import Adding, Blur, Mixing, PseudoCount, StatisticMap

__all__ = ["check_share", "lessened"]


def check_share(share: Any) -> None:
    """Raise unless `smoothing_share` is a number above 0 and at most 1."""
    if isinstance(share, bool) or not isinstance(share, Real):
        raise TypeError(
            f"`smoothing_share` must be a number above 0 and at most 1; got {share!r}."
        )
    if not 0 < float(share) <= 1:
        raise ValueError(
            f"`smoothing_share` must be above 0 and at most 1; got {share!r}. For no "
            "smoothing at all take smoothing=None."
        )


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
