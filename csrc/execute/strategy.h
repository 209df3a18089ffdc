// How a batch is scheduled, as data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace morphspark {

enum class Scheme : uint8_t {
  kSerial,   // one thread, transaction order, no graph
  kExplore,  // the task precedence graph, explored as below
  kLock,     // ordered strict two-phase locking
  kMvlk,     // a low-water mark per row; versions serve readers
  kPat,      // counters per partition
  kTstream,  // chains of operations, resolved iteratively; an abort redoes the batch
  kNested,   // the graph, with a strategy of its own for each type of transaction
  kNolock,   // nobody waits for anybody: wrong, and only for benchmarks to compare with
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

  bool operator==(const Strategy&) const = default;
  // Its units are parts of transactions, which may run before it is known whether the rest fails.
  bool cuts() const { return unit == Unit::kOperation || unit == Unit::kChain; }
};

// Which strategy each transaction of a batch has: one for all, or, nested, one by type.
class Policies {
 public:
  explicit Policies(const Strategy& all) : strategies_{all} {}
  explicit Policies(std::vector<Strategy> by_type) : strategies_(std::move(by_type)) {}

  const Strategy& Of(TransactionId type) const { return strategies_[type < strategies_.size() ? type : 0]; }
  template <class Test>
  bool Any(Test test) const {
    for (const Strategy& one : strategies_) {
      if (test(one)) return true;
    }
    return false;
  }

 private:
  std::vector<Strategy> strategies_;  // of a type that is not listed: the first
};

}  // namespace morphspark
