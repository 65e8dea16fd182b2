// The part of CUDA's device language that g++ lacks, for code that TileLang generates: built-in variables, shared memory,
// barriers, warp intrinsics, atomics, and the arithmetic intrinsics, with the results that a GPU gives. Included before
// everything else. Conversions from and to bf16, fp16 and fp8 are CUDA's own host code.
//
// Not modelled: the error of the approximate instructions (MUFU: __expf, __sinf, tanh.approx, rcp.approx, ...), which
// are computed here in double and rounded once, and nvcc's contraction of a * b + c into one fma.
#pragma once

#include "runtime.h"

#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <device_launch_parameters.h>

#undef __shared__
#define __shared__ static __attribute__((section("emulated_shared")))

#undef __launch_bounds__
#define __launch_bounds__(...)

#define EMULATOR_INLINE inline __attribute__((always_inline))
#define EMULATOR_UNCHECKED __attribute__((no_sanitize("address", "kernel-address", "alignment")))

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

// ---- barriers and fences: threads run one after the other, so a fence has nothing to do ------------------------
EMULATOR_INLINE void __syncthreads() { emulator_barrier(0, 0, true); }
EMULATOR_INLINE void __threadfence() {}
EMULATOR_INLINE void __threadfence_block() {}
EMULATOR_INLINE void __threadfence_system() {}
EMULATOR_INLINE void __trap() { emulator_trap("__trap()"); }

EMULATOR_INLINE size_t __cvta_generic_to_shared(const void *p) { return emulator_to_shared(p); }
EMULATOR_INLINE size_t __cvta_generic_to_global(const void *p) { return reinterpret_cast<size_t>(p); }

// ---- warp ------------------------------------------------------------------------------------------------------
namespace emulator {

template <typename T> struct Lanes {
  WarpValues raw;
  T at(int lane, T own, const char *what) const {
    if (!(raw.lanes >> lane & 1)) {
      emulator_absent_lane(what, lane);
      return own;
    }
    T value;
    memcpy(&value, &raw.value[lane], sizeof(T));
    return value;
  }
};

template <typename T> EMULATOR_INLINE Lanes<T> exchange(unsigned mask, T value, const char *what) {
  static_assert(sizeof(T) <= 8, "a warp exchange moves at most 64 bits");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  Lanes<T> lanes;
  emulator_warp(mask, bits, what, &lanes.raw);
  return lanes;
}

// Source lanes as PTX's shfl.sync defines them; segments of `width` lanes, out of range means the own lane.
inline int shuffle_source(int lane, int wanted, int width, bool upward) {
  int first = lane & ~(width - 1), last = first + width - 1;
  return (upward ? wanted < first : wanted > last) ? lane : wanted;
}

template <typename T> inline T reduce(const Lanes<T> &lanes, T (*combine)(T, T)) {
  T total{};
  bool any = false;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes.raw.lanes >> lane & 1) {
      T value = lanes.at(lane, T{}, "");
      total = any ? combine(total, value) : value;
      any = true;
    }
  return total;
}

inline unsigned votes(const WarpValues &raw) {
  unsigned bits = 0;
  for (int lane = 0; lane < 32; ++lane)
    if ((raw.lanes >> lane & 1) && raw.value[lane])
      bits |= 1u << lane;
  return bits;
}

} // namespace emulator

EMULATOR_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { emulator::exchange(mask, 0, "__syncwarp"); }
EMULATOR_INLINE unsigned __activemask() { return emulator_live_lanes(); }

template <typename T> EMULATOR_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  auto lanes = emulator::exchange(mask, value, "__shfl_sync");
  int lane = int(emulator_lane());
  return lanes.at((lane & ~(width - 1)) | (source & (width - 1)), value, "__shfl_sync");
}
template <typename T> EMULATOR_INLINE T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32) {
  auto lanes = emulator::exchange(mask, value, "__shfl_xor_sync");
  int lane = int(emulator_lane());
  return lanes.at(emulator::shuffle_source(lane, lane ^ flip, width, false), value, "__shfl_xor_sync");
}
template <typename T> EMULATOR_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  auto lanes = emulator::exchange(mask, value, "__shfl_down_sync");
  int lane = int(emulator_lane());
  return lanes.at(emulator::shuffle_source(lane, lane + int(delta), width, false), value, "__shfl_down_sync");
}
template <typename T> EMULATOR_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  auto lanes = emulator::exchange(mask, value, "__shfl_up_sync");
  int lane = int(emulator_lane());
  return lanes.at(emulator::shuffle_source(lane, lane - int(delta), width, true), value, "__shfl_up_sync");
}

