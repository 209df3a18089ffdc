// How a batch is scheduled, as data.
#pragma once

#include <cstdint>

namespace morphspark {

enum class Scheme : uint8_t {
  kSerial,   // one thread, transaction order, no graph
  kExplore,  // the task precedence graph, explored as below
  kLock,     // ordered strict two-phase locking
  kMvlk,     // a low-water mark per row; versions serve readers
  kPat,      // counters per partition
  kTstream,  // chains of operations, resolved iteratively; an abort redoes the batch
};

enum class Exploration : uint8_t {
  kBfs,  // stratum by stratum, with a barrier after each
  kDfs,  // every thread has a share of each stratum and waits only for what its own tasks need
  kNs,   // join counters and work stealing
};

enum class Unit : uint8_t {
  kOperation,    // f-schedule: what a transaction does to one row
  kChain,        // c-schedule: all operations on one row; chains that wait for each other are one
  kTransaction,  // t-schedule: whole transactions, in chunks
  kStratum,      // v-schedule: all transactions of a stratum at once, instruction by instruction
};

// What becomes of the other operations of a transaction when one has failed.
enum class Abort : uint8_t {
  kEager,  // they don't run
  kLazy,   // they run, and are taken back in the end
};

struct Strategy {
  Scheme scheme = Scheme::kSerial;
  Exploration exploration = Exploration::kBfs;
  Unit unit = Unit::kTransaction;
  Abort abort = Abort::kEager;
};

}  // namespace morphspark
