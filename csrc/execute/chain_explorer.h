// TStream's way through the graph: every worker has a share of the rows' chains, runs each as far as it gets, goes on
// with the next where an operation must wait for another chain, and comes back.
#pragma once

#include <memory>

#include "execute/explorer.h"
#include "plan/operation_graph.h"

namespace morphspark {

// The crew's units are nodes.
std::unique_ptr<Explorer> MakeChainExplorer(const OperationGraph& operations, const ChainGraph& chains, Crew* crew,
                                            int workers, ExplorerMemory* memory);

}  // namespace morphspark
