// Fibers: stacks of their own, and the switch from one to another.
//
// Nothing is unwound across a switch, and a fiber that is not switched to any more is simply left:
// its stack goes back to the pool.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define KOLO_HOST_UCONTEXT
#endif
#ifdef KOLO_HOST_UCONTEXT
#include <ucontext.h>
#endif

namespace host {

// Where a fiber that does not run will go on.
struct Context {
#ifdef KOLO_HOST_UCONTEXT
  ucontext_t saved;
#else
  void* stack;
#endif
};

constexpr size_t STACK_BYTES = 64 * 1024;

// The pool of the process keeps the stacks that nobody uses. Below each lies a page that faults.
void* take_stack();
void give_stack(void* low);

// A context that begins with `entry`, which never returns, on the stack that begins at `low`.
void prepare(Context& context, void* low, void (*entry)());

// Goes on with `to`; returns when somebody switches to `from`.
void switch_over(Context& from, Context& to);

}  // namespace host
