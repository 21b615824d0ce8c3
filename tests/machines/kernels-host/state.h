// The machine: grids of blocks of warps of fibers, what they share, and who runs next.
//
// The scheduler runs on the stack of its caller. It picks a warp that has a fiber which is ready,
// then one of these fibers, and switches to it; the fiber comes back at a yield: when it waits,
// spins, acquires, releases or fences, and at some loads and stores. Everything that is drawn comes
// from one seed, so a run can be repeated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fiber.h"
#include "random.h"
#include "stores.h"

namespace host {

constexpr u32 WARP_THREADS = 32, BARRIERS = 16, MOST_THREADS = 1024;
constexpr u32 EVERY_THREAD = 0xffffffff;

struct Block;
struct Warp;

enum class Stand : u8 { READY, SPINNING, AT_BARRIER, IN_WARP, ENDED };

struct Fiber {
  Context context;
  void* stack;
  Block* block;
  Warp* warp;
  u32 index;
  Stand stand;
  // Of a fiber AT_BARRIER.
  u32 barrier;
  // Stores from now on land after those that have smaller numbers.
  u64 fence;
  // What it brings to a call of its warp, and what it takes from there.
  u64 brought;
  u64 address;
  Vector data;

  u32 lane() const { return index % WARP_THREADS; }
  Knower knower() const { return Knower::fiber(index); }
};

// The calls for which all threads of a warp meet.
enum class Call : u8 { SYNC, ALL, ANY, FROM, LOAD_LINES, STORE_LINES };

struct Warp {
  Block* block;
  u32 index;
  // Different for every warp of a run.
  u64 number;
  // One bit a thread.
  u32 ready;
  u32 came;
  Call call;
  // Of a schedule by rank.
  i64 rank;
  // Its place in the list of warps that have somebody ready.
  size_t place;
};

struct Barrier {
  // 0: nobody has come.
  u32 count;
  u32 came;
  // By thread: the number of its next store when it came; 0: it has not.
  std::vector<u64> since;
};

struct Grid {
  u32 id;
  u32 device;
  void (*kernel)(const void* launch);
  std::string name;
  // Aligned as any structure may be.
  std::unique_ptr<Vector[]> launch;
  u32 blocks;
  u32 threads;
  u32 begun;
  u32 ended;
};

struct alignas(128) Shared {
  u8 bytes[48 * 1024];
};

struct Block {
  Grid* grid;
  u32 index;
  u64 number;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barriers[BARRIERS];
  std::unique_ptr<Shared> shared;
  u64 shared_bytes;
  u32 ended;
  Stores stores;
};

// How this run behaves: drawn from the seed, because each finds other mistakes.
struct Habits {
  enum Order { ANY, IN_TURN, STARVING, BY_RANK };
  enum Within { EVENLY, LOWEST, HIGHEST };

  explicit Habits(Random& random);

  Order order;
  Within within;
  // Each "once in so many times"; 0: never.
  u32 yields;
  u32 lands;
  u32 keeps_late;
  u32 looks_back;
  // Entries of a block's buffer of stores.
  u32 pending;
};

struct Options {
  u64 seed;
  u64 most_switches;
  u32 devices;
  u32 resident_blocks;
  // 0: every store lands at once, every load is fresh.
  u32 is_weak;
};

struct Counts {
  u64 switches, loads, stores, landed, old_loads, meetings, barriers, blocks;
};

enum class Outcome : i32 { FAILED = -1, GOES_ON = 0, OVER = 1, WAITS = 2 };

// For how many switches nothing may change: so many, and so many for each thread that lives or, of
// `ready`, for each that neither waits at a barrier nor in a call of its warp.
struct Patience {
  u64 base, each, ready;
};

class Machine {
 public:
  explicit Machine(const Options& options);
  ~Machine();

  Ranges ranges;
  Counts counts = {};
  std::string failure;
  // It was an access to memory.
  bool has_failed_access = false;

