// Messages between two blocks: right in one way, and with each part of it left out.
#include "device.h"

// Data and flags are words of 8 bytes; each thread of the first warp has one word of data.
struct Message {
  u64 data, flag, seen, sender, receiver;
};

enum Sender : u64 { RELEASES, STORES_PLAINLY, FENCES, SENDS_ALONE, HAS_NO_BARRIER, SYNCS_WARP,
                    ARRIVES, COUNTS_SHARED, RELEASES_EARLY, VOTES };
enum Receiver : u64 { ACQUIRES, LOADS_PLAINLY, LOADS_RELAXED, FENCES_AFTER, LOADS_LINE };

struct Shared {
  u32 count;
};

static KOLO_FN u64* word(u64 base, u64 index) { return (u64*)(base + 8 * index); }

static KOLO_FN void send(const Message& message, Shared& shared) {
  u32 thread = dev::thread();
  u64* flag = (u64*)message.flag;
  // Threads of the first warp work; where it takes a second one, that one raises the flag.
  bool works = thread < dev::WARP;
  u64 leader = message.sender == ARRIVES || message.sender == COUNTS_SHARED ? dev::WARP : 0;
  if (message.sender == COUNTS_SHARED) {
    if (thread == 0) {
      dev::shared_store_release(&shared.count, 0);
    }
    dev::block_sync();
  }
  if (message.sender == SENDS_ALONE) {
    for (u32 i = 0; thread == 0 && i < dev::WARP; i++) {
      dev::store8(word(message.data, i), 100 + i);
    }
  } else if (works && message.sender != RELEASES_EARLY) {
    dev::store8(word(message.data, thread), 100 + thread);
  }
  switch (message.sender) {
    case SYNCS_WARP:
      if (works) dev::warp_sync();
      break;
    case VOTES:
      // All have stored then, but a vote orders nothing.
      if (works) dev::all_of_warp(true);
      break;
    case ARRIVES:
      works ? dev::barrier_arrive(3, 64) : dev::barrier_wait(3, 64);
      break;
    case COUNTS_SHARED:
      if (works) {
        dev::shared_add_release(&shared.count, 1);
      } else if (thread == leader) {
        while (dev::shared_load_acquire(&shared.count) != dev::WARP) dev::spin();
      }
      break;
    case SENDS_ALONE:
    case HAS_NO_BARRIER:
      break;
    default:
      dev::block_sync();
  }
  if (thread == leader) {
    if (message.sender == FENCES) dev::fence();
    if (message.sender == STORES_PLAINLY || message.sender == FENCES) {
      dev::store8(flag, 1);
    } else {
      dev::store_release(flag, 1);
    }
  }
  if (works && message.sender == RELEASES_EARLY) {
    dev::store8(word(message.data, thread), 100 + thread);
  }
}

static KOLO_FN bool is_there(const Message& message) {
  u64* flag = (u64*)message.flag;
  switch (message.receiver) {
    case ACQUIRES:
      return dev::load_acquire(flag) == 1;
    case LOADS_PLAINLY:
      return dev::load8(flag) == 1;
    case LOADS_LINE:
      return dev::load_line(flag).data_low == 1;
    default:
      return dev::load_relaxed4((const u32*)flag) == 1;
  }
}

KOLO_KERNEL(litmus_message, Message, message) {
  KOLO_SHARED(Shared, shared);
  u32 thread = dev::thread();
  if (dev::block() == 0) {
    return send(message, shared);
  }
  if (thread == 0) {
    while (!is_there(message)) dev::spin();
    if (message.receiver == FENCES_AFTER) dev::fence();
  }
  dev::block_sync();
  if (thread < dev::WARP) {
    dev::store8(word(message.seen, thread), dev::load8(word(message.data, thread)));
  }
}

// Block 0 sends numbers to block 1 through slots of a word a thread, with credit for two; block 1
// stores them in order.
struct Pipe {
  u64 slots, tail, head, seen, rounds, mistake;
};

enum Mistake : u64 { NONE, CREDIT_EARLY, NO_CREDIT, NO_TAIL_BARRIER };

KOLO_KERNEL(litmus_pipe, Pipe, pipe) {
  u64 thread = dev::thread(), threads = dev::threads();
  u64 *tail = (u64*)pipe.tail, *head = (u64*)pipe.head;
  for (u64 round = 0; round < pipe.rounds; round++) {
    u64* slot = word(pipe.slots, round % 2 * threads + thread);
    if (dev::block() == 0) {
      if (thread == 0 && pipe.mistake != NO_CREDIT) {
        while (dev::load_acquire(head) + 2 <= round) dev::spin();
      }
      dev::block_sync();
      dev::store8(slot, 1000 * round + thread);
      if (pipe.mistake != NO_TAIL_BARRIER) dev::block_sync();
      if (thread == 0) dev::store_release(tail, round + 1);
    } else {
      if (thread == 0) {
        while (dev::load_acquire(tail) <= round) dev::spin();
        if (pipe.mistake == CREDIT_EARLY) dev::store_release(head, round + 1);
      }
      dev::block_sync();
      dev::store8(word(pipe.seen, round * threads + thread), dev::load8(slot));
      dev::block_sync();
      if (thread == 0 && pipe.mistake != CREDIT_EARLY) dev::store_release(head, round + 1);
    }
  }
}

// Each of two blocks stores its own word, then loads the other's.
struct Dekker {
  u64 words, seen, has_fence;
};

KOLO_KERNEL(litmus_dekker, Dekker, dekker) {
  u64 me = dev::block();
  if (dev::thread() == 0) {
    dev::store_release(word(dekker.words, 16 * me), 1);
    if (dekker.has_fence) dev::fence();
    dev::store8(word(dekker.seen, me), dev::load_acquire(word(dekker.words, 16 * (1 - me))));
  }
}

// Block 0 counts a word up; block 1 looks at it again and again, and keeps how often it went back.
struct Count {
  u64 word, went_back, rounds;
};

KOLO_KERNEL(litmus_count, Count, count) {
  if (dev::thread() != 0) return;
  u64 last = 0, back = 0;
  for (u64 i = 1; i <= count.rounds; i++) {
    if (dev::block() == 0) {
      dev::store8((u64*)count.word, i);
      // Nobody else stores there, so it must read its own.
      back += dev::load8((const u64*)count.word) != i;
    } else {
      u64 now = dev::load8((const u64*)count.word);
      back += now < last;
      last = now;
    }
  }
  dev::store8(word(count.went_back, dev::block()), back);
}

// Waits for the host's flag, then answers.
struct Answer {
  u64 flag, answer, looks_plainly;
};

KOLO_KERNEL(litmus_answer, Answer, answer) {
  if (dev::thread() != 0) return;
  const u64* flag = (const u64*)answer.flag;
  u64 value;
  do {
    dev::spin();
    value = answer.looks_plainly ? dev::load8(flag) : dev::load_acquire(flag);
  } while (value == 0);
  dev::store_release((u64*)answer.answer, value + 1);
}
