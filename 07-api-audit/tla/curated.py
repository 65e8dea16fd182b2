"""What the vendored data cannot say: what replaces a name, why it went, and when the same arguments mean the same.

Every entry was checked against the wheels. `why` gives the public pull request where one is known (`#1234` is
github.com/tile-ai/tilelang/pull/1234). Data only; rules.py and fix.py read it.
"""

from typing import NamedTuple

LANGUAGE = "tilelang.language"


class Rename(NamedTuple):
    """What to write in place of a name that is gone."""

    to: str  # what a reader should do or write
    why: str = ""
    name: str = ""  # the new name, where old and new are one-to-one: --fix may write it
    bare: bool = False  # one-to-one without being called, too (a dtype)


def _snake(new):
    return Rename(f"T.{new}", "the operators became snake_case functions in 0.1.5", new)


# (module, name) -> Rename. A fix is written only if, besides, the call means the same in the old and new signature.
NAMES = {
    (LANGUAGE, "CreateTMADescriptorOp"): _snake("create_tma_descriptor"),
    (LANGUAGE, "FenceProxyAsyncOp"): _snake("fence_proxy_async"),
    (LANGUAGE, "MBarrierExpectTX"): _snake("mbarrier_expect_tx"),
    (LANGUAGE, "MBarrierWaitParity"): _snake("mbarrier_wait_parity"),
    (LANGUAGE, "NoSetMaxNReg"): _snake("no_set_max_nreg"),
    (LANGUAGE, "SetMaxNReg"): _snake("set_max_nreg"),
    (LANGUAGE, "TMALoadOp"): _snake("tma_load"),
    (LANGUAGE, "TMAStoreArrive"): _snake("tma_store_arrive"),
    (LANGUAGE, "TMAStoreWait"): _snake("tma_store_wait"),
    (LANGUAGE, "WaitWgmma"): _snake("wait_wgmma"),
    (LANGUAGE, "CreateListofMBarrierOp"): Rename(
        "T.alloc_barrier(arrive_counts), indexed where a barrier is used", "barriers are buffers now, #1733 and #1944"
    ),
    (LANGUAGE, "GetMBarrierOp"): Rename(
        "T.alloc_barrier(arrive_counts), indexed where a barrier is used", "barriers are buffers now, #1733 and #1944"
    ),
    (LANGUAGE, "create_list_of_mbarrier"): Rename(
        "T.alloc_barrier(arrive_counts), indexed where a barrier is used", "barriers are buffers now, #1733 and #1944"
    ),
    (LANGUAGE, "get_mbarrier"): Rename(
        "index the buffer that T.alloc_barrier returns", "barriers are buffers now, #1733 and #1944"
    ),
    (LANGUAGE, "annotate_padding"): Rename("a padded layout in T.annotate_layout"),
    (LANGUAGE, "customized_code"): Rename("T.import_source, or T.call_extern"),
    (LANGUAGE, "sync_thread_partial"): Rename("T.sync_threads(barrier_id, arrive_count)"),
    (LANGUAGE, "initialize_descriptor"): Rename(
        "T.initialize_wgmma_descriptor (or T.initialize_tcgen05_descriptor on Blackwell)",
        "split by architecture in 0.1.7",
        "initialize_wgmma_descriptor",
    ),
    (LANGUAGE, "gemm_v1"): Rename("T.gemm", "one GEMM is left, #2033", "gemm"),
    (LANGUAGE, "gemm_v2"): Rename("T.gemm", "one GEMM is left, #2033", "gemm"),
    (LANGUAGE, "gemm_sp_v2"): Rename("T.gemm_sp", "one sparse GEMM is left, #2048", "gemm_sp"),
    (LANGUAGE, "fadd2"): Rename("T.add2", "", "add2"),
    (LANGUAGE, "fmul2"): Rename("T.mul2", "", "mul2"),
    (LANGUAGE, "block"): Rename("T.sblock", "TVM's move from tir to tirx, #2216", "sblock"),
    (LANGUAGE, "block_attr"): Rename("T.sblock_attr", "TVM's move from tir to tirx, #2216", "sblock_attr"),
    (LANGUAGE, "LetStmt"): Rename("T.bind, a statement and not a scope", "TVM's move from tir to tirx, #2216"),
    (LANGUAGE, "check_hip_availability"): Rename("tilelang.rocm.target.check_hip_availability"),
    (LANGUAGE, "sync_global"): Rename("T.sync_grid", "it could not be compiled any more, #2992"),
    (LANGUAGE, "DataType"): Rename("T.dtype, or tilelang.DataType", "names that T only imported were tidied away"),
    (LANGUAGE, "BufferRegion"): Rename("tvm.tirx.BufferRegion", "names that T only imported were tidied away"),
    (LANGUAGE, "convert"): Rename("tvm.runtime.convert", "names that T only imported were tidied away"),
    ("tilelang", "cached"): Rename("tilelang.compile, or @tilelang.jit: both cache"),
    ("tilelang", "get_cache_dir"): Rename("tilelang.env.TILELANG_CACHE_DIR"),
    ("tilelang", "set_cache_dir"): Rename("the environment variable TILELANG_CACHE_DIR"),
    ("tilelang.utils", "determine_fp8_type"): Rename("tilelang.language.fp8.determine_fp8_type"),
    ("tilelang.layout", "make_metadata_layout"): Rename("tilelang.layout.make_cutlass_metadata_layout"),
}
for _lanes in ("", "x4", "x8", "x16", "x32", "x64"):
    for _format in ("e4m3", "e5m2"):
        NAMES[LANGUAGE, f"{_format}_float8{_lanes}"] = Rename(
            f"T.float8_{_format}{_lanes}",
            "the float8 names follow TVM's since 0.1.6",
            f"float8_{_format}{_lanes}",
            True,
        )