namespace emulator {
// elect.sync: one lane of the warp, the lowest that takes part.
EMULATOR_INLINE bool elect_one() {
  auto lanes = exchange(0xffffffffu, 0, "elect.sync");
  return __builtin_ctz(lanes.raw.lanes) == int(emulator_lane());
}
} // namespace emulator

EMULATOR_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return emulator::votes(emulator::exchange(mask, predicate != 0, "__ballot_sync").raw);
}
EMULATOR_INLINE int __any_sync(unsigned mask, int predicate) {
  return emulator::votes(emulator::exchange(mask, predicate != 0, "__any_sync").raw) != 0;
}
EMULATOR_INLINE int __all_sync(unsigned mask, int predicate) {
  auto lanes = emulator::exchange(mask, predicate != 0, "__all_sync");
  return emulator::votes(lanes.raw) == lanes.raw.lanes;
}
template <typename T> EMULATOR_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  auto lanes = emulator::exchange(mask, value, "__match_any_sync");
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane)
    if ((lanes.raw.lanes >> lane & 1) && lanes.raw.value[lane] == lanes.raw.value[emulator_lane()])
      same |= 1u << lane;
  return same;
}
template <typename T> EMULATOR_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all) {
  auto lanes = emulator::exchange(mask, value, "__match_all_sync");
  *all = 1;
  for (int lane = 0; lane < 32; ++lane)
    if ((lanes.raw.lanes >> lane & 1) && lanes.raw.value[lane] != lanes.raw.value[emulator_lane()])
      *all = 0;
  return *all ? lanes.raw.lanes : 0;
}

#define EMULATOR_REDUCE(NAME, TYPE, EXPRESSION)                                                                        \
  EMULATOR_INLINE TYPE NAME(unsigned mask, TYPE value) {                                                               \
    return emulator::reduce<TYPE>(emulator::exchange(mask, value, #NAME), [](TYPE a, TYPE b) -> TYPE {                 \
      return EXPRESSION;                                                                                               \
    });                                                                                                                \
  }
EMULATOR_REDUCE(__reduce_add_sync, unsigned, a + b)
EMULATOR_REDUCE(__reduce_add_sync, int, int(unsigned(a) + unsigned(b)))
EMULATOR_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
EMULATOR_REDUCE(__reduce_max_sync, int, a > b ? a : b)
EMULATOR_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
EMULATOR_REDUCE(__reduce_min_sync, int, a < b ? a : b)
EMULATOR_REDUCE(__reduce_and_sync, unsigned, a &b)
EMULATOR_REDUCE(__reduce_or_sync, unsigned, a | b)
EMULATOR_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef EMULATOR_REDUCE

// __syncthreads_count and its kin: a vote of the whole block, gathered in a counter between two barriers.
namespace emulator {
inline unsigned block_votes[2];
EMULATOR_INLINE unsigned block_count(bool predicate) {
  emulator_barrier(0, 0, true);
  block_votes[0] = 0;
  emulator_barrier(0, 0, true);
  block_votes[0] += predicate;
  emulator_barrier(0, 0, true);
  return block_votes[0];
}
} // namespace emulator
EMULATOR_INLINE int __syncthreads_count(int predicate) { return int(emulator::block_count(predicate != 0)); }
EMULATOR_INLINE int __syncthreads_or(int predicate) { return emulator::block_count(predicate != 0) != 0; }
EMULATOR_INLINE int __syncthreads_and(int predicate) { return emulator::block_count(predicate == 0) == 0; }

// ---- loads and stores with a cache hint -------------------------------------------------------------------------
#define EMULATOR_LOAD(NAME)                                                                                            \
  template <typename T> EMULATOR_INLINE T NAME(const T *address) { return *address; }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldlu)
EMULATOR_LOAD(__ldcv)
#undef EMULATOR_LOAD
#define EMULATOR_STORE(NAME)                                                                                           \
  template <typename T> EMULATOR_INLINE void NAME(T *address, T value) { *address = value; }
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE

