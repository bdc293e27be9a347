"""Does an encoder trained through the clustering, without labels, find classes?

Digits of scikit-learn, five seeds: a small network maps pixels to eight numbers, which
are whitened (a collapsed encoder would have all the likelihood there is); the
leave-one-out likelihood of a cut into ten Gaussian clusters is its objective. The tree
is made anew every few steps, of a batch if `--batch` is less than the training rows.
Purity is that of the tree of held-out rows, beside raw pixels and principal components
of the same dimension.

    python benchmarks/encoder.py
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import bregjax as bj
from bregjax.objectives import leave_one_out_log_likelihood

WIDTH, DIM, CLUSTERS = 64, 8, 10


def encoder(params, x):
    hidden = jnp.tanh(x @ params["in"] + params["bias"][None])
    return x @ params["skip"] + hidden @ params["out"]


def whitened(z, reference):
    """z in units in which the reference has mean 0 and covariance 1."""
    center = jnp.mean(reference, axis=0, keepdims=True)
    gap = reference - center
    factor = jnp.linalg.cholesky(gap.T @ gap / len(gap) + 1e-6 * jnp.eye(z.shape[1]))
    return jax.scipy.linalg.solve_triangular(factor, (z - center).T, lower=True).T


def initial(key, components):
    """Principal components, and a network that adds nothing yet."""
    d = components.shape[1]
    return {
        "in": jax.random.normal(key, (d, WIDTH)) / jnp.sqrt(d),
        "bias": jnp.zeros(WIDTH),
        "skip": jnp.asarray(components.T),
        "out": jnp.zeros((WIDTH, DIM)),
    }


def train(x, key, *, steps, rate, batch, recluster_every, bandwidth, components):
    options = {"family": bj.Gaussian(), "smoothing": bj.blur(bandwidth)}
    params = initial(key, components)
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, steps))
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, children, rows):
        def loss(params):
            z = encoder(params, rows)
            problem = bj.Problem(whitened(z, z), **options)
            likelihood = leave_one_out_log_likelihood(
                problem, children, num_clusters=CLUSTERS
            )
            return -likelihood / len(rows)

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    rng = np.random.default_rng(int(jax.random.key_data(key)[-1]))
    history = []
    for count in range(steps):
        if count % recluster_every == 0:
            rows = x[rng.choice(len(x), batch, replace=False)]
            z = encoder(params, rows)
            children = bj.agglomerate(np.asarray(whitened(z, z)), **options).children
        params, state, value = step(params, state, children, rows)
        history.append(float(value))
    return params, history


def purity(z, labels, family, smoothing):
    tree = bj.agglomerate(np.asarray(z), family=family, smoothing=smoothing)
    return bj.dendrogram_purity(tree, labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--recluster-every", type=int, default=20)
    parser.add_argument("--bandwidth", type=float, default=0.4)
    arguments = parser.parse_args()
    digits = load_digits()
    scores = {}
    for seed in range(arguments.seeds):
        order = np.random.default_rng(seed).permutation(len(digits.data))
        train_rows, test_rows = order[:1000], order[1000:]
        x = digits.data / 16.0
        mean = x[train_rows].mean(0)
        x, labels = x - mean, digits.target[test_rows]
        pca = PCA(DIM).fit(x[train_rows])
        params, history = train(
            x[train_rows],
            jax.random.key(seed),
            steps=arguments.steps,
            rate=arguments.rate,
            batch=arguments.batch,
            recluster_every=arguments.recluster_every,
            bandwidth=arguments.bandwidth,
            components=pca.components_,
        )
        code = functools.partial(encoder, params)
        test, reference = x[test_rows], x[train_rows]
        blur = bj.blur(arguments.bandwidth)
        white = whitened(code(test), code(reference))
        white_pca = whitened(pca.transform(test), pca.transform(reference))
        result = {
            "raw pixels, Ward": purity(test, labels, "ward", None),
            "PCA, Ward": purity(pca.transform(test), labels, "ward", None),
            "PCA, Gaussian": purity(pca.transform(test), labels, "gaussian", "auto"),
            "whitened PCA, Gaussian": purity(white_pca, labels, bj.Gaussian(), blur),
            "encoder, Ward": purity(white, labels, "ward", None),
            "encoder, Gaussian": purity(white, labels, bj.Gaussian(), blur),
        }
        print(seed, f"{history[0]:.3f} → {history[-1]:.3f}", result, flush=True)
        for name, value in result.items():
            scores.setdefault(name, []).append(value)
    print("| rows as | purity, mean ± deviation |\n|---|---|")
    for name, values in scores.items():
        print(f"| {name} | {np.mean(values):.3f} ± {np.std(values, ddof=1):.3f} |")


if __name__ == "__main__":
    main()
