// What the graph of a batch looks like: for people, and for choosing by eye.
#pragma once

#include <string>
#include <vector>

#include "plan/graph.h"
#include "plan/operation_graph.h"

namespace morphspark {

struct GraphShape {
  int64_t transactions = 0;
  int64_t operations = 0, reads = 0, writes = 0;
  int64_t td = 0;       // a row's access after the latest earlier write of it
  int64_t pd = 0;       // an operation that needs another one of its transaction
  int64_t ld = 0;       // operations that abort together, beside the first of their transaction
  int64_t roamers = 0;  // transactions that name rows only when they run
  int64_t aliases = 0;  // rows that a transaction names twice
  int64_t chains = 0, merged_chains = 0, longest_chain = 0;
  int64_t span = 0;               // operations on the longest path; `operations` is the work
  std::vector<uint32_t> strata;   // transactions in each
  std::vector<uint32_t> degrees;  // transactions that wait for 0, 1, 2-3, 4-7, … accesses
};

// One access, for drawing.
struct DrawnAccess {
  Task task;
  uint32_t table;
  bool writes;
  int64_t previous;  // index of an access; -1: none
  std::string key;
};

GraphShape ShapeOf(const Graph& graph, const CodeOf& code_of);
std::vector<DrawnAccess> Drawing(const Graph& graph, std::span<const std::unique_ptr<Table>> tables);

}  // namespace morphspark
