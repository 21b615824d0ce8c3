// Stacks from a pool, and the switch in the machine's own instructions where these are known.
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace host {

namespace {

constexpr size_t STACKS_AT_ONCE = 32;
constexpr size_t COLOURS = 32;

std::mutex pool_lock;
std::vector<void*>& pool() {
  // Never destroyed: a thread may still end a machine while the process ends.
  static auto* stacks = new std::vector<void*>;
  return *stacks;
}

// Many stacks from one mapping.
void map_stacks(std::vector<void*>& stacks) {
  size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t each = guard + STACK_BYTES;
  void* memory = mmap(nullptr, STACKS_AT_ONCE * each, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("kolo's machine for kernels: no memory for stacks");
    abort();
  }
  for (size_t i = 0; i < STACKS_AT_ONCE; i++) {
    char* low = static_cast<char*>(memory) + i * each;
    if (mprotect(low, guard, PROT_NONE) != 0) {
      perror("kolo's machine for kernels: no page to guard a stack");
      abort();
    }
    stacks.push_back(low + guard);
  }
}

}  // namespace

void* take_stack() {
  std::lock_guard<std::mutex> guard(pool_lock);
  if (pool().empty()) {
    map_stacks(pool());
  }
  void* low = pool().back();
  pool().pop_back();
  return low;
}

void give_stack(void* low) {
  std::lock_guard<std::mutex> guard(pool_lock);
  pool().push_back(low);
}

#ifdef KOLO_HOST_UCONTEXT

void prepare(Context& context, void* low, void (*entry)()) {
  getcontext(&context.saved);
  context.saved.uc_stack.ss_sp = low;
  context.saved.uc_stack.ss_size = STACK_BYTES;
  context.saved.uc_link = nullptr;
  makecontext(&context.saved, entry, 0);
}

void switch_over(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

#else

extern "C" void kolo_host_switch(void** from, void* to);

#if defined(__x86_64__)
// What a called function must keep, in the order in which it is taken back; then the return.
constexpr size_t SAVED_WORDS = 6, RETURN_WORD = 6, FRAME_WORDS = 7;
asm(R"(
.text
.hidden kolo_host_switch
.globl kolo_host_switch
.type kolo_host_switch, @function
kolo_host_switch:
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
.size kolo_host_switch, . - kolo_host_switch
)");
#else
// x19 to x30, then d8 to d15; the return is x30.
constexpr size_t SAVED_WORDS = 20, RETURN_WORD = 11, FRAME_WORDS = 20;
asm(R"(
.text
.hidden kolo_host_switch
.globl kolo_host_switch
.type kolo_host_switch, %function
kolo_host_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size kolo_host_switch, . - kolo_host_switch
)");
#endif

void prepare(Context& context, void* low, void (*entry)()) {
  // Stacks that all began at one place of their pages would share few lines of the caches.
  auto bottom = reinterpret_cast<uintptr_t>(low);
  auto top = bottom + STACK_BYTES - 64 - bottom / STACK_BYTES * 5 % COLOURS * 64;
  // The entry finds the stack as after a call: on x86-64 8 bytes above a multiple of 16 are taken.
  size_t above = FRAME_WORDS == SAVED_WORDS ? 0 : 1;
  auto* frame = reinterpret_cast<uintptr_t*>(top) - FRAME_WORDS - above;
  for (size_t i = 0; i < SAVED_WORDS; i++) {
    frame[i] = 0;
  }
  frame[RETURN_WORD] = reinterpret_cast<uintptr_t>(entry);
  if (above) {
    frame[FRAME_WORDS] = 0;
  }
  context.stack = frame;
}

void switch_over(Context& from, Context& to) { kolo_host_switch(&from.stack, to.stack); }

#endif

}  // namespace host
