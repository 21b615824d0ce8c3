// What a launch hands to a kernel: the program of a rank (a plan as one flat image), the windows
// that bind it to sizes, and the ends of its connections. The host writes these structures
// (src/plan/program, src/plan/window.rs, src/wire/gpu.rs, src/exec/cuda); both sides assert where
// each field lies, and compare one hash of it all before the first launch.
#pragma once

#include "types.h"

// ---- the program: src/plan/program/entries.rs, src/plan/step.rs, src/plan/operand.rs

struct Extent {
  u32 at;     // bytes from the beginning of the image
  u32 count;  // entries
};

struct ProgramHeader {
  u32 magic, version;
  u64 hash;
  u32 bytes, rank, nranks, root;
  u32 chunks;   // modulus of chunk numbers
  u32 pieces;   // chunks in the largest token
  u32 scratch;  // chunks of scratch memory that each lane has
  u32 channels;
  u8 collective, algorithm, layout, reserved[5];
  Extent steps, connections, lanes, lists, operands;
};

enum StepOp : u8 { STEP_COPY = 0, STEP_FOLD = 1, STEP_TOKEN = 2 };
enum StepFlag : u8 { PRE_SCALE = 1, POST_SCALE = 2, PACKED = 4 };

struct alignas(16) Step {
  u8 op, flags;
  u16 srcs, dsts;  // lists
  u16 chunks;      // moved at once; packed: the length of a run
  u32 chunk;       // of the first repetition, or of the first piece
  u16 repeat;      // packed: the runs in its only token
  i16 stride;
};

enum Space : u8 { SPACE_INPUT = 0, SPACE_OUTPUT = 1, SPACE_SCRATCH = 2, SPACE_CONNECTION = 3 };

struct alignas(8) Operand {
  u8 space;
  u8 keep;    // the token of a source stays for a later step
  u16 index;  // of the connection
  i32 offset; // added to the step's chunk
};

struct alignas(16) ConnectionEntry {
  u8 kind, direction;
  u16 channel;
  u32 writer, reader;
  u32 lane;  // whose steps use it; NO_LANE: none
};

constexpr u32 NO_LANE = 0xffffffff;
constexpr u8 DIRECTION_RECV = 1;

struct alignas(16) LaneEntry {
  u32 first, count, channel, reserved;
};

struct alignas(8) ListEntry {
  u32 first, count;
};

// ---- the sizes of one lane: src/plan/window.rs

enum Layout : u8 { LAYOUT_SPLIT = 0, LAYOUT_BLOCKS = 1 };

struct Window {
  u8 layout, reserved[3];
  u32 chunks;
  u32 blocks[2];     // of the input and of the output
  u64 block_stride;  // all below in elements
  u64 low, high;
  u64 chunk_count, slice_count;
  u64 rounds;
  u32 slices, reserved_too;
};

// ---- one end of a connection, in device memory: src/wire/gpu.rs

// Slots of every connection.
constexpr u32 SLOTS = 8;
// Slots between two wipes of the lines of LL.
constexpr u64 WIPE_EVERY = 1ull << 30;

struct alignas(16) Connection {
  u64 tail;      // where the writer counts the slots that it has filled
  u64 head;      // where the reader counts the slots that it has emptied
  u64 area;      // the slots, one behind the other
  u64 sizes;     // where the writer says how much each slot holds: u32 for each; 0: nobody asks
  u64 position;  // slots that this end has used since the connection was made; never begins anew
  u64 wiped;       // writers of LL: in which stretch of positions the area was wiped last
  u32 slot_bytes;  // from one slot to the next
  // A proxy moves the slots: in every protocol tokens are counted and payload lies as in Simple.
  u32 counted;
  u32 reserved[2];
};

// ---- one launch

// Sources and destinations of a step, together, and lanes of one block: the host refuses more.
constexpr u32 MAX_OPERANDS = 64;
constexpr u32 MAX_LANES = 256;

// So much of a launch travels as parameters of the kernel.
constexpr u32 LAUNCH_BYTES = 4096;
constexpr u32 INLINE_BYTES = LAUNCH_BYTES - 128;

struct alignas(16) Launch {
  u64 image;        // program and windows in device memory; 0: they follow inline
  u64 connections;  // addresses of Connection, as the program numbers them
  u64 input, output;
  u64 scratch;        // of lane 0
  u64 scratch_bytes;  // from the scratch of one lane to that of the next
  u64 abort;          // a u32 in memory of the host: not 0 ends the launch
  u64 steps;          // u64 for each block: steps done, added when the block ends; 0: nobody asks
  u64 scalar;         // of a pre-multiplied sum: one element
  u32 divisor;        // of an average; 0: none
  u32 pre_scaled;     // inputs are multiplied by the scalar
  u32 slice_slots;    // slots that a slice takes
  u32 windows;        // bytes from the beginning of the image to Window[], one for each lane
  u32 bytes;          // of image and windows
  u32 reserved[9];
  u8 inlined[INLINE_BYTES];
};

// ---- where everything lies

#define KOLO_AT(Type, field) __builtin_offsetof(Type, field)

