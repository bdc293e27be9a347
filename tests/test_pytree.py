from dataclasses import dataclass, make_dataclass

import jax
import jax.numpy as jnp
import pytest

from bregjax import convex
from bregjax._pytree import register_pytree


@register_pytree
@dataclass(frozen=True)
class _Pair:
    left: jax.typing.ArrayLike
    name: str = jax.tree.static()
    right: jax.typing.ArrayLike = 2.0


def test_arrays_are_leaves_and_static_fields_are_structure():
    pair = _Pair(1.0, "a")
    assert jax.tree.leaves(pair) == [1.0, 2.0]
    assert jax.tree.map(lambda x: 2 * x, pair) == _Pair(2.0, "a", 4.0)
    assert jax.tree.structure(pair) != jax.tree.structure(_Pair(1.0, "b"))
    (path, _), _ = jax.tree.leaves_with_path(pair)
    assert jax.tree_util.keystr(path) == ".left"


def test_structures_of_different_classes_differ():
    structures = [
        jax.tree.structure(make())
        for make in (convex.Burg, convex.SquaredNorm, convex.L1Norm, convex.Max)
    ]
    structures += map(jax.tree.structure, (convex.SumExp(), convex.NegativeEntropy()))
    for k, structure in enumerate(structures):
        assert structures.index(structure) == k


def test_jit_never_takes_one_class_for_another():
    @jax.jit
    def number(tree, x):
        return x + type(tree).number

    for k in range(60):
        cls = make_dataclass(f"Class{k}", [("a", float)], namespace={"number": k})
        assert number(register_pytree(cls)(1.0), jnp.zeros(())) == k


@pytest.mark.parametrize("x64", [False, True])
def test_conjugates_of_different_functions_do_not_share_a_solver(x64):
    start, y = jnp.ones(2), jnp.array([1.5, 0.7])
    for f in (convex.SumExp(0.0), convex.NegativeEntropy(0.0)):
        value = convex.conjugate(f, start)(y).value
        assert float(value) == pytest.approx(float(f.conjugate()(y)), rel=1e-5)
