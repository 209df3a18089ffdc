#include "plan/units.h"

#include <algorithm>
#include <cassert>

namespace morphspark {

bool UnitGraph::Validate() const {
  for (UnitId unit = 0; unit < units; ++unit) {
    if (first[unit] > first[unit + 1]) return false;
    if (std::ranges::any_of(Before(unit), [&](UnitId other) { return other >= unit; })) return false;
  }
  return first[units] <= before.size();
}

void UnitsOfTransactions(const Graph& graph, UnitGraph* units) {
  units->units = graph.tasks;
  units->first.Resize(uint64_t{graph.tasks} + 1);
  // A task is waited for by the next one that roams, and waits for the last.
  units->before.Resize(graph.accesses() + (graph.roamers.empty() ? 0 : 2 * uint64_t{graph.tasks}));
  uint32_t next = 0;
  for (Task task = 0; task < graph.tasks; ++task) {
    units->first[task] = next;
    for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) {
      const Access previous = graph.previous[access];
      if (previous != kBase) units->before[next++] = graph.owner[previous];
    }
    graph.EachRoamingBefore(task, [&](Task other) { units->before[next++] = other; });
  }
  units->first[graph.tasks] = next;
  assert(units->Validate());
}

void Stratify(const UnitGraph& units, Strata* strata) {
  strata->level.Resize(units.units);
  uint32_t* const level = strata->level.data();
  std::vector<uint32_t>& first = strata->first;
  first.assign(1, 0);
  for (UnitId unit = 0; unit < units.units; ++unit) {
    uint32_t own = 0;
    for (UnitId before : units.Before(unit)) own = std::max(own, level[before] + 1);
    level[unit] = own;
    if (own + 1 >= first.size()) first.resize(own + 2, 0);
    ++first[own + 1];
  }
  for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  strata->order.Resize(units.units);
  std::vector<uint32_t> next(first.begin(), first.end());
  for (UnitId unit = 0; unit < units.units; ++unit) strata->order[next[level[unit]]++] = unit;
}

void FindSuccessors(const UnitGraph& units, Successors* successors) {
  const uint64_t count = units.units;
  successors->first.Resize(count + 2);
  successors->waits.Resize(count);
  uint32_t* const first = successors->first.data();
  std::fill_n(first, count + 2, 0);
  for (UnitId unit = 0; unit < count; ++unit) {
    successors->waits[unit] = units.first[unit + 1] - units.first[unit];
    for (UnitId before : units.Before(unit)) ++first[before + 2];
  }
  // Counted two places ahead, so that filling moves each to where its successor begins.
  for (uint64_t i = 2; i < count + 2; ++i) first[i] += first[i - 1];
  successors->units.Resize(first[count + 1]);
  for (UnitId unit = 0; unit < count; ++unit) {
    for (UnitId before : units.Before(unit)) successors->units[first[before + 1]++] = unit;
  }
}

}  // namespace morphspark
