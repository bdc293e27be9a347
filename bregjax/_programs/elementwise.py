"""Primitives of one number at a time, and of number types, by NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["BUILDERS", "Run", "Unknown"]

Run = Callable[..., Any]
"""What computes the outputs of an equation from the arrays of its operands."""


class Unknown(Exception):
    """Raised where a primitive, or a way to call one, has no form in NumPy here."""


def _always(function: Run) -> Callable[[Any], Run]:
    return lambda eqn: function


def _integer_pow(eqn: Any) -> Run:
    power = int(eqn.params["y"])
    if power == 2:
        return np.square
    if power in (3, 4):
        return _cube if power == 3 else _fourth
    if power < 0:
        return lambda x: 1 / x**-power
    return lambda x: x**power


def _cube(x: np.ndarray) -> np.ndarray:
    return x * x * x


def _fourth(x: np.ndarray) -> np.ndarray:
    square = x * x
    return square * square


def _quotient(eqn: Any) -> Run:
    if np.issubdtype(eqn.outvars[0].aval.dtype, np.integer):
        return _towards_zero
    return np.divide


def _towards_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quotient of whole numbers, without its remainder; by 0 all bits are set."""
    found = (a - np.fmod(a, b)) // b
    return np.where(b == 0, np.invert(np.zeros_like(found)), found)


def _remainder(eqn: Any) -> Run:
    if np.issubdtype(eqn.outvars[0].aval.dtype, np.integer):
        return lambda a, b: np.where(b == 0, a, np.fmod(a, b))
    return np.fmod


def _power(eqn: Any) -> Run:
    base, power = (np.dtype(operand.aval.dtype) for operand in eqn.invars)
    if base.kind != "f":
        raise Unknown("pow of whole numbers")
    if power == base:
        return np.power
    return lambda x, y: np.power(x, y.astype(base))


def _select(eqn: Any) -> Run:
    if len(eqn.invars) == 3 and eqn.invars[0].aval.dtype == bool:
        return lambda which, no, yes: np.where(which, yes, no)
    return _chosen


def _chosen(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    """The case of each number; of numbers out of range, the first or the last."""
    found = cases[-1]
    for number, case in reversed([*enumerate(cases[:-1])]):
        found = np.where(which <= number, case, found)
    return found


def _converted(eqn: Any) -> Run:
    old, dtype = eqn.invars[0].aval.dtype, np.dtype(eqn.params["new_dtype"])
    if dtype.kind in "iu" and np.issubdtype(old, np.floating):
        return _whole(dtype)
    return lambda x: np.asarray(x).astype(dtype)


def _whole(dtype: np.dtype) -> Run:
    """Floating numbers to whole ones: the nearest that there is, and 0 for NaN."""
    info = np.iinfo(dtype)
    # One more than the last number is a floating number; the last may be none.
    low, beyond = float(info.min), float(2 ** (info.bits - (dtype.kind == "i")))

    def run(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        inside = (low <= x) & (x < beyond)
        found = np.where(inside, x, 0).astype(dtype)
        if np.all(inside):
            return found
        found = np.where(x < low, info.min, found)
        return np.where(x >= beyond, info.max, found).astype(dtype)

    return run


def _platform(eqn: Any) -> Run:
    """The number of the branch that is meant for CPUs."""
    for number, platforms in enumerate(eqn.params["platforms"]):
        if platforms is None or "cpu" in platforms:
            return lambda: np.int32(number)
    raise Unknown("platform_index without a branch for CPUs")


def _in_total_order(compare: Run) -> Callable[[Any], Run]:
    """Compare numbers in the order that has −0 before 0, and NaN after all others."""

    def build(eqn: Any) -> Run:
        if not np.issubdtype(eqn.invars[0].aval.dtype, np.floating):
            return compare
        return lambda a, b: compare(_rank(a), _rank(b))

    return build


def _rank(x: np.ndarray) -> np.ndarray:
    """Whole numbers in the total order of floating ones."""
    x = np.asarray(x)
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, ~bits ^ np.iinfo(bits.dtype).min, bits)


def _reinterpreted(eqn: Any) -> Run:
    old, dtype = eqn.invars[0].aval.dtype, np.dtype(eqn.params["new_dtype"])
    if old.itemsize != dtype.itemsize:
        raise Unknown("bitcast_convert_type to another size")
    return lambda x: np.asarray(x).view(dtype)


def _rounded(eqn: Any) -> Run:
    if int(eqn.params["rounding_method"]) == 1:
        return np.rint
    return _away_from_zero


def _away_from_zero(x: np.ndarray) -> np.ndarray:
    """The nearest whole number, of two that are equally near the larger in size."""
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x).astype(whole.dtype)


