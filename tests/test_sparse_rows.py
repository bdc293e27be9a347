"""Sparse rows: what is taken for them and what is refused, features and likelihoods."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse as jax_sparse  # noqa: TID251, what users pass
from sparse_cases import D, M, at_entries, counts, reals, rows_for, twins
from typing_extensions import override

import bregjax as bj
from bregjax import extend
from bregjax.convex import Mahalanobis, NegativeEntropy
from bregjax.objectives import (
    cut_cost,
    held_out_log_likelihood,
    leave_one_out_log_likelihood,
)
from bregjax.smoothing import adding

X = np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 0, 5]])
PROBLEMS = [
    ("multinomial", "mixing_uneven", "whole"),
    ("multinomial", "pseudo_count", "real"),
    ("poisson", "adding", "real"),
    ("poisson", "pseudo_count_uneven", "real"),
    ("bernoulli", "mixing_uneven", "whole"),
    ("dispersions", "adding_uneven", "real"),
    ("geometric", "mixing", "ones"),
    ("ward", "pseudo_count_uneven", "ones"),
    ("spherical_gaussian", "none", "real"),
    ("negative_entropy", "mixing", "ones"),
]


# Kinds of tables


def _coo_twice() -> Any:
    """Entries that come twice, some cancelling, one of 0, in no order."""
    rows = [2, 1, 0, 0, 1, 0, 2, 2, 2]
    columns = [3, 0, 3, 1, 0, 1, 3, 1, 1]
    return scipy.sparse.coo_array(([2, 2, 1, 1, 1, 1, 3, 4, -4], (rows, columns)))


def _csr_unsorted() -> Any:
    return scipy.sparse.csr_array(
        (np.array([1, 2, 0, 3, 5]), np.array([3, 1, 2, 0, 3]), np.array([0, 3, 4, 5])),
        (3, 4),
    )


KINDS = {
    **{
        f"{name}_{kind}": lambda name=name, kind=kind: getattr(
            scipy.sparse, f"{name}_{kind}"
        )(X)
        for name in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
        for kind in ("matrix", "array")
    },
    "coo_twice": _coo_twice,
    "csr_unsorted": _csr_unsorted,
    "single": lambda: scipy.sparse.csr_array(X.astype(np.float32)),
    "int8": lambda: scipy.sparse.csc_array(X.astype(np.int8)),
    "BCOO": lambda: jax_sparse.BCOO.fromdense(jnp.asarray(X)),
    "BCOO_padded": lambda: jax_sparse.BCOO.fromdense(jnp.asarray(X), nse=9),
    "BCSR": lambda: jax_sparse.BCSR.fromdense(jnp.asarray(X)),
    "BCSR_padded": lambda: jax_sparse.BCSR.fromdense(jnp.asarray(X), nse=9),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables(kind):
    table = KINDS[kind]()
    problem = bj.Problem(table, family="poisson")
    rows: Any = problem.x
    np.testing.assert_array_equal(rows.toarray(), X)
    assert rows.values.dtype == np.float64
    assert np.all(rows.values != 0)
    assert rows.pattern.columns.tolist() == [1, 3, 0, 3]
    assert rows.pattern.starts.tolist() == [0, 2, 3, 4]
    np.testing.assert_allclose(
        bj.agglomerate(table, family="poisson").merge_costs,
        bj.agglomerate(X, family="poisson").merge_costs,
        rtol=1e-14,
    )


def test_booleans():
    x = scipy.sparse.csr_array(X > 0)
    problem = bj.Problem(x, family="bernoulli")
    np.testing.assert_array_equal(problem.x.toarray(), X > 0)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_table_is_a_copy():
    table = scipy.sparse.csr_array(X.astype(float))
    problem = bj.Problem(table, family="poisson")
    table.data[:] = 7
    rows: Any = problem.x
    np.testing.assert_array_equal(rows.toarray(), X)
    with pytest.raises(ValueError, match="read-only"):
        rows.values[0] = 1


def test_rows_by_number():
    rows: Any = bj.Problem(scipy.sparse.csr_array(X), family="poisson").x
    for chosen in ([2, 0], slice(1, None), np.array([True, False, True]), [], [1, 1]):
        np.testing.assert_array_equal(rows[chosen].toarray(), X[chosen])


def test_problems_are_pytrees():
    problem, _ = twins(counts(), "poisson", "adding", "real")
    doubled = jax.tree.map(lambda leaf: 2 * leaf, problem)
    rows: Any = doubled.x
    np.testing.assert_array_equal(rows.toarray(), 2 * counts())
    assert jax.tree.structure(doubled) == jax.tree.structure(problem)
    other = problem.replace(x=scipy.sparse.csr_array(counts()[:4]), weights=None)
    assert jax.tree.structure(other) != jax.tree.structure(problem)
    text = repr(problem)
    assert f"{M} rows and {D} columns, " in text
    assert "% of the entries not 0" in text
    assert "SparseRows of shape (16, 24)" in repr(problem.x)


def test_replace():
    problem, dense = twins(reals(), "poisson", "mixing", "real")
    choices: list[dict[str, Any]] = [
        {"smoothing": bj.adding(np.ones(D), 0.2)},
        {"weights": None},
        {"family": "multinomial", "smoothing": None},
    ]
    for changes in choices:
        tree = bj.agglomerate(problem.replace(**changes))
        expected = bj.agglomerate(dense.replace(**changes))
        np.testing.assert_allclose(tree.merge_costs, expected.merge_costs, rtol=1e-12)
    tree = bj.agglomerate(problem.replace(x=reals()))
    assert isinstance(problem.replace(x=reals()).x, np.ndarray)
    np.testing.assert_allclose(
        tree.merge_costs, bj.agglomerate(problem).merge_costs, rtol=1e-12
    )


# What is refused


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        ([[0, 1], [np.nan, 2]], {"family": "poisson"}, "finite; got nan at row 1, col"),
        ([[0, 1], [2, -np.inf]], {"family": "ward"}, "finite; got -inf at row 1, col"),
        (
            [[0, 1, 0], [0, -2, -1]],
            {"family": "poisson"},
            r"non-negative.*got -2.0 at row 1, column 1 \(2 such",
        ),
        ([[0, 1], [2, 0]], {"family": "bernoulli"}, "got 2.0 at row 1, column 0"),
        ([[0, 1], [0, 0]], {"family": "multinomial"}, "row 1"),
        (
            [[0, 1], [1, 0]],
            {
                "family": "bernoulli",
                "smoothing": bj.pseudo_count(np.full(2, 0.5), 1.0),
                "weights": [1, 2],
            },
            "pseudo_count needs equal weights.*Bernoulli",
        ),
        ([[0, 1], [1, 0]], {"family": "poisson", "weights": [1, -1]}, "positive"),
    ],
)
def test_values_that_are_refused(x, options, message):
    with pytest.raises(ValueError, match=message):
        bj.Problem(scipy.sparse.csr_array(np.array(x, float)), **options)


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (X * 1j, {"family": "poisson"}, "real numbers; got a sparse csr_array of comp"),
        (X, {"family": "gaussian"}, "dense for Gaussian.*3 × 4.*toarray.*GiB"),
        (X, {"family": Mahalanobis(np.eye(4))}, "`x` must be dense"),
        (X, {"family": lambda t: jnp.sum(t**4)}, "`x` must be dense"),
        (X, {"family": "ward", "smoothing": bj.blur(1.0)}, "blur|smoothing|variances"),
    ],
)
def test_kinds_that_are_refused(x, options, message):
    with pytest.raises(TypeError, match=message):
        bj.Problem(scipy.sparse.csr_array(x), **options)


def test_a_sparse_vector_is_refused():
    with pytest.raises(ValueError, match="`x` must be a matrix.*shape"):
        bj.Problem(scipy.sparse.coo_array(np.arange(3.0)), family="poisson")


def test_engines_that_are_refused():
    problem = bj.Problem(scipy.sparse.csr_array(X), family="poisson")
    with pytest.raises(ValueError, match='"auto" or "sparse".*"?matrix'):
        bj.agglomerate(problem, engine="matrix")
    with pytest.raises(ValueError, match="`mesh` must be None where rows are sparse"):
        bj.agglomerate(problem, mesh=jax.make_mesh((1,), ("rows",)))
    with pytest.raises(ValueError, match="must not be traced where its rows are spa"):
        jax.jit(lambda problem: bj.agglomerate(problem).merge_costs)(problem)
    with pytest.raises(ValueError, match='"sparse" for Gaussian'):
        bj.agglomerate(np.ones((3, 2)), family="gaussian", engine="sparse")


@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_numbers_out_of_range_are_named_by_row_and_column(scale):
    errors = []
    for rows in (X * scale, scipy.sparse.csr_array(X * scale)):
        with pytest.raises((ValueError, ArithmeticError)) as error:
            bj.agglomerate(rows, family="ward")
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def test_new_rows_that_are_refused():
    problem, _ = twins(counts(), "poisson", "adding", "ones")
    tree = bj.agglomerate(problem)
    features = lambda rows: bj.dendrogram_features(problem, tree, rows, num_features=2)
    for wrong, message in [
        (counts()[:, 1:], "24 columns|dim"),
        (counts()[0], "a row a point|matrix"),
        (-counts(), "`rows` must be non-negative.*got -"),
    ]:
        with pytest.raises(ValueError, match=message):
            features(wrong)
    with pytest.raises(TypeError, match="`rows` must be sparse as the problem's rows"):
        jax.jit(features)(jnp.asarray(counts()))
    with pytest.raises(ValueError, match="`rows` must be non-negative.*got -"):
        features(scipy.sparse.csr_array(-counts()))


# Features, likelihoods and costs


def _new_rows(family) -> np.ndarray:
    """Rows with entries where those of the problem have none."""
    new = np.roll(counts()[:7], 3, axis=1)
    new[0, 0], new[1, 2] = 2, 1
    return rows_for(family, new) if family != "bernoulli" else (new > 0).astype(float)


FUNCTIONS: dict[str, Any] = {
    "features": lambda p, tree, rows: bj.dendrogram_features(
        p, tree, rows, num_features=6
    ),
    "own_features": lambda p, tree, rows: bj.dendrogram_features(
        p, tree, num_features=6
    ),
    "assignments": lambda p, tree, rows: bj.soft_assignments(
        p, tree, rows, num_clusters=4, temperature=3.0
    ),
    "own_assignments": lambda p, tree, rows: bj.soft_assignments(
        p, tree, num_clusters=4
    ),
    "held_out": lambda p, tree, rows: held_out_log_likelihood(
        p, tree, rows, num_clusters=4
    ),
    "leave_one_out": lambda p, tree, rows: leave_one_out_log_likelihood(
        p, tree, num_clusters=4
    ),
    "cut_cost": lambda p, tree, rows: cut_cost(p, tree, num_clusters=4),
    "cluster_cost": lambda p, tree, rows: bj.cluster_cost(p, [1, 4, 9]),
    "merge_cost": lambda p, tree, rows: bj.merge_cost(p, [1, 4], [9, 2, 11]),
    "direct": lambda p, tree, rows: bj.merge_cost(p, [1, 4], [9, 2, 11], direct=True),
}
OF_NEW_ROWS = ("features", "assignments", "held_out")


@pytest.mark.parametrize(("family", "smoothing", "weights"), PROBLEMS)
def test_values_are_those_of_dense_rows(family, smoothing, weights):
    """New rows may be sparse or dense, with either problem."""
    problem, dense = twins(reals(), family, smoothing, weights)
    tree = bj.agglomerate(dense).children
    new = _new_rows(family)
    for name, function in FUNCTIONS.items():
        expected = function(dense, tree, new)
        kinds = (new, scipy.sparse.coo_array(new)) if name in OF_NEW_ROWS else (None,)
        for rows in kinds:
            for one in (problem, dense):
                found = function(one, tree, rows)
                assert isinstance(found, np.ndarray | np.floating)
                np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=name)


@pytest.mark.parametrize("family", ["poisson", "multinomial"])
def test_without_smoothing_rows_outside_have_no_density(family):
    """−inf where a cluster has no such column, in sparse rows as in dense ones."""
    problem, dense = twins(reals(), family, "none", "ones")
    tree = bj.agglomerate(dense).children
    new = _new_rows(family)
    for name in ("features", "held_out", "leave_one_out"):
        expected = FUNCTIONS[name](dense, tree, new)
        found = FUNCTIONS[name](problem, tree, new)
        np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=name)


@pytest.mark.parametrize(("family", "smoothing", "weights"), PROBLEMS[:5])
@pytest.mark.parametrize("name", ["own_features", "assignments", "leave_one_out"])
def test_gradients_are_those_of_dense_rows(name, family, smoothing, weights, x64):
    del x64
    problem, dense = twins(reals(), family, smoothing, weights)
    tree, new = bj.agglomerate(dense).children, _new_rows(family)
    table = scipy.sparse.csr_array(new)
    loss = lambda rows: lambda one: jnp.sum(FUNCTIONS[name](one, tree, rows) ** 2)
    slopes = jax.jit(jax.grad(loss(table)))(problem)
    expected = jax.jit(jax.grad(loss(new)))(dense)
    scale = np.max(np.abs(np.asarray(expected.x)))
    np.testing.assert_allclose(
        slopes.x.values,
        at_entries(problem, expected.x),
        rtol=1e-8,
        atol=1e-10 * scale,
    )
    for leaf, other in zip(
        jax.tree.leaves((slopes.weights, slopes.smoothing, slopes.family)),
        jax.tree.leaves((expected.weights, expected.smoothing, expected.family)),
        strict=True,
    ):
        scale = np.max(np.abs(np.asarray(other)))
        np.testing.assert_allclose(leaf, other, rtol=1e-8, atol=1e-10 * scale)


@extend.register_pytree
@dataclass(frozen=True)
class OwnCounts(extend.VectorFamily):
    """Poisson counts, as a user would write them for sparse rows."""

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def takes_sparse(self) -> bool:
        return True

    @property
    @override
    def natural_init(self):
        return jnp.zeros(self.known_dim)

    @override
    def log_partition(self, natural):
        return jnp.sum(jnp.exp(natural))

    @override
    def sufficient_statistics(self, x):
        return jnp.asarray(x, dtype=float)

    @override
    def log_base_measure(self, x):
        return -jnp.sum(jax.scipy.special.gammaln(x + 1))

    @override
    def cluster_model(self):
        return extend.BregmanModel(NegativeEntropy())


def test_a_family_of_ones_own():
    """Densities by θ and ψ alone; see docs/extend.md."""
    table = scipy.sparse.csr_array(counts())
    center = np.full(D, 0.1)
    own, built_in = (
        bj.Problem(table, family=family, smoothing=adding(center, 1.0))
        for family in (OwnCounts(), "poisson")
    )
    tree = bj.agglomerate(own)
    costs = bj.agglomerate(built_in).merge_costs
    np.testing.assert_array_equal(tree.merge_costs, costs)
    for name in ("features", "held_out", "leave_one_out"):
        found, expected = (
            FUNCTIONS[name](problem, tree, counts()[:3]) for problem in (own, built_in)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-11, err_msg=name)
    found, expected = (
        bj.soft_clustering(problem, num_clusters=2, init=tree)
        for problem in (own, built_in)
    )
    np.testing.assert_allclose(
        found.log_likelihood(), expected.log_likelihood(), rtol=1e-12
    )


KINDS_OF_VALUES = ("features", "held_out", "assignments")


def test_few_new_rows_share_what_compiles(caplog):
    """Whatever their entries: documents come one by one."""
    problem, dense = twins(reals(), "poisson", "adding", "ones")
    tree = bj.agglomerate(dense).children
    new = _new_rows("poisson")[:4]
    new[:, :3] = 0  # words nobody used before are more columns, in a table this small

    def values(row):
        table = scipy.sparse.csr_array(new[[row]])
        return [FUNCTIONS[name](problem, tree, table) for name in KINDS_OF_VALUES]

    values(0)
    jax.config.update("jax_log_compiles", True)
    try:
        with caplog.at_level("WARNING"):
            found = values(1)
    finally:
        jax.config.update("jax_log_compiles", False)
    compiled = [r for r in caplog.records if "Compiling" in r.getMessage()]
    assert not compiled, [r.getMessage() for r in compiled]
    for name, value in zip(KINDS_OF_VALUES, found, strict=True):
        expected = FUNCTIONS[name](dense, tree, new[[1]])
        np.testing.assert_allclose(value, expected, rtol=1e-10, err_msg=name)


def test_rows_of_another_width_are_told():
    problem, _ = twins(counts(), "poisson", "none", "ones")
    tree = bj.agglomerate(problem)
    with pytest.raises(ValueError, match=r"`rows` must have 24 columns, as `x` has"):
        bj.soft_assignments(problem, tree, counts()[:, :9], num_clusters=2)
