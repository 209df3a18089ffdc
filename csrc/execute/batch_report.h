// What became of a batch, for the metrics and for `auto` to learn from.
#pragma once

#include <cstdint>

#include "execute/cost_model.h"
#include "execute/explorer.h"
#include "execute/operation_state.h"
#include "execute/strategy.h"

namespace morphspark {

// What a batch was and took: `seconds` on the clock, in which `workers` threads were its own. What they did:
//
//     plan, construct, install      the graph, what goes with it, and the rest: `seconds` without the next two
//     explore × workers             = useful + waiting + looking for the next unit
//     redo × workers                taking back and running again, and waiting for that
struct BatchReport {
  Strategy strategy;
  int64_t begin = 0, transactions = 0;
  int64_t batches = 1;  // that are told of together
  int64_t aborted = 0;
  int64_t not_due = 0;   // firings that were planned and found their windows empty: in `transactions`, in nothing else
  double predicted = 0;  // seconds; 0: no prediction was made
  double seconds = 0;    // from planning to the last version, on the clock; the look before it is in `inputs`
  uint32_t why = 0;      // see adviser.h
  DecisionInputs inputs;
  // Planned batches only:
  int64_t accesses = 0;  // without holes
  int64_t dependencies = 0, redone = 0;
  Transitions transitions{};  // of operations, where transactions ran in parts
  int64_t onlookers = 0;      // transactions that were not planned
  int64_t followed = 0;       // uses of rows that repairs have looked at
  uint32_t levels = 0, units = 0;
  uint32_t chunk = Crew::kUsualChunk;  // whole transactions that a worker takes at once
  int workers = 1;
  double plan = 0;               // from slots to a complete graph: operations, links, who waits for whom
  double construct = 0;          // units, strata, successors, versions
  double explore = 0;            // on the clock
  double waiting = 0;            // of workers without work, added up
  double useful = 0;             // of workers inside units, added up; 0 unless observed
  double redo = 0, install = 0;  // on the clock
  uint64_t graph_bytes = 0, version_bytes = 0;

  int64_t transition(int number) const { return transitions[number]; }
  // For which reports are told of together.
  bool RanAs(const BatchReport& other) const { return strategy == other.strategy && why == other.why; }
  void Add(const BatchReport& other);
};

}  // namespace morphspark
