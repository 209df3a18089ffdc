// The ordered schemes of the literature: a transaction draws tickets for what it will use, and runs when they are
// called. With lock and mvlk it draws when its turn in the order has come (one counter admits them); with pat each
// partition has a counter of its own, and what a transaction's number is there follows from the rows that it names
// (found before anybody runs; where one roams, pat draws as the others do).
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
#include <vector>

#include "base/padded.h"
#include "base/scratch.h"
#include "execute/explorer.h"

namespace morphspark {

// Kept from batch to batch.
struct TicketMemory {
  // What is locked: a row, or a partition of rows.
  struct Lock {
    // Tickets that were drawn. Only the transaction whose turn it is touches them.
    uint32_t accesses = 0, writes = 0;
    // Tickets that were given back.
    uint32_t ended_accesses = 0, ended_writes = 0;
  };
  struct Ticket {
    Lock* lock;
    bool writes;
    uint32_t accesses_before, writes_before;
  };
  Scratch<Lock> locks;
  Scratch<uint32_t> number_of;                     // by access: of its lock; with pat see Tickets::NumberTickets
  std::vector<Padded<std::vector<Ticket>>> drawn;  // by worker: those of the transaction that it runs

  uint64_t bytes() const { return locks.bytes() + number_of.bytes(); }
};

// The crew's units are transactions.
std::unique_ptr<Explorer> MakeTicketExplorer(Scheme scheme, const Graph& graph, Crew* crew, int workers,
                                             TicketMemory* memory);

}  // namespace morphspark
