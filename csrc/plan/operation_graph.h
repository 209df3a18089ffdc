// The graph of single operations, and of chains of them: the units of f-schedule and c-schedule.
//
// A *node* is an operation of a transaction (program/operations.h), or a transaction that is not cut. Nodes are
// numbered in transaction order, and inside a transaction so that each waits for smaller ones only. A transaction two
// of whose sites name one row at run time is not cut.
//
// A chain is all nodes whose first row is the same, in order; where nodes are not to be chained, each is one. Chains
// that wait for each other (in a circle) are merged into one unit; what is left is acyclic.
#pragma once

#include <functional>

#include "plan/units.h"
#include "program/operations.h"

namespace morphspark {

using Node = uint32_t;

struct OperationGraph {
  Scratch<Node> first;         // by task, and one more
  Scratch<Task> owner;         // by node
  Scratch<Access> row;         // by node: its first access; kBase: it has none
  Scratch<uint32_t> exchange;  // by task: its first place
  uint64_t exchange_places = 0;
  UnitGraph nodes;

  bool Cut(Task task) const { return first[task + 1] - first[task] > 1; }
  uint64_t bytes() const { return first.bytes() + owner.bytes() + row.bytes() + exchange.bytes() + nodes.bytes(); }
};

// The code of a task, null if it runs none.
using CodeOf = std::function<const TransactionCode*(Task)>;

void FindOperations(const Graph& graph, const CodeOf& code_of, OperationGraph* operations);

// Units that are lists of nodes.
struct ChainGraph {
  UnitGraph units;
  Scratch<uint32_t> first;  // by unit, and one more
  Scratch<Node> nodes;      // by unit, in order
  uint32_t rows = 0;
  uint32_t merged = 0;  // chains that are part of a larger unit

  uint64_t bytes() const { return units.bytes() + first.bytes() + nodes.bytes(); }
};

using Chained = std::function<bool(Node)>;
void FindChains(const Graph& graph, const OperationGraph& operations, const Chained& chained, ChainGraph* chains);
// The chains as they are, with circles among them: `units` has no edges.
void FindRawChains(const Graph& graph, const OperationGraph& operations, ChainGraph* chains);

}  // namespace morphspark
