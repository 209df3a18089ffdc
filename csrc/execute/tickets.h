// The ordered schemes of the literature: a transaction draws tickets for what it will use when its turn in the order
// has come, and runs when they are called.
//
//   lock   strict two-phase locking, rows shared by readers: a write waits until every earlier access of the row has
//          ended, a read until every earlier write has
//   mvlk   a low-water mark per row counts ended writes: a write waits for the writes before it only, since versions
//          serve the readers
//   pat    rows belong to partitions, and a transaction waits until all its partitions are its own
//
// One that roams locks the world, which all others share.
#pragma once

#include <memory>

#include "execute/explorer.h"

namespace morphspark {

// The crew's units are transactions.
std::unique_ptr<Explorer> MakeTicketExplorer(Scheme scheme, const Graph& graph, Crew* crew, int workers);

}  // namespace morphspark
