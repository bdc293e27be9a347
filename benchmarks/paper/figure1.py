"""Figure 1: divergences from a point where the function has a kink.

f(x) = x²/4 + |x − 1| has a kink at y = 1, with the subgradients from −½ to 3/2. By
Definition 2.1, B_f(x, y) = f(x) − f(y) + f′(y; y − x), the gap between f and the line
through (y, f(y)) whose slope is the subgradient that is farthest from x: −½ to the
right of y, 3/2 to the left. The lines of all subgradients lie between the two.
"""

import jax.numpy as jnp
import numpy as np
import report
from matplotlib.figure import Figure

import bregjax as bj
from bregjax.convex import directional_derivative

PART = "figure1"
REFERENCE = 1.0
POINTS = (-2.0, -0.5, 2.0, 3.0)


def function(x):
    """A convex function of one number, with a kink at 1."""
    return jnp.sum(x**2 / 4 + jnp.abs(x - 1))


def run() -> None:
    """Compute the divergences of some points, and the farthest of many subgradients."""
    report.forget(PART)
    y = jnp.array([REFERENCE])
    along = lambda v: float(directional_derivative(function, y, jnp.array([v])))
    slopes = np.linspace(-along(-1.0), along(1.0), 9)
    for point in POINTS:
        x = jnp.array([point])
        rise = float(function(x) - function(y))
        report.append(
            PART,
            {
                "x": point,
                "divergence": round(float(bj.bregman_divergence(function, x, y)), 4),
                "farthest": round(float(max(rise - slopes * (point - REFERENCE))), 4),
                "slopes": [round(float(slopes[0]), 4), round(float(slopes[-1]), 4)],
            },
        )


def section() -> str:
    """The picture, and the divergences."""
    records = report.read(PART)
    if not records:
        return "## Figure 1"
    _draw(records)
    rows = [(r["x"], r["divergence"], r["farthest"]) for r in records]
    heads = ("x", "B_f(x, 1), by one-sided derivatives", "max over subgradients")
    return "\n\n".join(
        [
            "## Figure 1: divergences at a kink",
            __doc__.split("\n\n", 1)[1].strip(),
            "![Figure 1](figure1.png)",
            report.table(heads, rows),
        ]
    )


def _draw(records: list[report.Record]) -> None:
    figure = Figure((5.5, 3.6), layout="constrained")
    axis = figure.subplots()
    x = np.linspace(-2.4, 3.4, 200)
    value = lambda x: x**2 / 4 + np.abs(x - 1)
    low, high = records[0]["slopes"]
    line = lambda slope, x: value(REFERENCE) + slope * (x - REFERENCE)
    axis.fill_between(
        x, line(low, x), line(high, x), color="0.9", label="all subgradients at y"
    )
    axis.plot(x, value(x), "k", label="f")
    for record in records:
        point = record["x"]
        slope = low if point > REFERENCE else high
        ends = np.array([REFERENCE, point])
        color = "tab:red" if point > REFERENCE else "tab:blue"
        axis.plot(ends, line(slope, ends), ":", color=color)
        axis.plot([point] * 2, [line(slope, point), value(point)], "--", color=color)
        axis.annotate(f"{record['divergence']:g}", (point, value(point)))
    axis.plot(REFERENCE, value(REFERENCE), "ko")
    axis.set(xlabel="x", title="B_f(x, 1) at a kink of f")
    axis.legend(frameon=False, fontsize="small")
    figure.savefig(report.HERE / "figure1.png", dpi=120)
