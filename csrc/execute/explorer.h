// How workers find their next task. An explorer never blocks: a worker asks it for a step again and again, and a step
// does a piece of work, or says that there is none now. So one thread can play all workers in any interleaving, which
// is how tests replay one from a seed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "execute/planned_batch.h"
#include "execute/strategy.h"
#include "plan/graph.h"

namespace morphspark {

class Explorer {
 public:
  enum class Step { kWorked, kIdle, kDone };

  virtual ~Explorer() = default;
  virtual Step Next(int worker) = 0;
};

// Working memory of explorers, kept from batch to batch.
struct ExplorerMemory {
  Strata strata;
  Successors successors;
  Scratch<uint32_t> counters;
  std::deque<LaneMemory> lanes;  // by worker

  uint64_t bytes() const {
    uint64_t bytes = strata.bytes() + successors.bytes() + counters.bytes();
    for (const LaneMemory& one : lanes) bytes += one.bytes();
    return bytes;
  }
};

std::unique_ptr<Explorer> MakeExplorer(const Strategy& strategy, PlannedBatch* batch, int workers,
                                       ExplorerMemory* memory);

// Runs an explorer to its end on the pool's threads. `poll` is asked now and then on the calling thread; if it says so,
// the batch is cancelled.
void Drive(Explorer* explorer, int workers, ThreadPool* pool, const Poll& poll, PlannedBatch* batch);

// The same on the calling thread alone: which worker makes the next step is drawn from the seed.
void DriveSeeded(Explorer* explorer, int workers, uint64_t seed);

}  // namespace morphspark
