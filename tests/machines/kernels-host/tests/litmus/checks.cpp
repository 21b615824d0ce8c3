// Accesses to memory that is there or not, blocks that wait for others, and garbage.
#include "device.h"

// Thread `thread` of the last block accesses `bytes` bytes at an address.
struct Touch {
  u64 at, bytes, is_store, thread;
};

KOLO_KERNEL(litmus_touch, Touch, touch) {
  if (dev::block() + 1 != dev::blocks() || dev::thread() != touch.thread) return;
  void* at = (void*)touch.at;
  switch (touch.bytes) {
    case 1:
      touch.is_store ? dev::store1(at, 0x71) : (void)dev::load1(at);
      break;
    case 2:
      touch.is_store ? dev::store2(at, 0x7172) : (void)dev::load2(at);
      break;
    case 4:
      touch.is_store ? dev::store4(at, 0x71727374) : (void)dev::load4(at);
      break;
    case 8:
      touch.is_store ? dev::store8(at, 0x7172737475767778) : (void)dev::load8(at);
      break;
    default:
      touch.is_store ? dev::store16(at, {0x7172737475767778, 1}) : (void)dev::load16(at);
  }
}

// Adds 1 to each byte, 2 bytes, 4 bytes and 8 bytes of its part, in turn.
struct Widths {
  u64 at;
};

KOLO_KERNEL(litmus_widths, Widths, widths) {
  u64 at = widths.at + 16 * dev::thread();
  dev::store1((void*)at, (u8)(dev::load1((const void*)at) + 1));
  dev::store1((void*)(at + 1), (u8)(dev::load1((const void*)(at + 1)) + 1));
  dev::store2((void*)(at + 2), (u16)(dev::load2((const void*)(at + 2)) + 1));
  dev::store4((void*)(at + 4), dev::load4((const void*)(at + 4)) + 1);
  dev::store8((void*)(at + 8), dev::load8((const void*)(at + 8)) + 1);
  Vector both = dev::load16((const void*)at);
  both.high += both.low & 0xff;
  dev::store16((void*)at, both);
}

// Each block of each grid says that it is there, and waits until `all` have said so.
struct Meet {
  u64 words, all, first;
};

KOLO_KERNEL(litmus_meet, Meet, meet) {
  if (dev::thread() != 0) return;
  dev::store_release((u64*)(meet.words + 8 * (meet.first + dev::block())), 1);
  for (u64 i = 0; i < meet.all; i++) {
    while (dev::load_acquire((const u64*)(meet.words + 8 * i)) == 0) dev::spin();
  }
}

struct Nothing {
  u64 out;
};

struct Words {
  u64 words[512];
};

// Stores what shared memory held, and leaves something else there.
KOLO_KERNEL(litmus_garbage, Nothing, nothing) {
  KOLO_SHARED(Words, shared);
  u32 thread = dev::thread();
  dev::store8((u64*)(nothing.out + 8 * thread), shared.words[16 * thread]);
  shared.words[16 * thread] = 0;
}
