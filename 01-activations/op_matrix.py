"""Which operations keep a loop vectorised? Each is written in three ways, and the compiler's answer is read off.

inline     Y[k] = op(X[k])
named      x = X[k]; Y[k] = op(x)
fragments  copy a tile to registers, op there, copy it back
"""

import tilelang
import tilelang.language as T

from tilescope import KernelReport, inspect_many
from tilescope.display import tables

TILE, THREADS = 2048, 256
FORMS = ("inline", "named", "fragments")
ARCH = "sm_90a"

OPS = {
    "T.max(x, 0)": lambda x: T.max(x, T.cast(0, x.dtype)),
    "T.clamp(x, 0, 1)": lambda x: T.clamp(x, T.cast(0, x.dtype), T.cast(1, x.dtype)),
    "T.abs(x)": lambda x: T.abs(x),
    "T.exp(x)": lambda x: T.exp(x),
    "T.exp2(x)": lambda x: T.exp2(x),
    "T.log(x)": lambda x: T.log(x),
    "T.tanh(x)": lambda x: T.tanh(x),
    "T.sigmoid(x)": lambda x: T.sigmoid(x),
    "T.sqrt(x)": lambda x: T.sqrt(x),
    "T.rsqrt(x)": lambda x: T.rsqrt(x),
    "T.erf(x)": lambda x: T.erf(x),
    "T.__exp(x)": lambda x: T.__exp(x),
    "T.fast_rcp(x)": lambda x: T.fast_rcp(x),
    "T.if_then_else(x > 0, x, 0)": lambda x: T.if_then_else(x > T.cast(0, x.dtype), x, T.cast(0, x.dtype)),
    "T.Select(x > 0, x, 0)": lambda x: T.Select(x > T.cast(0, x.dtype), x, T.cast(0, x.dtype)),
}


@tilelang.jit(out_idx=[-1])
def one_op(op, form, dtype="float32", n=1 << 20):
    """Y = op(X), float32 arithmetic. X, Y: (n,) of `dtype`; op: a key of OPS; form: one of FORMS."""
    apply = OPS[op]

    @T.macro
    def inline(X, Y, bx):
        for i in T.Parallel(TILE):
            Y[bx * TILE + i] = T.cast(apply(T.cast(X[bx * TILE + i], "float32")), dtype)

    @T.macro
    def named(X, Y, bx):
        for i in T.Parallel(TILE):
            x = T.cast(X[bx * TILE + i], "float32")
            Y[bx * TILE + i] = T.cast(apply(x), dtype)

    @T.macro
    def fragments(X, Y, bx):
        x = T.alloc_fragment((TILE,), dtype)
        y = T.alloc_fragment((TILE,), dtype)
        T.copy(X[bx * TILE], x)
        for i in T.Parallel(TILE):
            y[i] = T.cast(apply(T.cast(x[i], "float32")), dtype)
        T.copy(y, Y[bx * TILE])

    body = {"inline": inline, "named": named, "fragments": fragments}[form]

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(n // TILE, threads=THREADS) as bx:
            body(X, Y, bx)

    return main


def matrix(dtype: str) -> dict[str, dict[str, KernelReport]]:
    """Report of every op in every form."""
    keys = [(op, form) for op in OPS for form in FORMS]
    specs = [(one_op, {"op": op, "form": form, "dtype": dtype, "arch": ARCH, "sass": False}) for op, form in keys]
    reports = dict(zip(keys, inspect_many(specs), strict=True))
    return {op: {form: reports[op, form] for form in FORMS} for op in OPS}


def matrix_table() -> tables.Table:
    """Verdict by op, form and dtype."""
    by_dtype = {dtype: matrix(dtype) for dtype in ("float32", "bfloat16")}
    rows = []
    for op in OPS:
        rows.append((f"`{op}`", *(by_dtype[d][op][form].verdict for d in by_dtype for form in FORMS)))
    return tables.Table(("operation", *(f"{d}, {form}" for d in by_dtype for form in FORMS)), rows)


if __name__ == "__main__":
    tables.console().print(matrix_table().rich())