// ---- atomics: no other thread runs meanwhile, so plain code is atomic --------------------------------------------
namespace emulator {

template <typename T, typename F> EMULATOR_UNCHECKED T update(T *address, F change) {
  T old, fresh;
  memcpy(&old, address, sizeof(T));
  fresh = change(old);
  memcpy(address, &fresh, sizeof(T));
  return old;
}

// Stands for cuda::atomic_ref in TileLang's templates.
template <typename T> struct atomic_ref {
  T &object;
  explicit atomic_ref(T &object) : object(object) {}
  template <typename F> EMULATOR_INLINE T apply(F change) const {
    emulator_atomic(&object, sizeof(T), alignof(T));
    return update(&object, change);
  }
  template <typename O> EMULATOR_INLINE T load(O) const {
    return apply([](T old) { return old; });
  }
  template <typename O> EMULATOR_INLINE void store(T value, O) const {
    apply([=](T) { return value; });
  }
  template <typename O> EMULATOR_INLINE T fetch_add(T value, O) const {
    return apply([=](T old) { return T(old + value); });
  }
  template <typename O> EMULATOR_INLINE T fetch_or(T value, O) const {
    return apply([=](T old) { return T(old | value); });
  }
  template <typename O> EMULATOR_INLINE T fetch_max(T value, O) const {
    return apply([=](T old) { return old < value ? value : old; });
  }
  template <typename O> EMULATOR_INLINE T fetch_min(T value, O) const {
    return apply([=](T old) { return value < old ? value : old; });
  }
};

} // namespace emulator

#define EMULATOR_ATOMIC(NAME, TYPE, EXPRESSION)                                                                        \
  EMULATOR_INLINE TYPE NAME(TYPE *address, TYPE value) {                                                               \
    emulator_atomic(address, sizeof(TYPE), sizeof(TYPE) < 16 ? sizeof(TYPE) : 16);                                     \
    return emulator::update(address, [=](TYPE old) -> TYPE { return EXPRESSION; });                                    \
  }
#define EMULATOR_ATOMIC_WORDS(NAME, EXPRESSION)                                                                        \
  EMULATOR_ATOMIC(NAME, int, EXPRESSION)                                                                               \
  EMULATOR_ATOMIC(NAME, unsigned, EXPRESSION)                                                                          \
  EMULATOR_ATOMIC(NAME, unsigned long long, EXPRESSION)
EMULATOR_ATOMIC(atomicAdd, int, int(unsigned(old) + unsigned(value)))
EMULATOR_ATOMIC(atomicAdd, unsigned, old + value)
EMULATOR_ATOMIC(atomicAdd, unsigned long long, old + value)
EMULATOR_ATOMIC(atomicAdd, float, old + value)
EMULATOR_ATOMIC(atomicAdd, double, old + value)
EMULATOR_ATOMIC(atomicAdd, __half, __hadd(old, value))
EMULATOR_ATOMIC(atomicAdd, __nv_bfloat16, __hadd(old, value))
EMULATOR_ATOMIC(atomicAdd, __half2, __half2(__hadd(old.x, value.x), __hadd(old.y, value.y)))
EMULATOR_ATOMIC(atomicAdd, __nv_bfloat162, __nv_bfloat162(__hadd(old.x, value.x), __hadd(old.y, value.y)))
EMULATOR_ATOMIC(atomicAdd, float2, make_float2(old.x + value.x, old.y + value.y))
EMULATOR_ATOMIC(atomicAdd, float4,
                make_float4(old.x + value.x, old.y + value.y, old.z + value.z, old.w + value.w))
