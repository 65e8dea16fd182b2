// What a kernel compiled for the host calls while it runs: barriers, warp exchange, checks. runtime.cpp implements it.
// Every function notes its caller's address, from which the line of the kernel is found afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

// What the lanes of one warp handed in: value[i] is lane i's, valid where bit i of `lanes` is set.
struct WarpValues {
  uint64_t value[32];
  unsigned lanes;
};

} // namespace emulator

extern "C" {
// Block barrier `id` for `count` threads (0: the whole block). `aligned`: all have to come from the same place.
void emulator_barrier(unsigned id, unsigned count, bool aligned);
// Counts towards barrier `id` without waiting.
void emulator_barrier_arrive(unsigned id, unsigned count);
// Waits for every live lane of `mask`, then shows each of them what all handed in. `what` names the intrinsic.
void emulator_warp(unsigned mask, uint64_t value, const char *what, emulator::WarpValues *out);
unsigned emulator_live_lanes();
unsigned emulator_lane();
// A lane read the value of a lane that takes no part; on a GPU that is undefined.
void emulator_absent_lane(const char *what, int lane);

// Checks an access that the compiler does not see: size bytes, aligned to `alignment`. A wrong one ends the thread.
void emulator_access(const void *address, size_t size, size_t alignment, bool write);
// The same for an atomic operation, which reads and writes and races with no other atomic.
void emulator_atomic(const void *address, size_t size, size_t alignment);

// Shared memory asked for at launch, 1024-byte aligned; and shared addresses as the 32-bit numbers that PTX uses.
void *emulator_dynamic_shared();
uint32_t emulator_to_shared(const void *address);
void *emulator_from_shared(uint32_t address);

[[noreturn]] void emulator_trap(const char *message);
[[noreturn]] void emulator_missing(const char *what);

// Defined by the generated text: whether all static __shared__ variables are seen by the checks.
extern const bool emulator_static_shared_checked;
// Defined by the generated text: calls kernel number `kernel`; argument i is read at arguments[i].
void emulator_call(unsigned kernel, void *const *arguments);
}
