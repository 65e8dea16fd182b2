// ReLU and GELU as one writes them by hand, to lay beside what TileLang generates.
//
// gelu_tanh_naive      bf16, one element a thread, float arithmetic. After llm.c, dev/cuda/gelu_forward.cu, first kernel.
// gelu_tanh_packed128  bf16, eight elements in one 128-bit access, streaming load. After the second kernel there.
// relu_f32             float, one element a thread. After LeetCUDA, kernels/relu.
// relu_f32x4           float4 a thread, any n.
// relu_f32x4_hinted    the same with streaming loads and stores: what a cache hint is worth.
// gelu_f32             float, tanh form, one element a thread. After LeetCUDA, kernels/gelu.
// gelu_f32x4           float4 a thread, any n.
// gelu_erf_f32x4x2     exact GELU, two float4 a thread, in a loop over a grid of bounded size.
//
// Lessons, each with one fault that such kernels are found with; everything else in them is right:
// relu_f32x4_overrun   tests the first of four elements only, and reads and writes past the end of a ragged n.
// gelu_f32x4_overrun   the same fault in GELU.
// gelu_f32_clipped     clips its input to +-88.376 for an exponential that the formula does not have: gelu(100) = 88.376.
// gelu_f32_double      one constant without the suffix f: part of the arithmetic is in double.
//
// X, Y: n elements; X and Y start at a multiple of 16 bytes in the 128-bit kernels. Indices are size_t, so n may pass 2^31.
// TileLang passes a kernel its tensors sorted by name and then, if n is dynamic, n; a static n is compiled in.
#include <cuda_bf16.h>

#ifdef STATIC_N
#define AND_N
constexpr size_t n = STATIC_N;
#else
#define AND_N , size_t n
#endif

constexpr float BETA = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float KAPPA = 0.044715f;
constexpr float SQRT_HALF = 0.7071067811865476f;

__device__ inline size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

__device__ inline float relu(float x) { return fmaxf(x, 0.0f); }  // NaN becomes 0: of a number and NaN, the number

__device__ inline float gelu_tanh(float x) {
  float cube = KAPPA * x * x * x;
  return 0.5f * x * (1.0f + tanhf(BETA * (x + cube)));
}

__device__ inline float gelu_erf(float x) { return 0.5f * x * (1.0f + erff(x * SQRT_HALF)); }

// One function on four floats, or on the one to three of them that exist, at element 4 * vector.
template <float (*f)(float)> __device__ inline float4 four(float4 x) { return {f(x.x), f(x.y), f(x.z), f(x.w)}; }

template <float (*f)(float)> __device__ inline void vector_or_rest(const float *X, float *Y, size_t vector, size_t size) {
  if (4 * vector + 4 <= size) {
    reinterpret_cast<float4 *>(Y)[vector] = four<f>(reinterpret_cast<const float4 *>(X)[vector]);
  } else {
#pragma unroll 1  // at most three turns, which nvcc cannot know: it would make 32 of them in a row
    for (size_t i = 4 * vector; i < size; ++i) Y[i] = f(X[i]);
  }
}

// -- bf16 -----------------------------------------------------------------------------------------------------------
extern "C" __global__ void gelu_tanh_naive(const __nv_bfloat16 *__restrict__ X, __nv_bfloat16 *__restrict__ Y AND_N) {
  size_t i = thread_index();
  if (i < n) Y[i] = __float2bfloat16(gelu_tanh(__bfloat162float(X[i])));
}

struct alignas(16) Packed128 {
  __nv_bfloat16 item[8];
};

