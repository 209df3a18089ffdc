// The graph of single operations, and of chains of them: the units of f-schedule and c-schedule.
//
// A *node* is an operation of a transaction (program/operations.h), or a transaction that is not cut. Nodes are
// numbered in transaction order, and inside a transaction so that each waits for smaller ones only. A transaction two
// of whose sites name one row at run time is not cut. Where one roams none is: it must find everything before it
// settled.
//
//     t0 ── n0 ── n1 ── n2      `first`: the nodes of a transaction; they abort together (LD)
//            ▲     │            `nodes.before`: whom a node waits for. Operations of its own transaction (PD),
//     t1 ── n3 ◀───┘ ── n4      the same ones for all of a type; and of each of its rows the last operation
//                               that wrote it before (TD)
//
// A chain is all nodes whose first row is the same, in order; where nodes are not to be chained, each is one. Chains
// that wait for each other (in a circle) are merged into one unit; what is left is acyclic.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "plan/units.h"
#include "program/operations.h"

namespace morphspark {

using Node = uint32_t;

struct OperationGraph {
  Scratch<Node> first;         // by task, and one more
  Scratch<Task> owner;         // by node
  Scratch<Node> exit;          // by access: the last node on its row
  Scratch<uint32_t> exchange;  // by task: its first place
  Scratch<uint32_t> edge;      // by task: its first edge; while they are counted, how many it has
  uint64_t exchange_places = 0;
  UnitGraph nodes;
  std::vector<const Operations*> cuts;  // by type: what its transactions are cut into; null: they are not
  struct Size {
    uint32_t nodes, places;
  };
  std::vector<Size> sizes;  // by type: what a transaction takes; then, of one that is not cut
  // How much a part of the batch has; or, added up, where it begins.
  struct Extent {
    uint64_t nodes = 0, edges = 0, places = 0;
  };
  std::vector<Extent> parts;

  bool Cut(Task task) const { return first[task + 1] - first[task] > 1; }
  // Every node has one owner, and waits for smaller ones only.
  bool Validate(Task tasks) const;
  uint64_t bytes() const {
    return first.bytes() + owner.bytes() + exit.bytes() + exchange.bytes() + edge.bytes() + nodes.bytes();
  }
};

// `operations->cuts` says what is to be cut. `pool` may be null.
void FindOperations(const Graph& graph, ThreadPool* pool, OperationGraph* operations);

// The code of a task, null if it is not to be cut; the same for all of its type.
using CodeOf = std::function<const TransactionCode*(Task)>;
void FindOperations(const Graph& graph, const CodeOf& code_of, OperationGraph* operations);

// Units that are lists of nodes.
struct ChainGraph {
  UnitGraph units;
  Scratch<uint32_t> first;  // by unit, and one more
  Scratch<Node> nodes;      // by unit, in order
  uint32_t rows = 0;

  // Working memory, kept from batch to batch. Two arrays serve twice: for rows while chains are numbered, then for
  // chains.
  struct Place {
    uint32_t chain, node, before;
  };
  struct Work {
    Scratch<uint32_t> number;      // by node: its chain, then its unit
    Scratch<uint32_t> next;        // by row: its chain, kBase: none yet; by number, while sorting
    Scratch<uint32_t> first;       // by chain, and one more
    Scratch<uint32_t> nodes;       // by access: the number of its row; by chain: its nodes, in order
    Scratch<uint32_t> index, low;  // by chain
    Scratch<uint32_t> component;   // by chain: its unit
    std::vector<uint32_t> open;    // chains
    std::vector<Place> path;
    uint64_t bytes() const;
  } work;

  uint64_t bytes() const { return units.bytes() + first.bytes() + nodes.bytes() + work.bytes(); }
};

using Chained = std::function<bool(Node)>;
void FindChains(const Graph& graph, const OperationGraph& operations, const Chained& chained, ChainGraph* chains);
// The chains as they are, with circles among them: `units` has no edges.
void FindRawChains(const Graph& graph, const OperationGraph& operations, ChainGraph* chains);

}  // namespace morphspark