static_assert(sizeof(ProgramHeader) == 96 && KOLO_AT(ProgramHeader, chunks) == 32, "ProgramHeader");
static_assert(KOLO_AT(ProgramHeader, layout) == 50 && KOLO_AT(ProgramHeader, steps) == 56,
              "ProgramHeader");
static_assert(sizeof(Step) == 16 && sizeof(Operand) == 8, "Step, Operand");
static_assert(sizeof(ConnectionEntry) == 16 && KOLO_AT(ConnectionEntry, lane) == 12,
              "ConnectionEntry");
static_assert(sizeof(LaneEntry) == 16 && sizeof(ListEntry) == 8, "LaneEntry, ListEntry");
static_assert(sizeof(Window) == 72 && sizeof(Connection) == 64, "Window, Connection");
static_assert(sizeof(Launch) == LAUNCH_BYTES && KOLO_AT(Launch, inlined) == 128, "Launch");

// FNV-1a over sizes and places, in the order of src/exec/cuda/layout.rs.
struct LayoutHash {
  u64 value = 0xcbf29ce484222325ull;
  constexpr LayoutHash& with(u64 number) {
    for (u32 byte = 0; byte < 8; byte++) {
      value = (value ^ (number >> (8 * byte) & 0xff)) * 0x100000001b3ull;
    }
    return *this;
  }
};

constexpr u64 layout_hash() {
  LayoutHash hash;
  hash.with(sizeof(ProgramHeader)).with(KOLO_AT(ProgramHeader, bytes));
  hash.with(KOLO_AT(ProgramHeader, chunks)).with(KOLO_AT(ProgramHeader, pieces));
  hash.with(KOLO_AT(ProgramHeader, scratch)).with(KOLO_AT(ProgramHeader, layout));
  hash.with(KOLO_AT(ProgramHeader, steps)).with(KOLO_AT(ProgramHeader, connections));
  hash.with(KOLO_AT(ProgramHeader, lanes)).with(KOLO_AT(ProgramHeader, lists));
  hash.with(KOLO_AT(ProgramHeader, operands));
  hash.with(sizeof(Step)).with(KOLO_AT(Step, flags)).with(KOLO_AT(Step, srcs));
  hash.with(KOLO_AT(Step, dsts)).with(KOLO_AT(Step, chunks)).with(KOLO_AT(Step, chunk));
  hash.with(KOLO_AT(Step, repeat)).with(KOLO_AT(Step, stride));
  hash.with(sizeof(Operand)).with(KOLO_AT(Operand, space));
  hash.with(KOLO_AT(Operand, keep)).with(KOLO_AT(Operand, index));
  hash.with(KOLO_AT(Operand, offset));
  hash.with(sizeof(ConnectionEntry)).with(KOLO_AT(ConnectionEntry, direction));
  hash.with(KOLO_AT(ConnectionEntry, lane));
  hash.with(sizeof(LaneEntry)).with(KOLO_AT(LaneEntry, first)).with(KOLO_AT(LaneEntry, count));
  hash.with(sizeof(ListEntry)).with(KOLO_AT(ListEntry, count));
  hash.with(sizeof(Window)).with(KOLO_AT(Window, chunks)).with(KOLO_AT(Window, blocks));
  hash.with(KOLO_AT(Window, block_stride)).with(KOLO_AT(Window, low)).with(KOLO_AT(Window, high));
  hash.with(KOLO_AT(Window, chunk_count)).with(KOLO_AT(Window, slice_count));
  hash.with(KOLO_AT(Window, rounds)).with(KOLO_AT(Window, slices));
  hash.with(sizeof(Connection)).with(KOLO_AT(Connection, tail)).with(KOLO_AT(Connection, head));
  hash.with(KOLO_AT(Connection, area)).with(KOLO_AT(Connection, sizes));
  hash.with(KOLO_AT(Connection, position)).with(KOLO_AT(Connection, wiped));
  hash.with(KOLO_AT(Connection, slot_bytes)).with(KOLO_AT(Connection, counted));
  hash.with(sizeof(Launch)).with(KOLO_AT(Launch, connections)).with(KOLO_AT(Launch, input));
  hash.with(KOLO_AT(Launch, output)).with(KOLO_AT(Launch, scratch));
  hash.with(KOLO_AT(Launch, scratch_bytes)).with(KOLO_AT(Launch, abort));
  hash.with(KOLO_AT(Launch, steps)).with(KOLO_AT(Launch, scalar)).with(KOLO_AT(Launch, divisor));
  hash.with(KOLO_AT(Launch, pre_scaled)).with(KOLO_AT(Launch, slice_slots));
  hash.with(KOLO_AT(Launch, windows)).with(KOLO_AT(Launch, bytes)).with(KOLO_AT(Launch, inlined));
  // What the numbers in them mean.
  hash.with(STEP_COPY).with(STEP_FOLD).with(STEP_TOKEN);
  hash.with(PRE_SCALE).with(POST_SCALE).with(PACKED);
  hash.with(SPACE_INPUT).with(SPACE_OUTPUT).with(SPACE_SCRATCH).with(SPACE_CONNECTION);
  hash.with(LAYOUT_SPLIT).with(LAYOUT_BLOCKS).with(DIRECTION_RECV).with(SLOTS);
  hash.with(WIPE_EVERY).with(MAX_OPERANDS).with(MAX_LANES);
  return hash.value;
}
