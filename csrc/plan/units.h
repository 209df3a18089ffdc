// What is scheduled: units, and which of them wait for which. A unit is a transaction, an operation, or a chain of
// operations; explorers don't care.
#pragma once

#include <span>
#include <vector>

#include "base/scratch.h"
#include "plan/graph.h"

namespace morphspark {

using UnitId = uint32_t;

struct UnitGraph {
  UnitId units = 0;
  Scratch<uint32_t> first;  // by unit, and one more
  Scratch<UnitId> before;   // those that it waits for, [first[u], first[u + 1]); may repeat

  std::span<const UnitId> Before(UnitId unit) const {
    return {before.data() + first[unit], before.data() + first[unit + 1]};
  }
  uint64_t bytes() const { return first.bytes() + before.bytes(); }
  // Each unit waits for smaller ones only, so there are no circles.
  bool Validate() const;
};

// Whole transactions.
void UnitsOfTransactions(const Graph& graph, UnitGraph* units);

// The strata: a unit's level is one more than the highest of those it waits for. A unit waits for smaller ones only.
struct Strata {
  Scratch<uint32_t> level;      // by unit
  Scratch<UnitId> order;        // units by level, then number
  std::vector<uint32_t> first;  // by level, and one more: where it begins in `order`

  uint32_t levels() const { return static_cast<uint32_t>(first.size()) - 1; }
  uint64_t bytes() const { return level.bytes() + order.bytes(); }
};
void Stratify(const UnitGraph& units, Strata* strata);

// The other direction, for join counters.
struct Successors {
  Scratch<uint32_t> first;  // by unit, and one more
  Scratch<UnitId> units;    // who waits for it; repeats as often as `waits` counts it
  Scratch<uint32_t> waits;  // by unit: how many it waits for
  uint64_t bytes() const { return first.bytes() + units.bytes() + waits.bytes(); }
};
void FindSuccessors(const UnitGraph& units, Successors* successors);

}  // namespace morphspark