EMULATOR_ATOMIC(atomicSub, int, int(unsigned(old) - unsigned(value)))
EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
EMULATOR_ATOMIC(atomicExch, float, ((void)old, value))
EMULATOR_ATOMIC_WORDS(atomicExch, ((void)old, value))
EMULATOR_ATOMIC_WORDS(atomicMax, old > value ? old : value)
EMULATOR_ATOMIC_WORDS(atomicMin, old < value ? old : value)
EMULATOR_ATOMIC(atomicMax, long long, old > value ? old : value)
EMULATOR_ATOMIC(atomicMin, long long, old < value ? old : value)
EMULATOR_ATOMIC_WORDS(atomicAnd, old &value)
EMULATOR_ATOMIC_WORDS(atomicOr, old | value)
EMULATOR_ATOMIC_WORDS(atomicXor, old ^ value)
EMULATOR_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
EMULATOR_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef EMULATOR_ATOMIC_WORDS
#undef EMULATOR_ATOMIC
#define EMULATOR_CAS(TYPE)                                                                                             \
  EMULATOR_INLINE TYPE atomicCAS(TYPE *address, TYPE compare, TYPE value) {                                            \
    emulator_atomic(address, sizeof(TYPE), sizeof(TYPE));                                                              \
    return emulator::update(address, [=](TYPE old) -> TYPE { return old == compare ? value : old; });                  \
  }
EMULATOR_CAS(int)
EMULATOR_CAS(unsigned)
EMULATOR_CAS(unsigned short)
EMULATOR_CAS(unsigned long long)
#undef EMULATOR_CAS

// ---- integers -----------------------------------------------------------------------------------------------------
EMULATOR_INLINE int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
EMULATOR_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
EMULATOR_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EMULATOR_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
EMULATOR_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EMULATOR_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __brev(unsigned x) {
  unsigned out = 0;
  for (int bit = 0; bit < 32; ++bit)
    out |= (x >> bit & 1) << (31 - bit);
  return out;
}
EMULATOR_INLINE int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
EMULATOR_INLINE unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
EMULATOR_INLINE int __mul24(int a, int b) { return int(unsigned(a << 8 >> 8) * unsigned(b << 8 >> 8)); }
EMULATOR_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
EMULATOR_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned pick = selector >> (4 * i) & 15;
    unsigned byte = unsigned(bytes >> (8 * (pick & 7)) & 255);
    if (pick & 8)
      byte = byte & 128 ? 255 : 0;
    out |= byte << (8 * i);
  }
  return out;
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i)
    c += int((signed char)(a >> (8 * i))) * int((signed char)(b >> (8 * i)));
  return c;
}

// CUDA's min and max for mixed types: unsigned wins over signed, float and double follow FMNMX.
#define EMULATOR_MINMAX(TYPE)                                                                                          \
  EMULATOR_INLINE TYPE max(TYPE a, TYPE b) { return a > b ? a : b; }                                                   \
  EMULATOR_INLINE TYPE min(TYPE a, TYPE b) { return a < b ? a : b; }
EMULATOR_MINMAX(int)
EMULATOR_MINMAX(unsigned)
EMULATOR_MINMAX(long)
EMULATOR_MINMAX(unsigned long)
EMULATOR_MINMAX(long long)
EMULATOR_MINMAX(unsigned long long)
#undef EMULATOR_MINMAX
EMULATOR_INLINE unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
EMULATOR_INLINE unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
EMULATOR_INLINE unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
EMULATOR_INLINE unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
EMULATOR_INLINE float max(float a, float b) { return fmaxf(a, b); }
EMULATOR_INLINE float min(float a, float b) { return fminf(a, b); }
EMULATOR_INLINE double max(double a, double b) { return fmax(a, b); }
EMULATOR_INLINE double min(double a, double b) { return fmin(a, b); }
EMULATOR_INLINE double max(float a, double b) { return fmax(a, b); }
EMULATOR_INLINE double max(double a, float b) { return fmax(a, b); }
EMULATOR_INLINE double min(float a, double b) { return fmin(a, b); }
EMULATOR_INLINE double min(double a, float b) { return fmin(a, b); }

