// How workers find their next task. An explorer never blocks: a worker asks it for a step again and again, and a step
// does a piece of work, or says that there is none now. So one thread can play all workers in any interleaving, which
// is how tests replay one from a seed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "execute/poller.h"
#include "execute/serial.h"
#include "execute/strategy.h"
#include "execute/work_deque.h"
#include "plan/units.h"

namespace morphspark {

class Explorer {
 public:
  enum class Step { kWorked, kIdle, kDone };

  virtual ~Explorer() = default;
  virtual Step Next(int worker) = 0;
  // Nested batches only: a unit of this explorer's group waits no more. Those that look for themselves need no word.
  virtual void Release(int /*worker*/, UnitId /*unit*/) {}
};

// Who runs the units that an explorer finds. Units that don't wait for each other may run at the same time.
class Crew {
 public:
  // How many units a worker takes at once.
  struct Chunk {
    uint32_t least, most;
  };
  static constexpr uint32_t kUsualChunk = 16;

  virtual ~Crew() = default;
  virtual Chunk chunk() const { return {1, kUsualChunk}; }
  virtual void Run(int worker, UnitId unit) = 0;
  // What the worker runs next it took early, and has waited for.
  virtual void Held(int /*worker*/) {}
  // Units of one stratum.
  virtual void RunMany(int worker, std::span<const UnitId> units) {
    for (UnitId unit : units) Run(worker, unit);
  }
  // A stratum is over, and nobody works on the next one yet.
  virtual void EndStratum() {}
};

// Working memory of explorers, kept from batch to batch.
struct ExplorerMemory {
  Strata strata;
  Successors successors;
  Scratch<uint32_t> counters;
  std::deque<WorkDeque> queues;  // by worker

  uint64_t bytes() const {
    uint64_t bytes = strata.bytes() + successors.bytes() + counters.bytes();
    for (const WorkDeque& one : queues) bytes += one.bytes();
    return bytes;
  }
};

class Group;  // of a nested batch: see nest.h

// Explores all units, or those of a group.
std::unique_ptr<Explorer> MakeExplorer(Exploration exploration, const UnitGraph& units, Crew* crew, int workers,
                                       ExplorerMemory* memory, Group* group = nullptr);
// Units in their order, and none waits for another.
std::unique_ptr<Explorer> MakeFreeExplorer(UnitId units, Crew* crew, int workers);

// Runs an explorer to its end on the pool's threads. Returns how long workers waited, added up: for work, for the last
// of them to be done, and to be woken. If a step throws (no memory), nobody can know what is left undone that others
// wait for: all workers leave, and the exception is rethrown.
double Drive(Explorer* explorer, int workers, ThreadPool* pool, Poller* poller);

// The same on the calling thread alone: which worker makes the next step is drawn from the seed.
void DriveSeeded(Explorer* explorer, int workers, uint64_t seed);

}  // namespace morphspark
