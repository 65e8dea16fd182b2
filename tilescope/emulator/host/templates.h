// Every TileLang template that an elementwise, cast or reduction kernel includes: compiled once, ahead of the kernels.
#pragma once

#include "cuda_on_host.h"

#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#include <tl_templates/cuda/atomic.h>
#include <tl_templates/cuda/copy.h>
#include <tl_templates/cuda/copy_sm90.h>
#include <tl_templates/cuda/intrin.h>
#include <tl_templates/cuda/cuda_fp8.h>
#include <tl_templates/cuda/copy_sm100.h>

// From here on in the kernel's own text: g++ does not check what these two touch.
#define memcpy(to, from, size) emulator::checked_copy(to, from, size)
#define memset(to, byte, size) emulator::checked_fill(to, byte, size)

// Kernels are compiled at -O0, so that every access stays where the text has it, while the rest of this header is not: at
// -O0 g++ would emit hundreds of CUDA's static functions that nobody calls.
#undef __global__
#define __global__ __attribute__((optimize("O0")))
#undef __device__
#define __device__ __attribute__((optimize("O0")))

// g++ checks one expression once in a row of statements: y[0] = y[0] + 1 would count as a read only. A pointer that is
// itself volatile is read anew for each access.
#define __restrict__ volatile
#define __restrict volatile