def _reduced_precision(eqn: Any) -> Run:
    """Round to fewer binary digits: exponents of float64 and float32 stay as they are.

    The digits that go are those of the bit pattern from the right, to the nearest, half
    to even. With two digits to keep, 1.0110 in binary becomes 1.10.
    """
    dtype = np.dtype(eqn.outvars[0].aval.dtype)
    info = np.finfo(dtype)
    if eqn.params["exponent_bits"] != info.nexp:
        raise Unknown("reduce_precision with fewer bits of the exponent")
    drop = info.nmant - eqn.params["mantissa_bits"]
    if drop <= 0:
        return _same
    whole = np.dtype(f"u{dtype.itemsize}")
    one, half = whole.type(1), whole.type((1 << (drop - 1)) - 1)
    mask = ~whole.type((1 << drop) - 1)

    def run(x: np.ndarray) -> np.ndarray:
        bits = np.asarray(x).view(whole)
        bits = (bits + half + ((bits >> whole.type(drop)) & one)) & mask
        return np.where(np.isfinite(x), bits.view(dtype), x)

    return run


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _clamped(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, low), high)


def _logical_shift(x: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Move bits to the right, zeros behind them."""
    x = np.asarray(x)
    whole = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(x.view(whole), np.asarray(count).view(whole)).view(x.dtype)


BUILDERS: dict[str, Callable[[Any], Run]] = {
    **{
        name: _always(function)
        for name, function in {
            "abs": np.abs,
            "add": np.add,
            "add_any": np.add,
            "and": np.bitwise_and,
            "atan2": np.arctan2,
            "ceil": np.ceil,
            "clamp": _clamped,
            "copy": np.copy,
            "copy_p": np.copy,
            "cos": np.cos,
            "cosh": np.cosh,
            "acos": np.arccos,
            "asin": np.arcsin,
            "atan": np.arctan,
            "atanh": np.arctanh,
            "asinh": np.arcsinh,
            "acosh": np.arccosh,
            "cbrt": np.cbrt,
            "eq": np.equal,
            "exp": np.exp,
            "exp2": np.exp2,
            "expm1": np.expm1,
            "floor": np.floor,
            "ge": np.greater_equal,
            "gt": np.greater,
            "is_finite": np.isfinite,
            "le": np.less_equal,
            "log": np.log,
            "log1p": np.log1p,
            "lt": np.less,
            "max": np.maximum,
            "min": np.minimum,
            "mul": np.multiply,
            "ne": np.not_equal,
            "neg": np.negative,
            "nextafter": np.nextafter,
            "not": np.invert,
            "or": np.bitwise_or,
            "rsqrt": lambda x: 1 / np.sqrt(x),
            "shift_left": np.left_shift,
            "shift_right_arithmetic": np.right_shift,
            "shift_right_logical": _logical_shift,
            "sign": np.sign,
            "sin": np.sin,
            "sinh": np.sinh,
            "sqrt": np.sqrt,
            "square": np.square,
            "stop_gradient": _same,
            "sub": np.subtract,
            "tan": np.tan,
            "tanh": np.tanh,
            "xor": np.bitwise_xor,
        }.items()
    },
    "bitcast_convert_type": _reinterpreted,
    "convert_element_type": _converted,
    "div": _quotient,
    "eq_to": _in_total_order(np.equal),
    "integer_pow": _integer_pow,
    "le_to": _in_total_order(np.less_equal),
    "lt_to": _in_total_order(np.less),
    "reduce_precision": _reduced_precision,
    "optimization_barrier": _always(lambda *operands: operands),
    "platform_index": _platform,
    "pow": _power,
    "rem": _remainder,
    "round": _rounded,
    "select_n": _select,
}
