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
};

enum class Exploration : uint8_t {
  kBfs,  // stratum by stratum, with a barrier after each
  kDfs,  // every thread has a share of each stratum and waits only for what its own tasks need
  kNs,   // join counters and work stealing
};

enum class Unit : uint8_t {
  kTransaction,  // whole transactions, in chunks
  kStratum,      // all transactions of a stratum at once, instruction by instruction
};

struct Strategy {
  Scheme scheme = Scheme::kSerial;
  Exploration exploration = Exploration::kBfs;
  Unit unit = Unit::kTransaction;
  // With kStratum: fewer transactions of a type are run one by one, as lanes would be paid for nothing. Tests lower it.
  uint32_t lanes_min = 16;
};

}  // namespace morphspark
