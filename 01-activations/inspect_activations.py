"""What memory accesses do the kernels of this chapter make, and how many instructions? Nothing here needs a GPU.

python3 inspect_activations.py            for each rung: its CUDA, the SASS that touches memory, and the tables
python3 inspect_activations.py --tables   the tables only
python3 inspect_activations.py --write    the tables, into README.md
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "evidence"))

import accuracy
import gelu_variants as gelu
import op_matrix
import relu_variants as relu

from tilescope.book import chapter
from tilescope.display import tables

README = Path(__file__).with_name("README.md")
N = 1 << 20

RELU = {
    factory: (getattr(relu, factory), {"n": N})
    for factory in ("relu_flat", "relu_thread_vec", "relu_select", "relu_register_vec")
}
GELU = {
    factory: (getattr(gelu, factory), {"n": N})
    for factory in (
        "gelu_tanh_flat",
        "gelu_tanh_thread_vec",
        "gelu_tanh_register_vec",
        "gelu_tanh_fast",
        "gelu_erf_thread_vec",
        "gelu_erf_register_vec",
        "gelu_erf_grid_stride",
        "gelu_erf_as7126",
    )
}


def relu_table() -> tables.Table:
    """ReLU: rung x dtype x architecture, n = 2^20."""
    return chapter.rung_table(RELU, ("float32", "bfloat16"))


def gelu_table() -> tables.Table:
    """GELU: rung x dtype x architecture, n = 2^20."""
    return chapter.rung_table(GELU, ("float32", "bfloat16"))


TABLES = {
    "relu": relu_table,
    "gelu": gelu_table,
    "matrix": op_matrix.matrix_table,
    "instructions": accuracy.instruction_table,
    "tanh": accuracy.tanh_table,
    "accuracy": accuracy.recorded_table,
}
CODE = [(factory, {**args, "dtype": "bfloat16"}) for factory, args in (*RELU.values(), *GELU.values())]

if __name__ == "__main__":
    chapter.inspect_main(README, TABLES, CODE)
