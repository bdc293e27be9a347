"""The matrix engine holds one matrix of costs and never copies it."""

import re

import jax
import numpy as np
import pytest
from hostile_cases import leaves_of

from bregjax.hierarchy.engine_matrix import matrix


def compiled(family: str, m: int):
    x = np.random.default_rng(0).gamma(2.0, size=(m, 3)) + 0.1
    model, leaves = leaves_of(x, family)
    return jax.jit(matrix).lower(model, leaves, np.int32(m)).compile()


@pytest.mark.parametrize("family", ["ward", "poisson", "diagonal_gaussian"])
def test_the_matrix_is_changed_in_place(family, x64):
    """A copy in the loop over merges would make each cost O(m²)."""
    m = 96
    program = compiled(family, m).as_text()
    assert program is not None
    assert f"f64[{m},{m}]" in program
    assert not re.findall(rf"f64\[{m},{m}\]\S* copy\(", program)


def test_one_matrix_in_memory(x64):
    sizes = []
    for m in (256, 512):
        memory = compiled("ward", m).memory_analysis()
        if memory is None:
            pytest.skip("this backend does not tell its memory")
        sizes.append(memory.temp_size_in_bytes)
    assert sizes[1] - sizes[0] < 1.5 * 8 * (512**2 - 256**2)
