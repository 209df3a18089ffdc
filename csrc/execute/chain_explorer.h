// TStream's way through the graph: every worker has a share of the rows' chains, runs each as far as it gets, goes on
// with the next where an operation must wait for another chain, and comes back.
#pragma once

#include <memory>

#include "execute/explorer.h"
#include "plan/operation_graph.h"

namespace morphspark {

// Kept from batch to batch.
struct ChainExplorerMemory {
  Scratch<uint32_t> counters, open, next;
  uint64_t bytes() const { return counters.bytes() + open.bytes() + next.bytes(); }
};

// The crew's units are nodes.
std::unique_ptr<Explorer> MakeChainExplorer(const OperationGraph& operations, const ChainGraph& chains, Crew* crew,
                                            int workers, ChainExplorerMemory* memory);

}  // namespace morphspark