for _name in "tvm_mfma tvm_mfma_store tvm_rdna_wmma tvm_rdna_wmma_store ds_read_tr16_b64 ds_read_tr8_b64".split():
    NAMES[LANGUAGE, _name] = Rename(
        f"{_name} of `from tilelang.rocm import language as T`", "each backend has its dialect, #2734 and #2855"
    )
for _name in "make_filled_simdgroup_matrix simdgroup_load simdgroup_store simdgroup_multiply_accumulate".split():
    NAMES[LANGUAGE, _name] = Rename(
        f"{_name} of `from tilelang.metal import language as T`", "each backend has its dialect, #2734 and #2855"
    )

# A module that is gone -> (what to import, why). The longest prefix counts.
MODULES = {
    "tvm.tir": ("tvm.tirx", "TVM renamed tir in the release that TileLang 0.1.10 bundles, #2216"),
    "tvm.script.tir": ("tvm.script.tirx", "TVM renamed tir in the release that TileLang 0.1.10 bundles, #2216"),
    "tvm.relay": ("", "relay is gone from TVM"),
    "tvm.nd": ("tvm.runtime", "nd is gone from TVM"),
    "tilelang.intrinsics": ("tilelang.cuda.intrinsics or tilelang.rocm.intrinsics", "each backend owns its own, #2812"),
    "tilelang.utils.target": (
        "tilelang.backend.target (determine_target), tilelang.cuda.target, tilelang.rocm.target",
        "targets moved to their backends, #2323",
    ),
    "tilelang.primitives": ("tilelang.tileop (GemmWarpPolicy: T.GemmWarpPolicy)", "merged into tileop, #1429"),
    "tilelang.quantize": ("", "nothing replaces it"),
    "tilelang.utils.sparse": ("", "nothing replaces it"),
    "tilelang.engine.phase": (
        "tilelang.backend: a pipeline for each backend",
        "phases moved to the backends in 0.1.11",
    ),
    "tilelang.common": ("", "nothing replaces it"),
}

# `from OLD import NAME` -> the module where the very same function is today: --fix may write it.
MOVED = {
    ("tilelang.utils.target", "determine_target"): "tilelang.backend.target",
    ("tilelang.utils", "determine_fp8_type"): "tilelang.language.fp8",
}

# (module, function, keyword that is gone) -> (what to do, the new keyword where it is a mere renaming).
KEYWORDS = {
    (LANGUAGE, "Kernel", "is_cpu"): ("Kernel of `from tilelang.cpu import language as T`, #2387", ""),
    (LANGUAGE, "Kernel", "cluster_dims"): ("T.ClusterKernel in 0.1.12 to 0.1.14, #2387", ""),
    (LANGUAGE, "gemm", "wg_wait"): ("T.wgmma_gemm(...) and T.wait_wgmma(n), #1949", ""),
    (LANGUAGE, "gemm", "k_pack"): ("drop it, or use `from tilelang.rocm import language as T`, #3203", ""),
    (LANGUAGE, "gemm_sp", "k_pack"): ("drop it: it did nothing, #3202", ""),
    (LANGUAGE, "Pipelined", "sync"): ("drop it: it did nothing, #3202", ""),
    (LANGUAGE, "Pipelined", "group"): ("drop it: it did nothing, #3202", ""),
    (LANGUAGE, "reduce", "nan_propagate"): ("T.reduce_max, T.reduce_min or T.reduce_absmax take it", ""),
    (LANGUAGE, "shfl_xor", "offset"): ("delta=", "delta"),
    (LANGUAGE, "shfl_up", "offset"): ("delta=", "delta"),
    (LANGUAGE, "shfl_down", "offset"): ("delta=", "delta"),
    (LANGUAGE, "barrier_wait", "barrier_id"): ("mbarrier=, the barrier and not its number, #1733", ""),
    (LANGUAGE, "barrier_arrive", "barrier_id"): ("mbarrier=, the barrier and not its number, #1733", ""),
    (LANGUAGE, "cp_async_barrier_noinc", "barrier_id"): ("barrier=, the barrier and not its number, #1733", ""),
    (LANGUAGE, "cast", "x"): ("value=", "value"),
    (LANGUAGE, "cast", "src"): ("value=", "value"),
    (LANGUAGE, "Tensor", "strides"): ("T.StridedTensor(shape, strides, dtype)", ""),
    (LANGUAGE, "macro", "hygienic"): ("drop it", ""),
    (LANGUAGE, "prim_func", "private"): ("drop it", ""),
    (LANGUAGE, "prim_func", "check_well_formed"): ("drop it", ""),
    (LANGUAGE, "address_of", "buffer_load"): ("obj=", "obj"),
    (LANGUAGE, "tcgen05_mma_arrive", "mbar_ptr"): ("mbar=", "mbar"),
}


