#include "execute/batch_report.h"

#include <algorithm>

namespace morphspark {

void BatchReport::Add(const BatchReport& other) {
  transactions += other.transactions;
  batches += other.batches;
  aborted += other.aborted;
  not_due += other.not_due;
  predicted += other.predicted;
  seconds += other.seconds;
  accesses += other.accesses;
  dependencies += other.dependencies;
  redone += other.redone;
  for (size_t number = 0; number < transitions.size(); ++number) transitions[number] += other.transitions[number];
  onlookers += other.onlookers;
  followed += other.followed;
  levels += other.levels;
  units += other.units;
  plan += other.plan;
  construct += other.construct;
  workers = std::max(workers, other.workers);
  explore += other.explore;
  waiting += other.waiting;
  useful += other.useful;
  redo += other.redo;
  install += other.install;
  graph_bytes = std::max(graph_bytes, other.graph_bytes);
  version_bytes = std::max(version_bytes, other.version_bytes);
}

}  // namespace morphspark