// ---- floats -------------------------------------------------------------------------------------------------------
namespace emulator {

template <typename To, typename From> EMULATOR_INLINE To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits of one size");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

EMULATOR_INLINE float flush(float x) { return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x; }

// cvt from a rounded float to an integer type: NaN gives 0 (the smallest value for 64 bits), the rest saturates.
template <typename I> inline I saturate(double rounded) {
  constexpr double low = double(I(1) > 0 && I(-1) > 0 ? I(0) : I(1) << (8 * sizeof(I) - 1));
  constexpr double past = (I(-1) > 0 ? 1.0 : 0.5) * (sizeof(I) == 4 ? 4294967296.0 : 18446744073709551616.0);
  if (rounded != rounded)
    return sizeof(I) == 8 ? I(I(1) << 63) : I(0);
  if (rounded < low)
    return I(low);
  if (rounded >= past)
    return I(-1) > 0 ? I(-1) : I(~(I(1) << (8 * sizeof(I) - 1)));
  return I(rounded);
}

// a * b + c of narrow floats, rounded to odd in double, so that one more rounding gives the fused result.
inline double fused(double a, double b, double c) {
  double product = a * b, sum = product + c;
  if (!std::isfinite(sum))
    return sum;
  double back = sum - product, error = (product - (sum - back)) + (c - back);
  if (error != 0 && !(bits<uint64_t>(sum) & 1))
    sum = nextafter(sum, error > 0 ? INFINITY : -INFINITY);
  return sum;
}

} // namespace emulator

EMULATOR_INLINE int __float_as_int(float x) { return emulator::bits<int>(x); }
EMULATOR_INLINE unsigned __float_as_uint(float x) { return emulator::bits<unsigned>(x); }
EMULATOR_INLINE float __int_as_float(int x) { return emulator::bits<float>(x); }
EMULATOR_INLINE float __uint_as_float(unsigned x) { return emulator::bits<float>(x); }
EMULATOR_INLINE long long __double_as_longlong(double x) { return emulator::bits<long long>(x); }
EMULATOR_INLINE double __longlong_as_double(long long x) { return emulator::bits<double>(x); }

#define EMULATOR_CONVERT(FROM, PREFIX)                                                                                 \
  EMULATOR_INLINE int PREFIX##2int_rn(FROM x) { return emulator::saturate<int>(nearbyint(x)); }                        \
  EMULATOR_INLINE int PREFIX##2int_rz(FROM x) { return emulator::saturate<int>(trunc(x)); }                            \
  EMULATOR_INLINE int PREFIX##2int_rd(FROM x) { return emulator::saturate<int>(floor(x)); }                            \
  EMULATOR_INLINE int PREFIX##2int_ru(FROM x) { return emulator::saturate<int>(ceil(x)); }                             \
  EMULATOR_INLINE unsigned PREFIX##2uint_rn(FROM x) { return emulator::saturate<unsigned>(nearbyint(x)); }             \
  EMULATOR_INLINE unsigned PREFIX##2uint_rz(FROM x) { return emulator::saturate<unsigned>(trunc(x)); }                 \
  EMULATOR_INLINE unsigned PREFIX##2uint_rd(FROM x) { return emulator::saturate<unsigned>(floor(x)); }                 \
  EMULATOR_INLINE unsigned PREFIX##2uint_ru(FROM x) { return emulator::saturate<unsigned>(ceil(x)); }                  \
  EMULATOR_INLINE long long PREFIX##2ll_rn(FROM x) { return emulator::saturate<long long>(nearbyint(x)); }             \
  EMULATOR_INLINE long long PREFIX##2ll_rz(FROM x) { return emulator::saturate<long long>(trunc(x)); }
EMULATOR_CONVERT(float, __float)
EMULATOR_CONVERT(double, __double)
#undef EMULATOR_CONVERT
EMULATOR_INLINE float __int2float_rn(int x) { return float(x); }
EMULATOR_INLINE float __uint2float_rn(unsigned x) { return float(x); }
EMULATOR_INLINE float __double2float_rn(double x) { return float(x); }

EMULATOR_INLINE float __fadd_rn(float a, float b) { return a + b; }
EMULATOR_INLINE float __fsub_rn(float a, float b) { return a - b; }
EMULATOR_INLINE float __fmul_rn(float a, float b) { return a * b; }
EMULATOR_INLINE float __fdiv_rn(float a, float b) { return a / b; }
EMULATOR_INLINE float __frcp_rn(float a) { return 1.0f / a; }
EMULATOR_INLINE float __fsqrt_rn(float a) { return sqrtf(a); }
EMULATOR_INLINE float __frsqrt_rn(float a) { return float(1.0 / sqrt(double(a))); }
EMULATOR_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
EMULATOR_INLINE double __dadd_rn(double a, double b) { return a + b; }
EMULATOR_INLINE double __dmul_rn(double a, double b) { return a * b; }
EMULATOR_INLINE double __ddiv_rn(double a, double b) { return a / b; }
EMULATOR_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
EMULATOR_INLINE float __saturatef(float x) { return x != x ? 0.0f : x < 0 ? 0.0f : x > 1 ? 1.0f : x; }
EMULATOR_INLINE float2 __fadd2_rn(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
EMULATOR_INLINE float2 __fmul2_rn(float2 a, float2 b) { return make_float2(a.x * b.x, a.y * b.y); }
EMULATOR_INLINE float2 __ffma2_rn(float2 a, float2 b, float2 c) {
  return make_float2(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y));
}

