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
#pragma once

#include "execute/planned_batch.h"
#include "plan/graph.h"

namespace morphspark {

// How many transactions ran again. The door, which may be null, is closed; readers are let in between two of them.
int64_t Repair(PlannedBatch* batch, const Planner& planner, TableDoor* door);

}  // namespace morphspark