class Slot(NamedTuple):
    """A positional argument whose meaning changed while the call stayed legal."""

    index: int  # counted from 0
    since: str
    before: str
    now: str
    old_if: str = "any"  # what shows the old meaning: any, number (a literal in this slot), number first (in the first)
    why: str = ""


# (module, function) -> slots. A test finds every such change in the vendored signatures and asks for it here.
SLOTS = {
    (LANGUAGE, "shfl_sync"): [
        Slot(3, "0.1.9", "(mask, value, srcLane, width)", "(value, srcLane, width, mask)", "number first", "#2039")
    ],
    (LANGUAGE, "gemm_sp"): [
        Slot(5, "0.1.10", "transpose_B", "transpose_E", why="#2048"),
        Slot(9, "0.1.15", "k_pack", "wg_wait", why="#3202"),
    ],
    (LANGUAGE, "reduce"): [
        Slot(5, "0.1.10", "nan_propagate", "batch"),
        Slot(6, "0.1.15", "nan_propagate", "annotations"),
    ],
    (LANGUAGE, "reduce_max"): [Slot(4, "0.1.10", "nan_propagate", "batch")],
    (LANGUAGE, "reduce_min"): [Slot(4, "0.1.10", "nan_propagate", "batch")],
    (LANGUAGE, "reduce_absmax"): [Slot(4, "0.1.10", "nan_propagate", "batch")],
    (LANGUAGE, "gemm"): [
        Slot(7, "0.1.15", "k_pack", "mbar", "number", "#3203"),
        Slot(8, "0.1.9", "wg_wait", "mbar, then annotations", "number", "#1949"),
    ],
    (LANGUAGE, "Pipelined"): [Slot(5, "0.1.15", "sync", "annotations", why="#3202")],
    (LANGUAGE, "finalize_reducer"): [Slot(1, "0.1.14", "batch", "dst", "number")],
    (LANGUAGE, "barrier_arrive"): [Slot(0, "0.1.8", "barrier_id", "mbarrier", "number", "#1733")],
    (LANGUAGE, "barrier_wait"): [Slot(0, "0.1.8", "barrier_id", "mbarrier", "number", "#1733")],
    (LANGUAGE, "cp_async_barrier_noinc"): [Slot(0, "0.1.8", "barrier_id", "barrier", "number", "#1733")],
    (LANGUAGE, "cast"): [Slot(2, "0.1.11", "span", "round")],
    (LANGUAGE, "Cast"): [Slot(2, "0.1.11", "span", "annotations")],
    (LANGUAGE, "Call"): [Slot(3, "0.1.7.post3", "span", "annotations")],
    (LANGUAGE, "BufferLoad"): [Slot(2, "0.1.6.post2", "span", "predicate")],
    (LANGUAGE, "Tensor"): [Slot(3, "0.1.6.post2", "strides", "scope")],
    (LANGUAGE, "round"): [Slot(1, "0.1.10", "span", "rounding_mode")],
    (LANGUAGE, "ptx_cp_async"): [Slot(2, "0.1.9", "bytes", "num_elems")],
    (LANGUAGE, "ptx_wgmma_rs"): [Slot(2, "0.1.7.post3", "a_is_k_major", "b_is_k_major")],
    (LANGUAGE, "ptx_tcgen05_mma_ss"): [Slot(14, "0.1.9", "ws", "enable_2cta")],
    (LANGUAGE, "ptx_tcgen05_mma_blockscaled_ss"): [Slot(15, "0.1.11", "variant", "enable_2cta")],
    (LANGUAGE, "alloc_descriptor"): [Slot(0, "0.1.7.post3", "dtype", "kind")],
    (LANGUAGE, "alloc_buffer"): [Slot(2, "0.1.10", "data", "scope")],
    (LANGUAGE, "allocate"): [Slot(3, "0.1.10", "condition", "annotations")],
    ("tilelang.profiler", "do_bench"): [Slot(5, "0.1.6.post2", "grad_to_none", "quantiles")],
    ("#Profiler", "assert_allclose"): [Slot(1, "0.1.4", "atol", "input_tensors", "number")],
}