// Approximate on a GPU; here the exact value rounded once. Subnormals are kept, as without -use_fast_math.
EMULATOR_INLINE float __expf(float x) { return float(exp(double(x))); }
EMULATOR_INLINE float __exp10f(float x) { return float(exp10(double(x))); }
EMULATOR_INLINE float __logf(float x) { return float(log(double(x))); }
EMULATOR_INLINE float __log2f(float x) { return float(log2(double(x))); }
EMULATOR_INLINE float __log10f(float x) { return float(log10(double(x))); }
EMULATOR_INLINE float __powf(float x, float y) { return float(pow(double(x), double(y))); }
EMULATOR_INLINE float __sinf(float x) { return float(sin(double(x))); }
EMULATOR_INLINE float __cosf(float x) { return float(cos(double(x))); }
EMULATOR_INLINE float __tanf(float x) { return float(tan(double(x))); }
EMULATOR_INLINE float __tanhf(float x) { return float(tanh(double(x))); }
EMULATOR_INLINE void __sincosf(float x, float *s, float *c) { *s = __sinf(x), *c = __cosf(x); }
// The divisor's range is limited: above 2^126 the quotient is 0 (NaN for an infinite dividend).
EMULATOR_INLINE float __fdividef(float a, float b) {
  return fabsf(b) > 0x1p126f && fabsf(b) <= FLT_MAX ? (std::isinf(a) ? NAN : 0.0f) : a / b;
}
EMULATOR_INLINE float fdividef(float a, float b) { return a / b; }
EMULATOR_INLINE float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
EMULATOR_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
EMULATOR_INLINE float rcbrtf(float x) { return float(1.0 / cbrt(double(x))); }
EMULATOR_INLINE float normcdff(float x) { return float(0.5 * erfc(-double(x) * M_SQRT1_2)); }

// ---- fp16 and bf16 -----------------------------------------------------------------------------------------------
// A GPU computes + - * / and fma of these types with one rounding; the other functions go through float there too.
namespace emulator {
EMULATOR_INLINE float wide(__half x) { return __half2float(x); }
EMULATOR_INLINE float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
EMULATOR_INLINE void narrow(double x, __half &out) { out = __double2half(x); }
EMULATOR_INLINE void narrow(double x, __nv_bfloat16 &out) { out = __double2bfloat16(x); }
template <typename H> EMULATOR_INLINE H narrow_to(double x) {
  H out;
  narrow(x, out);
  return out;
}
} // namespace emulator

#define EMULATOR_HALF_FUNCTION(TYPE, NAME, EXPRESSION)                                                                 \
  EMULATOR_INLINE TYPE NAME(TYPE value) {                                                                              \
    double x = emulator::wide(value);                                                                                  \
    return emulator::narrow_to<TYPE>(EXPRESSION);                                                                      \
  }
