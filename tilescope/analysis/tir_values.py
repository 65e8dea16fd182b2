"""Evaluate integer expressions of lowered TIR for many lanes at once, with numpy.

Only what an index or a bounds check is made of: arithmetic, division, shifts, bit operations, comparisons, selects. An
expression that reads memory or calls anything else raises `Unknown`, which says why: a number is never guessed.
"""

from collections.abc import Mapping

import numpy as np
from tilelang import tvm

tirx = tvm.tirx
Env = Mapping[tirx.Var, object]  # value of each variable: an int or an array; or the expression that it was bound to


class Unknown(Exception):
    """The value cannot be known before the kernel runs; the message says what it depends on."""


class DependsOnData(Unknown):
    """What a kernel reads decides."""


_BINARY = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
}
_CALLS = {
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def call_name(call: tirx.Call) -> str:
    """Name of the operator of a TIR call without its dialect prefix: "if_then_else", "call_extern"."""
    return str(getattr(call.op, "name", call.op)).rsplit(".", 1)[-1]


def evaluate(expr: object, env: Env) -> np.ndarray:
    """Value of `expr` (int64 or bool) under `env`; arrays of `env` broadcast against each other.

    Raises Unknown for a variable without a value, a memory read, or an operator that no index is made of.
    """
    if isinstance(expr, int | np.integer | np.ndarray):
        return np.asarray(expr)
    if isinstance(expr, tirx.IntImm):
        return np.asarray(int(expr.value))
    if isinstance(expr, tirx.Var):
        if expr not in env:
            raise Unknown(f"depends on {expr.name}")
        return evaluate(env[expr], env)
    if ufunc := _BINARY.get(type(expr)):
        return ufunc(evaluate(expr.a, env), evaluate(expr.b, env))
    if isinstance(expr, tirx.Div | tirx.Mod):  # C semantics: rounds toward zero
        a, b = evaluate(expr.a, env), evaluate(expr.b, env)
        quotient = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
        return quotient if isinstance(expr, tirx.Div) else a - quotient * b
    if isinstance(expr, tirx.Not):
        return np.logical_not(evaluate(expr.a, env))
    if isinstance(expr, tirx.Cast) and str(expr.dtype).startswith(("int", "uint", "bool")):
        return _wrapped(evaluate(expr.value, env), str(expr.dtype))
    if isinstance(expr, tirx.Select):
        return np.where(evaluate(expr.condition, env), evaluate(expr.true_value, env), evaluate(expr.false_value, env))
    if isinstance(expr, tirx.BufferLoad):
        raise DependsOnData(f"depends on data: it reads {expr.buffer.name}")
    if isinstance(expr, tirx.Call):
        name = call_name(expr)
        if name == "likely":
            return evaluate(expr.args[0], env)
        if name == "if_then_else":
            return np.where(*(evaluate(arg, env) for arg in expr.args))
        if ufunc := _CALLS.get(name):
            return ufunc(evaluate(expr.args[0], env), evaluate(expr.args[1], env))
        raise Unknown(f"depends on the call {name}")
    raise Unknown(f"depends on {type(expr).__name__} {expr}")


def _wrapped(values: np.ndarray, dtype: str) -> np.ndarray:
    """What a cast to an integer type leaves of `values`: the low bits."""
    bits = int("".join(filter(str.isdigit, dtype)) or 1)
    if bits >= 64 or dtype == "bool":
        return values
    low = 0 if dtype.startswith("uint") else -(1 << (bits - 1))
    return (values - low) % (1 << bits) + low


def variables(expr: object, env: Env) -> set[tirx.Var]:
    """Variables that `expr` depends on, seen through the bindings of `env`."""
    found: set[tirx.Var] = set()

    def visit(node: object) -> None:
        if isinstance(node, tirx.Var) and node not in found:
            found.add(node)
            if isinstance(bound := env.get(node), tirx.PrimExpr):
                tirx.stmt_functor.post_order_visit(bound, visit)

    if isinstance(expr, tirx.PrimExpr):
        tirx.stmt_functor.post_order_visit(expr, visit)
    return found
