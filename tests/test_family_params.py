"""Parameters of a family of one's own: any pytree; and how the family shows itself."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from own_potentials import identity

from bregjax import ExponentialFamily, Problem, agglomerate, replay

X = np.array([[1.0, 2.0], [2.0, 7.0], [4.0, 3.0], [9.0, 5.0], [6.0, 8.0]])


@jax.tree_util.register_pytree_with_keys_class
@dataclass
class Module:
    """What a neural-network library calls a module: every field a child."""

    weight: Any
    activation: Callable
    options: Any = None

    def tree_flatten_with_keys(self):
        names = [field.name for field in fields(self)]
        keys = [jax.tree_util.GetAttrKey(name) for name in names]
        return [(k, getattr(self, n)) for k, n in zip(keys, names, strict=True)], None

    def tree_flatten(self):
        pairs, aux = self.tree_flatten_with_keys()
        return [child for _, child in pairs], aux

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def _psi(theta, module):
    return jnp.sum(module.activation(theta) / module.weight)


def _family(weight, activation=jnp.exp, options=None):
    module = Module(weight, activation, options)
    return ExponentialFamily(_psi, identity, np.zeros(2), params=module, separable=True)


def test_modules_with_functions_in_them_are_parameters(x64):
    """ψ = Σ e^θ / r is r Poisson costs for one: ψ* of μ is a function of rμ."""
    del x64
    family = _family(jnp.array(2.0))
    tree = agglomerate(X, family=family)
    poisson = agglomerate(2 * X, family="poisson")
    np.testing.assert_array_equal(tree.children, poisson.children)
    np.testing.assert_allclose(tree.merge_costs, poisson.merge_costs / 2, rtol=1e-10)

    def total(weight, factor):
        return replay(Problem(X * factor, family=_family(weight)), tree).sum()

    # Σ μ log(rμ/rc) does not depend on r at all, and is as large as μ.
    by_weight, by_factor = jax.grad(total, (0, 1))(jnp.array(2.0), 1.0)
    assert abs(by_weight) < 1e-9
    np.testing.assert_allclose(by_factor, tree.merge_costs.sum(), rtol=1e-8)


def test_arrays_are_leaves_and_the_rest_is_structure():
    family = _family(np.ones(2), options={"names": ["a", "b"], "deep": True, "k": 3})
    names = [jax.tree_util.keystr(p) for p, _ in jax.tree.leaves_with_path(family)]
    assert names == [".natural_init", ".params.weight", ".params.options['k']"]
    assert family.params.activation is jnp.exp
    assert family.params.options["names"] == ["a", "b"]
    assert family.params.options["deep"] is True
    doubled = jax.tree.map(lambda leaf: 2 * leaf, family)
    np.testing.assert_array_equal(doubled.params.weight, [2, 2])
    assert doubled.params.activation is jnp.exp
    marks = jax.tree.map(lambda leaf: "mark", family)
    assert jax.tree.structure(marks) == jax.tree.structure(family)
    assert marks.params.weight == "mark"


def test_structures_follow_what_is_not_an_array():
    structure = lambda *args: jax.tree.structure(_family(*args))
    assert structure(1.0) == structure(3.0)
    assert structure(1.0, jnp.exp) != structure(1.0, jnp.cosh)
    assert structure(1.0, jnp.exp, "a") != structure(1.0, jnp.exp, "b")
    assert structure(1.0, jnp.exp, True) != structure(1.0, jnp.exp, False)
    unhashable = {"set": _Unhashable()}
    assert structure(1.0, jnp.exp, unhashable) == structure(2.0, jnp.exp, unhashable)
    other = {"set": _Unhashable()}
    assert structure(1.0, jnp.exp, unhashable) != structure(1.0, jnp.exp, other)


class _Unhashable:
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __eq__(self, other):
        return isinstance(other, _Unhashable)


def test_new_arrays_do_not_compile_again():
    traces = []

    @jax.jit
    def value(family):
        traces.append(1)
        return family.log_partition(jnp.ones(2))

    for weight in (1.0, 2.0):
        assert value(_family(weight)) == pytest.approx(2 * np.e / weight, rel=1e-5)
    assert len(traces) == 1
    assert value(_family(1.0, jnp.cosh)) == pytest.approx(2 * np.cosh(1), rel=1e-5)


def test_plain_parameters_have_names_too():
    psi = lambda theta, p: jnp.sum(p["r"] * jnp.exp(theta["a"]))
    family = ExponentialFamily(
        psi, lambda x: {"a": x}, {"a": np.zeros(2)}, params={"r": 2.0, "none": None}
    )
    names = [jax.tree_util.keystr(p) for p, _ in jax.tree.leaves_with_path(family)]
    assert names == [".natural_init['a']", ".params['r']"]
    assert family.params["none"] is None


def test_repr_names_functions_and_shapes():
    psi = lambda theta: jnp.sum(jnp.exp(theta))
    family = ExponentialFamily(psi, lambda x: x, np.zeros(2), separable=True)
    assert repr(family) == (
        "ExponentialFamily(log_partition=<lambda>, sufficient_statistics=<lambda>, "
        "natural_init=float64[2], separable=True)"
    )
    family = ExponentialFamily(
        functools.partial(_psi),
        identity,
        np.zeros(2),
        log_base_measure=jnp.sum,
        params=Module(np.ones((2,)), jnp.exp, ["a", 3]),
    )
    assert repr(family) == (
        "ExponentialFamily(log_partition=partial(_psi), sufficient_statistics="
        "identity, natural_init=float64[2], log_base_measure=sum, params=Module("
        "weight=float64[2], activation=exp, options=['a', int32[]]))"
    )
    large = {f"layer {k}": np.ones((3, 4)) for k in range(30)}
    family = ExponentialFamily(
        lambda theta, p: jnp.sum(theta**2), lambda x: x, np.zeros(2), params=large
    )
    assert repr(family).endswith("params=<30 leaves, 360 numbers>)")


def test_repr_of_a_traced_family():
    seen = []
    jax.jit(lambda family: seen.append(repr(family)))(_family(1.0))
    assert "natural_init=float32[2], params=Module(weight=float32[]" in seen[0]
