"""Ties: of pairs that cost the same, the one of least key comes first."""

from typing import TypeVar

import numpy as np

from bregjax._typing import Array

__all__ = ["mixed"]

Words = TypeVar("Words", np.ndarray, Array)


def mixed(values: Words) -> Words:
    """Hash 32-bit numbers (the finaliser of MurmurHash3).

    A cluster's key is the hash of its slot or, for a union, of its parts' keys added;
    a pair's key is the sum of its clusters' keys, so it is symmetric. If the order of
    slots decided instead, equally spaced points would merge one pair a round.
    """
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))
