// Calls of a warp and barriers of a block, and what goes wrong there.
#include "device.h"

struct Votes {
  u64 out, rounds;
};

// Thread t of the only warp stores the sum of what it was told.
KOLO_KERNEL(litmus_votes, Votes, votes) {
  u64 thread = dev::thread(), sum = 0;
  for (u64 r = 0; r < votes.rounds; r++) {
    sum += dev::from_thread(100 * r + thread, (u32)(thread + r) % 32);
    sum += dev::all_of_warp(thread < 32 - r % 2) ? 1000000 : 0;
    sum += dev::any_of_warp(thread == r) ? 100000000 : 0;
    dev::warp_sync();
  }
  dev::store8((u64*)(votes.out + 8 * thread), sum);
}

struct Parity {
  u64 out, rounds, mistake;
};

struct Words {
  u32 words[2][32];
};

enum Mistake : u64 { NONE, NO_FULL_BARRIER, NO_EMPTY_BARRIER };

// Warp 0 fills one of two arrays while warp 1 reads the other; barriers 1 and 2 say "full", 3 and 4
// "empty". Warp 1 adds up what it reads.
KOLO_KERNEL(litmus_two_buffers, Parity, parity) {
  KOLO_SHARED(Words, shared);
  u32 lane = dev::thread() % 32;
  bool fills = dev::thread() < 32;
  u64 sum = 0;
  if (!fills) {
    dev::barrier_arrive(3, 64);
    dev::barrier_arrive(4, 64);
  }
  for (u32 r = 0; r < parity.rounds; r++) {
    u32 one = r % 2;
    if (fills) {
      if (parity.mistake != NO_EMPTY_BARRIER) dev::barrier_wait(3 + one, 64);
      shared.words[one][lane] = 1000 * r + lane;
      if (parity.mistake != NO_FULL_BARRIER) dev::barrier_arrive(1 + one, 64);
    } else {
      if (parity.mistake != NO_FULL_BARRIER) dev::barrier_wait(1 + one, 64);
      sum += shared.words[one][31 - lane];
      if (parity.mistake != NO_EMPTY_BARRIER && r + 2 < parity.rounds) {
        dev::barrier_arrive(3 + one, 64);
      }
    }
    // Makes the mistakes show: warps do not wait for each other here.
    dev::warp_sync();
  }
  if (!fills) dev::store8((u64*)(parity.out + 8 * lane), sum);
}

struct Slip {
  u64 which, place;
};

enum Which : u64 { COUNTS_DIFFER, COMES_TWICE, CALLS_DIFFER, ONE_STAYS_AWAY, NO_SUCH_BARRIER,
                   NO_LINE, NOT_SHARED, SPINS, POLLS, ONE_LEAVES_WARP };

KOLO_KERNEL(litmus_slip, Slip, slip) {
  u32 thread = dev::thread();
  switch (slip.which) {
    case COUNTS_DIFFER:
      dev::barrier_wait(5, thread < 32 ? 64 : 96);
      break;
    case COMES_TWICE:
      if (thread < 32) {
        dev::barrier_arrive(5, 64);
        dev::barrier_arrive(5, 64);
      }
      break;
    case CALLS_DIFFER:
      thread == 3 ? (void)dev::any_of_warp(true) : dev::warp_sync();
      break;
    case ONE_STAYS_AWAY:
      if (thread != 40) dev::block_sync();
      break;
    case NO_SUCH_BARRIER:
      dev::barrier_wait(16, 64);
      break;
    case NO_LINE:
      dev::store_line128((void*)(slip.place + 16 * (thread ^ 1)), {1, 1});
      break;
    case NOT_SHARED: {
      u32 local = 0;
      dev::shared_store_release(&local, 1);
      break;
    }
    case SPINS:
      while (thread == 33 && dev::load_acquire((const u64*)slip.place) != 12345) dev::spin();
      break;
    case POLLS:
      while (thread == 33 && dev::load_acquire((const u64*)slip.place) != 12345) {
      }
      break;
    default:
      if (thread != 9) dev::warp_sync();
  }
}