extern "C" __global__ void gelu_tanh_packed128(const __nv_bfloat16 *__restrict__ X, __nv_bfloat16 *__restrict__ Y AND_N) {
  size_t vector = thread_index();
  if (8 * vector + 8 <= n) {
    // .cs, "streaming": X is read once, so its lines may leave the cache first. Y is stored plainly: the next layer reads it.
    int4 raw = __ldcs(reinterpret_cast<const int4 *>(X) + vector);
    const Packed128 &x = reinterpret_cast<const Packed128 &>(raw);
    Packed128 y;
#pragma unroll
    for (int k = 0; k < 8; ++k) y.item[k] = __float2bfloat16(gelu_tanh(__bfloat162float(x.item[k])));
    reinterpret_cast<Packed128 *>(Y)[vector] = y;
  } else {
#pragma unroll 1
    for (size_t i = 8 * vector; i < n; ++i) Y[i] = __float2bfloat16(gelu_tanh(__bfloat162float(X[i])));
  }
}

// -- float ----------------------------------------------------------------------------------------------------------
extern "C" __global__ void relu_f32(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  size_t i = thread_index();
  if (i < n) Y[i] = relu(X[i]);
}

extern "C" __global__ void relu_f32x4(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  vector_or_rest<relu>(X, Y, thread_index(), n);
}

extern "C" __global__ void relu_f32x4_hinted(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  size_t vector = thread_index();
  if (4 * vector + 4 <= n) {
    float4 x = __ldcs(reinterpret_cast<const float4 *>(X) + vector);
    __stcs(reinterpret_cast<float4 *>(Y) + vector, four<relu>(x));
  } else {
    vector_or_rest<relu>(X, Y, vector, n);
  }
}

extern "C" __global__ void gelu_f32(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  size_t i = thread_index();
  if (i < n) Y[i] = gelu_tanh(X[i]);
}

extern "C" __global__ void gelu_f32x4(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  vector_or_rest<gelu_tanh>(X, Y, thread_index(), n);
}

extern "C" __global__ void gelu_erf_f32x4x2(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  // A block takes 2 * blockDim.x vectors at a time: a thread's two are blockDim.x apart, so that each access of a warp is
  // contiguous, and both are loaded before either is used.
  size_t stride = size_t(gridDim.x) * blockDim.x * 2;
  for (size_t first = size_t(blockIdx.x) * blockDim.x * 2 + threadIdx.x; 4 * first < n; first += stride) {
    size_t second = first + blockDim.x;
    if (4 * second + 4 <= n) {
      float4 x0 = reinterpret_cast<const float4 *>(X)[first], x1 = reinterpret_cast<const float4 *>(X)[second];
      reinterpret_cast<float4 *>(Y)[first] = four<gelu_erf>(x0);
      reinterpret_cast<float4 *>(Y)[second] = four<gelu_erf>(x1);
    } else {
      vector_or_rest<gelu_erf>(X, Y, first, n);
      vector_or_rest<gelu_erf>(X, Y, second, n);
    }
  }
}

// -- lessons --------------------------------------------------------------------------------------------------------
template <float (*f)(float)> __device__ inline void vector_overrun(const float *X, float *Y, size_t i, size_t size) {
  // The fault: element i exists, which says nothing about i + 1 to i + 3.
  if (i < size) reinterpret_cast<float4 &>(Y[i]) = four<f>(reinterpret_cast<const float4 &>(X[i]));
}

extern "C" __global__ void relu_f32x4_overrun(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  vector_overrun<relu>(X, Y, 4 * thread_index(), n);
}

extern "C" __global__ void gelu_f32x4_overrun(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  vector_overrun<gelu_tanh>(X, Y, 4 * thread_index(), n);
}

extern "C" __global__ void gelu_f32_clipped(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  size_t i = thread_index();
  // exp overflows beyond 88.376 and tanhf does not: the clip guards nothing, and its result is not x for a large x.
  if (i < n) Y[i] = gelu_tanh(fminf(fmaxf(X[i], -88.3762626647949f), 88.3762626647949f));
}

#define SQRT_2_OVER_PI 0.7978845608028654  // the fault: a double

extern "C" __global__ void gelu_f32_double(const float *__restrict__ X, float *__restrict__ Y AND_N) {
  size_t i = thread_index();
  if (i < n) Y[i] = 0.5f * X[i] * (1.0f + tanhf(SQRT_2_OVER_PI * (X[i] + KAPPA * X[i] * X[i] * X[i])));
}
