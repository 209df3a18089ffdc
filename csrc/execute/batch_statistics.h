// What a batch is like, found without its graph: the first few hundred of its transactions are linked as planning would
// link them, in a table that fits the cache.
//
// Paths and chains of the sample stand for those of the batch: a row that every tenth transaction writes makes a chain
// as long as a tenth of the batch, however long that is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "plan/graph.h"

namespace morphspark {

struct BatchStatistics {
  int64_t transactions = 0;  // to be run
  int64_t ran = 0;           // before them, of those that could have been run at once with them
  double aborts = 0;         // share of the batches before
  double seconds = 0;        // that looking took
  uint32_t mix = 0;          // which transactions, roughly how many of each
  uint64_t types = 0;        // which transactions, however many: a bit for each
  bool may_cut = false;      // into operations: f-schedule, c-schedule
  double lanes = 0;          // share of transactions that can run in lanes: v-schedule
  // Of the sample:
  int64_t sample = 0;  // its transactions
  int64_t accesses = 0;
  int64_t td = 0, pd = 0, ld = 0;       // dependencies: see plan/explain.h
  int64_t degree_max = 0;               // accesses that one transaction waits for
  std::array<int64_t, 4> degrees = {};  // transactions that wait for none, 1, 2, more
  double same_row = 0;                  // share of accesses that meet the row most often met
  double distinct_rows = 0;             // share of accesses that meet a row for the first time
  double cyclic = 0;                    // share of accesses in chains that wait for each other, or for such
  // The longest path, as a share of all accesses, where what runs at once is
  double transaction_span = 1;  // a transaction
  double operation_span = 1;    // an operation
  double chain_span = 1;        // all operations on a row

  // Where transactions are cut into batches, the last of them is like the first.
  int64_t Together() const { return ran + transactions; }
  double AccessesEach() const {
    return sample == 0 ? 1 : std::max(static_cast<double>(accesses) / static_cast<double>(sample), 1.0);
  }
};

// Of the transactions at positions [begin, end).
BatchStatistics LookAtBatch(const PlanInput& input, int64_t begin, int64_t end);

}  // namespace morphspark
