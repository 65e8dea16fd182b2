"""What the rungs of this chapter are measured against, besides PyTorch's own functions and cuda_baselines.py.

Triton kernels stand in activation_triton.py, which is imported on the first call: without Triton they are "not run".
"""

import gelu_variants as gelu
import tilelang
import torch
import torch.nn.functional as F

# `gelu_tanh_register_vec` with nvcc's --use_fast_math, which makes tanhf one instruction, and less accurate.
gelu_tanh_fast_math = tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})(
    gelu.gelu_tanh_register_vec.func.orig_func
)


def torch_gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def triton_relu(x: torch.Tensor) -> torch.Tensor:
    import activation_triton

    return activation_triton.relu(x)


def triton_gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    import activation_triton

    return activation_triton.gelu_tanh(x)


def triton_gelu_erf(x: torch.Tensor) -> torch.Tensor:
    import activation_triton

    return activation_triton.gelu_erf(x)