#define EMULATOR_HALF(TYPE)                                                                                            \
  EMULATOR_HALF_FUNCTION(TYPE, hexp, exp(x))                                                                           \
  EMULATOR_HALF_FUNCTION(TYPE, hexp2, exp2(x))                                                                         \
  EMULATOR_HALF_FUNCTION(TYPE, hexp10, exp10(x))                                                                       \
  EMULATOR_HALF_FUNCTION(TYPE, hlog, log(x))                                                                           \
  EMULATOR_HALF_FUNCTION(TYPE, hlog2, log2(x))                                                                         \
  EMULATOR_HALF_FUNCTION(TYPE, hlog10, log10(x))                                                                       \
  EMULATOR_HALF_FUNCTION(TYPE, hsin, sin(x))                                                                           \
  EMULATOR_HALF_FUNCTION(TYPE, hcos, cos(x))                                                                           \
  EMULATOR_HALF_FUNCTION(TYPE, hsqrt, sqrt(x))                                                                         \
  EMULATOR_HALF_FUNCTION(TYPE, hrsqrt, 1.0 / sqrt(x))                                                                  \
  EMULATOR_HALF_FUNCTION(TYPE, hrcp, 1.0 / x)                                                                          \
  EMULATOR_HALF_FUNCTION(TYPE, hfloor, floor(x))                                                                       \
  EMULATOR_HALF_FUNCTION(TYPE, hceil, ceil(x))                                                                         \
  EMULATOR_HALF_FUNCTION(TYPE, hrint, nearbyint(x))                                                                    \
  EMULATOR_HALF_FUNCTION(TYPE, htrunc, trunc(x))                                                                       \
  EMULATOR_HALF_FUNCTION(TYPE, htanh, tanh(x))                                                                         \
  EMULATOR_HALF_FUNCTION(TYPE, htanh_approx, tanh(x))                                                                  \
  EMULATOR_INLINE TYPE __hfma(TYPE a, TYPE b, TYPE c) {                                                                \
    return emulator::narrow_to<TYPE>(emulator::fused(emulator::wide(a), emulator::wide(b), emulator::wide(c)));        \
  }
EMULATOR_HALF(__half)
EMULATOR_HALF(__nv_bfloat16)
EMULATOR_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
EMULATOR_INLINE __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
#undef EMULATOR_HALF
#undef EMULATOR_HALF_FUNCTION

// ---- how the generated text is entered and what its PTX becomes --------------------------------------------------
namespace emulator {

template <typename... P, size_t... I>
EMULATOR_UNCHECKED void call(void (*kernel)(P...), void *const *arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<P> *>(arguments[I])...);
}
template <typename... P> EMULATOR_UNCHECKED void call(void (*kernel)(P...), void *const *arguments) {
  call(kernel, arguments, std::index_sequence_for<P...>{});
}

// A static __shared__ variable by reference: accesses that g++ could prove to be inside it would not be checked.
template <typename T> inline __attribute__((noinline)) T &hidden(T &variable) { return variable; }

// ld.global and st.global of one word, and of a vector whose address must be a multiple of its whole size.
template <typename T, typename... W> EMULATOR_INLINE void load(const void *address, W &...words) {
  constexpr size_t size = sizeof(T) * sizeof...(W);
  emulator_access(address, size, size, false);
  size_t i = 0;
  ((memcpy(&words, static_cast<const char *>(address) + sizeof(T) * i++, sizeof(T))), ...);
}
template <typename T, typename... W> EMULATOR_INLINE void store(void *address, const W &...words) {
  constexpr size_t size = sizeof(T) * sizeof...(W);
  emulator_access(address, size, size, true);
  size_t i = 0;
  ((memcpy(static_cast<char *>(address) + sizeof(T) * i++, &words, sizeof(T))), ...);
}

EMULATOR_INLINE unsigned short bf16_of_fp16(unsigned short raw) {
  return bits<unsigned short>(__float2bfloat16(__half2float(bits<__half>(raw))));
}
EMULATOR_INLINE unsigned long long sub2(unsigned long long a, unsigned long long b) {
  float2 x = bits<float2>(a), y = bits<float2>(b);
  return bits<unsigned long long>(make_float2(x.x - y.x, x.y - y.y));
}

// cp.async, done at once: the first `filled` bytes from global memory, zeros for the rest.
EMULATOR_INLINE void copy_async(uint32_t shared, const void *global, size_t size, size_t filled) {
  void *to = emulator_from_shared(shared);
  if (filled)
    emulator_access(global, filled, size, false);
  emulator_access(to, size, size, true);
  memset(to, 0, size);
  memcpy(to, global, filled);
}

EMULATOR_INLINE void checked_copy(void *to, const void *from, size_t size) {
  if (size) {
    emulator_access(from, size, 1, false);
    emulator_access(to, size, 1, true);
    memcpy(to, from, size);
  }
}
EMULATOR_INLINE void checked_fill(void *to, int byte, size_t size) {
  if (size) {
    emulator_access(to, size, 1, true);
    memset(to, byte, size);
  }
}

} // namespace emulator
