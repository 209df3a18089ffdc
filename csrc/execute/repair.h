// Makes right what foresight got wrong.
//
// A transaction that named a row which was not foreseen has stopped and left nothing behind. When all others have run,
// it runs as if it were alone, in its place in the order; then those that had used a row which it has changed, and so
// on:
//
//     due ── the first ──▶ runs again ── changes a row ──▶ who used the row since, up to the next that wrote it, is due
//
// Whoever runs again may name any row (BatchVersions::Roam): all before it are final, and all behind it that are
// concerned are still to come. It ends, as only later ones become due.
//
// A row is followed once: whoever changes it where somebody before has already followed it finds all those due that it
// would find. So the way along a row that everybody uses is as long as the row's uses are many, not their square.
#pragma once

#include "execute/planned_batch.h"
#include "plan/graph.h"

namespace morphspark {

struct Repaired {
  int64_t transactions = 0;  // that ran again
  int64_t followed = 0;      // uses of rows that were looked at for that
};
Repaired Repair(PlannedBatch* batch, Planner* planner);

}  // namespace morphspark