class Old(NamedTuple):
    """A form that still works and warns, or is on its way out."""

    since: str  # first release in which it is deprecated
    to: str
    when: str = "use"  # use, call (also subscripted), dtype first, or a keyword


# (module, name or keyword) -> Old. What TileLang's own decorator marks comes from the vendored data, not from here.
DEPRECATED = {
    (LANGUAGE, "Buffer"): Old("0.1.9", "T.Tensor", "call"),
    (LANGUAGE, "c2d_im2col"): Old("0.1.10", "T.im2col", "call"),
    (LANGUAGE, "reinterpret"): Old("0.1.8", "T.reinterpret(value, dtype)", "dtype first"),
    (LANGUAGE, "symbolic"): Old("0.1.6.post2", "T.dynamic", "call"),
    (LANGUAGE, "buffer_decl"): Old("0.1.15", "T.Tensor", "call"),
    (LANGUAGE, "buffer_var"): Old("0.1.15", "T.handle", "call"),
    (LANGUAGE, "var"): Old("0.1.15", "T.<dtype>(), such as T.int32()", "call"),
    (LANGUAGE, "alloc_reducer", "replication"): Old("0.1.14", "T.alloc_reducer without replication=", "keyword"),
    (LANGUAGE, "tma_gather4", "swizzle"): Old("0.1.15", "a layout in T.annotate_layout", "keyword"),
    (LANGUAGE, "tma_scatter4", "swizzle"): Old("0.1.15", "a layout in T.annotate_layout", "keyword"),
    ("#JITKernel", "print_source_code"): Old("0.1.7.post3", "show_source() or export_sources()", "call"),
    ("tilelang.PassConfigKey", "TL_DISABLE_TMA_LOWER"): Old("0.1.9", "T.copy(..., disable_tma=True), copy by copy"),
}


class Fork(NamedTuple):
    title: str
    url: str


ASCEND = Fork("tilelang-ascend", "https://github.com/tile-ai/tilelang-ascend")
TILESCALE = Fork("TileScale", "https://github.com/tile-ai/tilescale")

# Names that no release of TileLang has had, and a fork has: one of them says what the file is written for.
FORKS = {}
for _name in (
    "alloc_ub alloc_L1 alloc_L0A alloc_L0B alloc_L0C gemm_v0 Scope rs mma tile vadd vsub vmul vdiv vmax vmin vexp "
    "vcast vbrc vcmp vselect load_nd2nz store_nz2nd store_fixpipe set_flag wait_flag set_cross_flag wait_cross_flag "
    "pipe_barrier barrier_all block_barrier subblock_barrier sync_block_set sync_block_wait"
).split():
    FORKS[_name] = ASCEND
for _name in (
    "get_rank get_num_ranks put_warp get_warp put_block get_block get_pe get_pe_num wait_eq wait_ne wait_ge wait_le "
    "wait_gt wait_lt putmem_block getmem_block putmem_nbi_block putmem_signal putmem_signal_nbi_block signal_op "
    "signal_wait_until barrier_blocks barrier_all_blocks_sys sync_barrier_gpu init_barrier_gpu arrive_barrier_gpu "
    "wait_barrier_gpu alloc_barrier_gpu ScopeKernel"
).split():
    FORKS[_name] = TILESCALE
FORK_PREFIXES = {"npuir_": ASCEND}
FORK_MODULES = {
    "tilelang.distributed": TILESCALE,
    "tilelang.utils.allocator": TILESCALE,
    "tilelang.language.distributed": TILESCALE,
    "tilelang.language.ascend": ASCEND,
    "tilelang.language.ascend_tile": ASCEND,
    "tilelang.language.pto": ASCEND,
    "tilelang.language.customize_npuir": ASCEND,
}


def fork_of(module, name):
    """The Fork that a missing name or module belongs to, or None."""
    if module in FORK_MODULES or f"{module}.{name}" in FORK_MODULES:
        return FORK_MODULES.get(module) or FORK_MODULES[f"{module}.{name}"]
    if module.startswith("tilelang.language") or module.endswith(".language"):
        for prefix, fork in FORK_PREFIXES.items():
            if name.startswith(prefix):
                return fork
        return FORKS.get(name)
    return None