  // The grid's id, from 1; 0: `failure` says why not.
  u32 launch(u32 device, void (*kernel)(const void*), const char* name, u32 blocks, u32 threads,
             const void* launch, u64 bytes);
  bool is_over(u32 grid) const;
  // Switches so many times at most, or until nothing has changed for longer than the patience.
  Outcome run(u64 switches, Patience patience);
  // Ends the run: where everybody stands, and why nothing goes on.
  void fail_stuck();
  // Whether a store to the range is under way; then it must not be taken away.
  bool is_written(const Range& range) const;
  // A store of the host, seen at once.
  void host_store(const Range& range, u64 at, const u8* from, u64 bytes);
  u32 live_threads() const;
  u32 ready_threads() const;

  // ---- for the functions of a kernel, in the fiber that runs

  Fiber* running = nullptr;

  u64 load_weak(const void* at, u32 bytes);
  u64 load_strong(const void* at, u32 bytes);
  Vector load_halves(const void* at, bool is_weak);
  void store(void* at, u64 value, u32 bytes);
  void store_halves(void* at, Vector value);
  void store_release(void* at, u64 value);
  void acquire();
  void fence();
  u32* shared_word(const u32* at);
  void release_shared(u32* at, u32 value);
  // The warp's call, when all its threads have come.
  Fiber& meet(Call call, u64 brought, u64 address, Vector data);
  void arrive(u32 id, u32 count, bool waits);
  void spin();
  void yield();
  // At a load or store.
  void perhaps_yield() {
    if (random.one_in(habits.yields)) {
      yield();
    }
  }
  void* shared_memory(u64 bytes);
  [[noreturn]] void fail_here(const Fiber& fiber, const char* what);

 private:
  // ---- schedule.cpp
  void begin_blocks();
  void begin_block(Grid& grid);
  void end_fiber();
  bool end_block_if_over(Block& block);
  bool is_quiet(Patience patience) const;
  Warp& pick();
  Warp& pick_by_rank();
  bool is_starved(const Warp& warp) const;
  u32 pick_in(const Warp& warp);
  void change_places();
  void set_ready(Fiber& fiber);
  void set_waiting(Fiber& fiber, Stand stand);
  void leave();
  [[noreturn]] void abandon();
  static void entry();

  // ---- memory.cpp
  Word check(const Fiber& fiber, u64 at, u32 bytes, bool is_store);
  [[noreturn]] void fail_access(const Fiber& fiber, const Access& access);
  u64 load_here(const Fiber& fiber, Word at, bool is_weak);
  u64 load(const void* at, u32 bytes, bool is_weak);
  void store_here(Word at, u64 value, u8 mask, u64 after);
  void make_room(Stores& stores);
  void land(Stores& stores, size_t i);
  bool is_late(const Block& block, size_t i) const;
  void land_some();
  void land_in(Block& block);
  bool land_all();
  void load_lines(Fiber* fibers);
  void store_lines(Fiber* fibers);
  void check_lines(const Fiber* fibers, bool is_store);

  // ---- meet.cpp
  void answer(Warp& warp);
  void open(Block& block, u32 id);

  // ---- stand.cpp
  std::string place(const Fiber& fiber) const;
  std::string stands() const;

  Options options;
  Random random;
  Habits habits;
  History history;
  // By id; null when it is over.
  std::vector<std::unique_ptr<Grid>> grids;
  // Of each device: how many blocks it has, and the grids with blocks that wait, in order.
  std::vector<u32> residents;
  std::vector<std::vector<Grid*>> queues;
  std::vector<std::unique_ptr<Block>> resident;
  std::vector<std::unique_ptr<Block>> spare;
  // Since the last look, a grid was launched or a block has ended.
  bool may_begin = false;
  // Warps with a fiber that is ready.
  std::vector<Warp*> active;
  Context scheduler;
  // Switches since anything changed.
  u64 quiet = 0;
  u64 numbers = 0;
  // Of the schedule.
  size_t turn = 0;
  u64 until_change = 0;
  u64 salt = 0;
  i64 lowest_rank = 0;
};

// The machine whose fibers this thread runs now.
extern thread_local Machine* current;

}  // namespace host
