// Runs a grid of CUDA threads on one CPU thread and checks every access.
//
// Each CUDA thread is a fiber: it runs until it waits at a barrier or for its warp, then the next one runs, so a run is
// deterministic. The kernel is compiled with -fsanitize=kernel-address, which turns every load and store into a call
// that this file answers (no sanitizer library is linked), and with -fsanitize=alignment,bounds,float-cast-overflow,
// whose reports this file takes too. An access that a GPU would not survive ends its thread; all others go on.
//
// Global memory: one slot of address space per buffer. The buffer sits behind a band of canary bytes, a second band
// follows it, and the rest of the slot is unmapped, so an index that is wrong by billions hits no other buffer.
#include "runtime.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <sys/mman.h>
#include <tuple>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

struct Index3 {
  unsigned x, y, z;
};
extern "C" {
Index3 threadIdx, blockIdx, blockDim, gridDim;
int warpSize = 32;
// Bounds of the section that holds the kernel's static __shared__ variables, and of the whole program image.
extern char __start_emulated_shared[] __attribute__((weak));
extern char __stop_emulated_shared[] __attribute__((weak));
extern char __executable_start[];
extern char _end[];
}

namespace {

constexpr size_t kBand = 64 << 10;
constexpr uint8_t kCanary = 0xc5;
constexpr uint8_t kSharedPoison = 0xb6;
constexpr size_t kSharedMost = 256 << 10;
constexpr size_t kStack = 256 << 10;
constexpr unsigned kMostThreads = 1024;
constexpr int kNowhere = -1, kSharedDynamic = -2, kSharedStatic = -3;

// ---- faults --------------------------------------------------------------------------------------------------

struct Fault {
  std::string kind, text;
  uintptr_t pc;
  int region;       // number of the buffer, or one of the negative names above
  long long offset; // bytes from its start
  size_t size;
  int write; // 1 write, 0 read, -1 neither
  Index3 block, thread;
  unsigned long long count;
};

std::vector<Fault> faults;
std::map<std::tuple<std::string, uintptr_t, int, int>, size_t> fault_index;
bool damaged_bands = false; // a write outside a buffer was seen, so the canaries cannot be intact
bool killed_any = false;
const char *fault_path = nullptr;

void report(const char *kind, uintptr_t pc, int region, long long offset, size_t size, int write, std::string text = "") {
  auto key = std::make_tuple(std::string(kind), pc, region, write);
  auto found = fault_index.find(key);
  if (found != fault_index.end()) {
    faults[found->second].count += 1;
    return;
  }
  fault_index[key] = faults.size();
  faults.push_back({kind, std::move(text), pc, region, offset, size, write, blockIdx, threadIdx, 1});
}

void write_faults() {
  FILE *out = fopen(fault_path, "w");
  for (const Fault &f : faults)
    fprintf(out, "%s\t%lx\t%d\t%lld\t%zu\t%d\t%u,%u,%u\t%u,%u,%u\t%llu\t%s\n", f.kind.c_str(), (unsigned long)f.pc,
            f.region, f.offset, f.size, f.write, f.block.x, f.block.y, f.block.z, f.thread.x, f.thread.y, f.thread.z,
            f.count, f.text.c_str());
  fclose(out);
}

// ---- fibers --------------------------------------------------------------------------------------------------

enum class State : uint8_t { fresh, ready, waiting_block, waiting_warp, done, killed };

struct Fiber {
  State state;
  Index3 index;
  int stack;
  unsigned barrier;      // which block barrier it waits at
  bool aligned;          // and whether all threads have to come from one place
  unsigned mask;         // lanes it waits for
  uintptr_t pc;          // where it waits
  const char *what;      // the warp intrinsic it waits in
  uint64_t value;        // what it hands in there
  emulator::WarpValues *out;
  void *context; // saved stack pointer, or its ucontext_t
};

Fiber fibers[kMostThreads];
unsigned thread_count, current;
char *stacks;
std::vector<int> free_stacks;
unsigned running_kernel;
void *const *running_arguments;

void finish_thread();

#if defined(__x86_64__)
// swapcontext makes two system calls a switch; this saves the callee-saved registers only.
extern "C" void emulator_switch(void **save, void *load);
asm(R"(
.text
.globl emulator_switch
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
void *scheduler_context;

void thread_main() {
  emulator_call(running_kernel, running_arguments);
  finish_thread();
}

void prepare(Fiber &fiber) {
  void **top = reinterpret_cast<void **>(stacks + size_t(fiber.stack + 1) * kStack);
  *--top = nullptr; // a return address for thread_main, which never returns; keeps the stack 16-byte aligned
  *--top = reinterpret_cast<void *>(&thread_main);
  for (int i = 0; i < 6; ++i)
    *--top = nullptr;
  fiber.context = top;
}
void enter(Fiber &fiber) { emulator_switch(&scheduler_context, fiber.context); }
void leave(Fiber &fiber) { emulator_switch(&fiber.context, scheduler_context); }
#else
ucontext_t scheduler_context, fiber_contexts[kMostThreads];

void thread_main() {
  emulator_call(running_kernel, running_arguments);
  finish_thread();
}

void prepare(Fiber &fiber) {
  ucontext_t &context = fiber_contexts[&fiber - fibers];
  getcontext(&context);
  context.uc_stack.ss_sp = stacks + size_t(fiber.stack) * kStack;
  context.uc_stack.ss_size = kStack;
  context.uc_link = nullptr;
  makecontext(&context, thread_main, 0);
  fiber.context = &context;
}
void enter(Fiber &fiber) { swapcontext(&scheduler_context, static_cast<ucontext_t *>(fiber.context)); }
void leave(Fiber &fiber) { swapcontext(static_cast<ucontext_t *>(fiber.context), &scheduler_context); }
#endif

void resume(unsigned thread) {
  current = thread;
  Fiber &fiber = fibers[thread];
  threadIdx = fiber.index;
  enter(fiber);
}

[[noreturn]] void end_thread(State state) {
  Fiber &fiber = fibers[current];
  fiber.state = state;
  free_stacks.push_back(fiber.stack);
  leave(fiber);
  __builtin_unreachable();
}

void finish_thread() { end_thread(State::done); }

[[noreturn]] void kill_thread() {
  killed_any = true;
  end_thread(State::killed);
}

bool gone(const Fiber &fiber) { return fiber.state == State::done || fiber.state == State::killed; }

// ---- memory --------------------------------------------------------------------------------------------------

// Who read and wrote a byte last, and at what time of the block: two accesses of different threads with no barrier
// between them race when one of them writes.
struct Trace {
  uint32_t writer, reader;           // 1 + number of the thread in the grid; 0: nobody
  uint32_t write_epoch, read_epoch;  // block barriers passed then
  uint32_t write_warp_epoch, read_warp_epoch;
};

struct Region {
  char *begin = nullptr;
  size_t size = 0;
  char *mapped_begin = nullptr, *mapped_end = nullptr;
  std::vector<uint8_t> written; // one flag a byte; empty: everything counts as written
  std::vector<Trace> trace;     // one for each `grain` bytes; empty: not traced
  size_t grain = 1;             // size of an element
  bool stored = false;
};

std::vector<Region> buffers;
char *slots;
size_t slot_size;
alignas(1024) char dynamic_shared[kSharedMost];
Region shared_dynamic, shared_static;
uint32_t block_epoch = 1, warp_epoch[kMostThreads / 32];
uint64_t block_number;

uint32_t grid_thread() { return uint32_t(block_number * thread_count + current + 1); }

Region *region_of(uintptr_t address, int *name) {
  uintptr_t offset = address - reinterpret_cast<uintptr_t>(slots);
  if (offset < slot_size * buffers.size()) {
    *name = int(offset / slot_size);
    return &buffers[*name];
  }
  if (address - reinterpret_cast<uintptr_t>(dynamic_shared) < kSharedMost) {
    *name = kSharedDynamic;
    return &shared_dynamic;
  }
  if (address - reinterpret_cast<uintptr_t>(shared_static.begin) < shared_static.size) {
    *name = kSharedStatic;
    return &shared_static;
  }
  *name = kNowhere;
  return nullptr;
}

// Same block: ordered by a block barrier, or by the warp when both are in it. Another block: never ordered in global
// memory; in shared memory the trace is a former block's and means nothing.
bool ordered(uint32_t other, uint32_t epoch, uint32_t other_warp_epoch, bool shared) {
  if (other == 0 || other == grid_thread())
    return true;
  uint32_t block = (other - 1) / thread_count, thread = (other - 1) % thread_count;
  if (block != block_number)
    return shared;
  if (epoch != block_epoch)
    return true;
  return thread / 32 == current / 32 && other_warp_epoch != warp_epoch[current / 32];
}

void trace(Region &region, int name, size_t offset, size_t size, bool write, uintptr_t pc) {
  bool race = false, shared = name < 0;
  for (size_t i = offset / region.grain; i <= (offset + size - 1) / region.grain; ++i) {
    Trace &t = region.trace[i];
    if (write) {
      race = race || !ordered(t.reader, t.read_epoch, t.read_warp_epoch, shared);
      t.writer = grid_thread(), t.write_epoch = block_epoch, t.write_warp_epoch = warp_epoch[current / 32];
    } else {
      race = race || !ordered(t.writer, t.write_epoch, t.write_warp_epoch, shared);
      t.reader = grid_thread(), t.read_epoch = block_epoch, t.read_warp_epoch = warp_epoch[current / 32];
    }
  }
  if (race)
    report("race", pc, name, (long long)offset, size, write);
}

void check(uintptr_t address, size_t size, bool write, bool atomic, uintptr_t pc) {
  if (address - reinterpret_cast<uintptr_t>(stacks) < kStack * kMostThreads)
    return; // a thread's own variables
  int name;
  Region *region = region_of(address, &name);
  if (!region) {
    // Constants and variables of the program itself; anything else is no memory that a kernel can reach.
    if (address >= reinterpret_cast<uintptr_t>(__executable_start) && address < reinterpret_cast<uintptr_t>(_end))
      return;
    report("out-of-bounds", pc, kNowhere, (long long)address, size, write);
    kill_thread();
  }
  long long offset = (long long)(address - reinterpret_cast<uintptr_t>(region->begin));
  if (offset < 0 || offset + size > region->size) {
    report("out-of-bounds", pc, name, offset, size, write);
    char *first = reinterpret_cast<char *>(address);
    if (first < region->mapped_begin || first + size > region->mapped_end)
      kill_thread();
    damaged_bands = damaged_bands || write;
    return;
  }
  region->stored = region->stored || write;
  if (!region->written.empty()) {
    uint8_t *flags = region->written.data() + offset;
    if (!write || atomic)
      if (memchr(flags, 0, size))
        report("uninitialized", pc, name, offset, size, write);
    if (write)
      memset(flags, 1, size);
  }
  if (!region->trace.empty() && !atomic && size)
    trace(*region, name, size_t(offset), size, write, pc);
}

void check_alignment(uintptr_t address, size_t size, size_t alignment, int write, uintptr_t pc, const char *type) {
  if (address % alignment == 0)
    return;
  // A thread's own small arrays are registers on a GPU; where they lie here says nothing.
  if (address - reinterpret_cast<uintptr_t>(stacks) < kStack * kMostThreads)
    return;
  int name;
  Region *region = region_of(address, &name);
  long long offset = region ? (long long)(address - reinterpret_cast<uintptr_t>(region->begin)) : (long long)address;
  report("misaligned", pc, name, offset, size, write, std::string(type) + "\t" + std::to_string(alignment));
  kill_thread(); // "misaligned address" ends a kernel on a GPU
}

// ---- waiting -------------------------------------------------------------------------------------------------

struct Barrier {
  unsigned arrived, expected;
};
Barrier barriers[16];

unsigned count_gone() {
  unsigned n = 0;
  for (unsigned t = 0; t < thread_count; ++t)
    n += gone(fibers[t]);
  return n;
}

unsigned count_killed() {
  unsigned n = 0;
  for (unsigned t = 0; t < thread_count; ++t)
    n += fibers[t].state == State::killed;
  return n;
}

void complete_barrier(unsigned id) {
  uintptr_t pc = 0;
  bool divergent = false;
  for (unsigned t = 0; t < thread_count; ++t) {
    Fiber &f = fibers[t];
    if (f.state != State::waiting_block || f.barrier != id)
      continue;
    divergent = divergent || (pc && f.aligned && pc != f.pc);
    pc = f.pc;
    f.state = State::ready;
  }
  if (divergent)
    report("divergent-barrier", pc, kNowhere, 0, 0, -1);
  barriers[id] = {0, 0};
  block_epoch += 1;
}

void arrive(unsigned id, unsigned count, uintptr_t pc) {
  if (id >= 16) {
    report("barrier", pc, kNowhere, 0, 0, -1, "barrier number " + std::to_string(id) + " is not below 16");
    kill_thread();
  }
  Barrier &barrier = barriers[id];
  unsigned expected = count ? count : thread_count;
  if (barrier.arrived && barrier.expected != expected)
    report("barrier", pc, kNowhere, 0, 0, -1,
           "barrier " + std::to_string(id) + " is awaited by " + std::to_string(barrier.expected) + " and by " +
               std::to_string(expected) + " threads at once");
  barrier.expected = expected;
  barrier.arrived += 1;
}

// The lanes of `mask` that have not left. A lane outside the block counts as left.
unsigned live_lanes(unsigned warp) {
  unsigned live = 0;
  for (unsigned lane = 0; lane < 32 && warp * 32 + lane < thread_count; ++lane)
    if (!gone(fibers[warp * 32 + lane]))
      live |= 1u << lane;
  return live;
}

// Lets a warp's lanes go on when all that one of them waits for have come.
bool try_warp(unsigned warp) {
  unsigned live = live_lanes(warp);
  for (unsigned lane = 0; lane < 32; ++lane) {
    Fiber &f = fibers[warp * 32 + lane];
    if (!(live >> lane & 1) || f.state != State::waiting_warp)
      continue;
    unsigned group = f.mask & live;
    bool complete = true;
    for (unsigned other = 0; other < 32 && complete; ++other) {
      const Fiber &o = fibers[warp * 32 + other];
      if (group >> other & 1)
        complete = o.state == State::waiting_warp && o.mask == f.mask && strcmp(o.what, f.what) == 0;
    }
    if (!complete)
      continue;
    emulator::WarpValues values = {};
    values.lanes = group;
    for (unsigned other = 0; other < 32; ++other)
      if (group >> other & 1)
        values.value[other] = fibers[warp * 32 + other].value;
    for (unsigned other = 0; other < 32; ++other)
      if (group >> other & 1) {
        *fibers[warp * 32 + other].out = values;
        fibers[warp * 32 + other].state = State::ready;
      }
    warp_epoch[warp] += 1;
    return true;
  }
  return false;
}

void wait(State state) {
  fibers[current].state = state;
  leave(fibers[current]);
}

// Nothing can go on. Says where the threads wait, lets nobody continue. Returns false when a barrier only lacked
// threads that a fault had ended: that fault is the news, so their absence is forgiven.
bool deadlocked() {
  bool forgiven = false;
  for (unsigned id = 0; id < 16; ++id) {
    Barrier &b = barriers[id];
    if (b.arrived && count_killed() && b.arrived + count_gone() >= b.expected) {
      complete_barrier(id);
      forgiven = true;
    }
  }
  if (forgiven)
    return false;
  std::map<uintptr_t, unsigned> places;
  for (unsigned t = 0; t < thread_count; ++t)
    if (!gone(fibers[t]))
      places[fibers[t].pc] += 1;
  for (unsigned t = 0; t < thread_count; ++t) {
    Fiber &f = fibers[t];
    if (gone(f) || !places.count(f.pc))
      continue;
    unsigned here = places[f.pc], elsewhere = 0, exited = count_gone();
    places.erase(f.pc);
    elsewhere = thread_count - exited - here;
    std::string text = std::to_string(here) + " of " + std::to_string(thread_count) + " threads wait here";
    if (f.state == State::waiting_warp)
      text += std::string(" in ") + f.what;
    else
      text += " for " + std::to_string(barriers[f.barrier].expected);
    if (exited)
      text += "; " + std::to_string(exited) + " have left the kernel";
    if (elsewhere)
      text += "; " + std::to_string(elsewhere) + " wait at another place";
    threadIdx = f.index;
    report("deadlock", f.pc, kNowhere, 0, 0, -1, text);
  }
  return true;
}

// ---- blocks and launches -------------------------------------------------------------------------------------

void clear_shared(Region &region) {
  memset(region.begin, kSharedPoison, region.size);
  if (&region == &shared_static && !emulator_static_shared_checked)
    return;
  region.written.assign(region.size, 0);
  region.trace.resize(region.size);
}

// Returns false after a deadlock.
bool run_block() {
  clear_shared(shared_dynamic);
  clear_shared(shared_static);
  memset(barriers, 0, sizeof barriers);
  block_epoch += 1;
  for (unsigned t = 0; t < thread_count; ++t) {
    Fiber &f = fibers[t];
    f = Fiber{};
    f.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
  }
  unsigned started = 0;
  for (;;) {
    bool progress = false;
    for (unsigned t = 0; t < thread_count; ++t) {
      Fiber &f = fibers[t];
      if (f.state == State::fresh) {
        f.stack = free_stacks.back();
        free_stacks.pop_back();
        prepare(f);
        f.state = State::ready;
        started += 1;
      }
      if (f.state == State::ready) {
        resume(t);
        progress = true;
      }
    }
    for (unsigned warp = 0; warp * 32 < thread_count; ++warp)
      while (try_warp(warp))
        progress = true;
    if (count_gone() == thread_count)
      break;
    if (progress)
      continue;
    if (deadlocked()) {
      for (unsigned t = 0; t < thread_count; ++t)
        if (!gone(fibers[t]))
          free_stacks.push_back(fibers[t].stack);
      killed_any = true;
      return false;
    }
  }
  return true;
}

std::vector<Region *> traced_regions() {
  std::vector<Region *> all = {&shared_dynamic, &shared_static};
  for (Region &r : buffers)
    all.push_back(&r);
  return all;
}

struct Reader {
  std::vector<char> bytes;
  size_t at = 0;
  uint64_t number() {
    uint64_t value;
    memcpy(&value, bytes.data() + at, 8);
    at += 8;
    return value;
  }
};

void place_buffers(Reader &in) {
  uint64_t count = in.number();
  // Room for indices that are wrong by 2^31 elements; less where address space is scarce.
  for (slot_size = size_t(1) << 35; slot_size >= size_t(1) << 28; slot_size >>= 1) {
    void *got = mmap(nullptr, slot_size * (count + 1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    slots = static_cast<char *>(got);
    if (got != MAP_FAILED)
      break;
    slots = nullptr;
  }
  if (!slots) {
    fprintf(stderr, "no address space for the kernel's buffers\n");
    _exit(4);
  }
  buffers.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t size = in.number(), misalignment = in.number(), pure_output = in.number(), poison = in.number();
    uint64_t grain = in.number(); // bytes of an element; 0: do not trace
    Region &region = buffers[i];
    char *middle = slots + i * slot_size + slot_size / 2; // a multiple of 256
    size_t page = size_t(sysconf(_SC_PAGESIZE));
    region.begin = middle + misalignment;
    region.size = size;
    region.mapped_begin = middle - kBand;
    region.mapped_end = middle + (misalignment + size + kBand + page - 1) / page * page;
    size_t mapped = size_t(region.mapped_end - region.mapped_begin);
    if (mprotect(region.mapped_begin, mapped, PROT_READ | PROT_WRITE)) {
      fprintf(stderr, "no memory for the kernel's buffers\n");
      _exit(4);
    }
    memset(region.mapped_begin, kCanary, mapped);
    if (pure_output) {
      memset(region.begin, int(poison), size);
      region.written.assign(size, 0);
    } else {
      memcpy(region.begin, in.bytes.data() + in.at, size);
      in.at += size;
    }
    if (grain) {
      region.grain = grain;
      region.trace.assign(size / grain, Trace{});
    }
  }
}

void check_bands() {
  for (size_t i = 0; i < buffers.size() && !damaged_bands; ++i) {
    Region &r = buffers[i];
    for (char *p = r.mapped_begin; p < r.mapped_end; ++p) {
      if (p == r.begin)
        p += r.size;
      if (uint8_t(*p) != kCanary) {
        report("out-of-bounds", 0, int(i), p - r.begin, 1, 1);
        break;
      }
    }
  }
}

void run_launch(Reader &in) {
  running_kernel = unsigned(in.number());
  for (Index3 *v : {&gridDim, &blockDim})
    v->x = unsigned(in.number()), v->y = unsigned(in.number()), v->z = unsigned(in.number());
  shared_dynamic.begin = dynamic_shared;
  shared_dynamic.size = in.number();
  shared_dynamic.mapped_begin = dynamic_shared;
  shared_dynamic.mapped_end = dynamic_shared + kSharedMost;
  std::vector<uint64_t> cells(in.number());
  std::vector<void *> arguments;
  for (uint64_t &cell : cells) {
    bool is_buffer = in.number();
    cell = in.number();
    if (is_buffer)
      cell = reinterpret_cast<uint64_t>(buffers[cell].begin);
    arguments.push_back(&cell);
  }
  running_arguments = arguments.data();
  thread_count = blockDim.x * blockDim.y * blockDim.z;
  // A launch ends before the next begins, so nothing races across it.
  for (Region *r : traced_regions())
    r->trace.assign(r->trace.size(), Trace{});
  block_number = 0;
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        if (!run_block())
          return; // the other blocks would hang in the same way
        block_number += 1;
      }
}

void on_signal(int signal, siginfo_t *info, void *) {
  uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  bool overflow = signal == SIGSEGV && address - reinterpret_cast<uintptr_t>(stacks) < kStack * kMostThreads;
  report("crash", 0, kNowhere, (long long)address, 0, -1,
         overflow ? "a thread's local variables need more than 192 KiB" : strsignal(signal));
  write_faults();
  _exit(5);
}

void set_up() {
  stacks = static_cast<char *>(mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (stacks == MAP_FAILED) {
    fprintf(stderr, "no address space for the threads' stacks\n");
    _exit(4);
  }
  for (int i = int(kMostThreads) - 1; i >= 0; --i) {
    mprotect(stacks + size_t(i) * kStack, 64 << 10, PROT_NONE); // an overflow is a crash, not silent damage
    free_stacks.push_back(i);
  }
  shared_static.begin = __start_emulated_shared;
  shared_static.size = size_t(__stop_emulated_shared - __start_emulated_shared);
  shared_static.mapped_begin = shared_static.begin;
  shared_static.mapped_end = shared_static.begin + shared_static.size;
  static char signal_stack[64 << 10];
  stack_t alternative = {};
  alternative.ss_sp = signal_stack;
  alternative.ss_size = sizeof signal_stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
}

} // namespace

#define CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

extern "C" {

void emulator_barrier(unsigned id, unsigned count, bool aligned) {
  arrive(id, count, CALLER);
  Fiber &f = fibers[current];
  f.barrier = id;
  f.aligned = aligned;
  f.pc = CALLER;
  f.state = State::waiting_block;
  if (barriers[id].arrived >= barriers[id].expected)
    complete_barrier(id);
  if (f.state == State::waiting_block)
    wait(State::waiting_block);
}

void emulator_barrier_arrive(unsigned id, unsigned count) {
  arrive(id, count, CALLER);
  if (barriers[id].arrived >= barriers[id].expected)
    complete_barrier(id);
}

void emulator_warp(unsigned mask, uint64_t value, const char *what, emulator::WarpValues *out) {
  Fiber &f = fibers[current];
  f.pc = CALLER;
  if (!(mask >> (current % 32) & 1)) {
    report("warp", CALLER, kNowhere, 0, 0, -1, std::string(what) + ": the mask leaves out the calling lane");
    kill_thread();
  }
  f.mask = mask;
  f.value = value;
  f.what = what;
  f.out = out;
  wait(State::waiting_warp);
}

unsigned emulator_live_lanes() { return live_lanes(current / 32); }
unsigned emulator_lane() { return current % 32; }

void emulator_absent_lane(const char *what, int lane) {
  if (!count_killed())
    report("warp", CALLER, kNowhere, 0, 0, -1,
           std::string(what) + " reads lane " + std::to_string(lane) + ", which takes no part");
}

void emulator_access(const void *address, size_t size, size_t alignment, bool write) {
  uintptr_t at = reinterpret_cast<uintptr_t>(address);
  check_alignment(at, size, alignment, write, CALLER, "");
  check(at, size, write, false, CALLER);
}

void emulator_atomic(const void *address, size_t size, size_t alignment) {
  uintptr_t at = reinterpret_cast<uintptr_t>(address);
  check_alignment(at, size, alignment, true, CALLER, "atomic");
  check(at, size, true, true, CALLER);
}

void *emulator_dynamic_shared() { return dynamic_shared; }

uint32_t emulator_to_shared(const void *address) {
  return uint32_t(reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(dynamic_shared));
}

void *emulator_from_shared(uint32_t address) { return dynamic_shared + int32_t(address); }

void emulator_trap(const char *message) {
  report("trap", CALLER, kNowhere, 0, 0, -1, message);
  kill_thread();
}

void emulator_missing(const char *what) {
  report("not-emulated", CALLER, kNowhere, 0, 0, -1, what);
  write_faults();
  _exit(3);
}

// assert() in device code ends up here instead of in the C library.
[[noreturn]] void __assert_fail(const char *text, const char *, unsigned, const char *) noexcept {
  report("assert", CALLER, kNowhere, 0, 0, -1, text);
  kill_thread();
}

// A GPU's FMNMX: a NaN loses to a number, and +0 is greater than -0. The C library leaves the second open.
float fmaxf(float a, float b) noexcept {
  if (a != a || b != b)
    return a != a ? b : a;
  return a == b ? (__builtin_signbit(a) ? b : a) : (a > b ? a : b);
}
float fminf(float a, float b) noexcept {
  if (a != a || b != b)
    return a != a ? b : a;
  return a == b ? (__builtin_signbit(a) ? a : b) : (a < b ? a : b);
}
double fmax(double a, double b) noexcept {
  if (a != a || b != b)
    return a != a ? b : a;
  return a == b ? (__builtin_signbit(a) ? b : a) : (a > b ? a : b);
}
double fmin(double a, double b) noexcept {
  if (a != a || b != b)
    return a != a ? b : a;
  return a == b ? (__builtin_signbit(a) ? a : b) : (a < b ? a : b);
}

// ---- what the compiler calls ---------------------------------------------------------------------------------

#define ACCESS(SIZE)                                                                                                   \
  void __asan_load##SIZE##_noabort(uintptr_t at) { check(at, SIZE, false, false, CALLER); }                            \
  void __asan_store##SIZE##_noabort(uintptr_t at) { check(at, SIZE, true, false, CALLER); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __asan_loadN_noabort(uintptr_t at, size_t size) { check(at, size, false, false, CALLER); }
void __asan_storeN_noabort(uintptr_t at, size_t size) { check(at, size, true, false, CALLER); }
void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const char *) {}
void __asan_after_dynamic_init() {}

struct SourcePlace {
  const char *file;
  uint32_t line, column;
};
struct TypeName {
  uint16_t kind, info;
  char name[1];
};
struct MismatchData {
  SourcePlace place;
  TypeName *type;
  uint8_t log_alignment, access;
};

void __ubsan_handle_type_mismatch_v1(MismatchData *data, uintptr_t address) {
  int write = data->access == 1 ? 1 : data->access == 0 ? 0 : -1;
  check_alignment(address, 0, size_t(1) << data->log_alignment, write, CALLER, data->type->name);
}

void __ubsan_handle_out_of_bounds(void *, uintptr_t index) {
  report("out-of-bounds", CALLER, kNowhere, (long long)index, 0, -1, "index of a local or shared array");
  kill_thread();
}

void __ubsan_handle_float_cast_overflow(void *, uintptr_t) {
  report("cast-overflow", CALLER, kNowhere, 0, 0, -1,
         "a float outside the integer type is cast: a GPU saturates, a CPU does not, so this value is not the GPU's");
}
}

int main(int, char **argv) {
  // arguments: request, results, faults
  fault_path = argv[3];
  Reader in;
  FILE *file = fopen(argv[1], "rb");
  fseek(file, 0, SEEK_END);
  in.bytes.resize(size_t(ftell(file)));
  rewind(file);
  if (fread(in.bytes.data(), 1, in.bytes.size(), file) != in.bytes.size())
    return 4;
  fclose(file);
  set_up();
  place_buffers(in);
  for (uint64_t launches = in.number(); launches; --launches)
    run_launch(in);
  check_bands();
  FILE *out = fopen(argv[2], "wb");
  for (Region &r : buffers) {
    fwrite(r.begin, 1, r.size, out);
    fwrite(r.written.data(), 1, r.written.size(), out);
    fputc(r.stored, out);
  }
  fputc(killed_any, out);
  if (fclose(out))
    return 4;
  write_faults();
  fflush(stdout);
  return 0;
}
