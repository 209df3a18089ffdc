// What the graph of a batch looks like: for people, and for choosing by eye. Operations are counted by row: all that a
// transaction does to one row is one operation here, as it is one access of the graph.
#pragma once

#include <string>
#include <vector>

#include "plan/graph.h"
#include "plan/operation_graph.h"

namespace morphspark {

struct GraphShape {
  int64_t transactions = 0;
  int64_t operations = 0, reads = 0, writes = 0;
  int64_t td = 0;        // an operation and the latest earlier write of its row, by another transaction
  int64_t pd = 0;        // a write and the latest earlier write of another row that its value, condition or key reads
  int64_t ld = 0;        // operations that abort together: each beside the first of its transaction
  int64_t roamers = 0;   // transactions that name rows only when they run
  int64_t foreseen = 0;  // transactions that compute keys, which stand for the rows that they name as of now
  int64_t windows = 0;   // transactions that read windows
  int64_t aliases = 0;   // rows that a transaction names twice
  int64_t chains = 0, merged_chains = 0, longest_chain = 0;
  Access of_longest_chain = kBase;  // any of its operations
  // Operations on the longest path, where operations run by themselves, and where whole transactions do. The work is
  // `operations`.
  int64_t span = 0, transaction_span = 0;
  std::vector<Task> critical_path;  // the transactions on the first of them, in order
  std::vector<uint32_t> strata;     // transactions in each
  std::vector<uint32_t> degrees;    // transactions that wait for 0, 1, 2-3, 4-7, … accesses
};
// `whole`: transactions are not cut.
GraphShape ShapeOf(const PlanInput& input, const Graph& graph, bool whole);

// One operation, for drawing; named by its place in the list.
struct DrawnAccess {
  Task task;
  uint32_t table;
  bool writes;
  int64_t previous;                 // TD: the one that it waits for; -1: none
  std::vector<int64_t> parametric;  // PD: likewise
  std::string key;
};
std::vector<DrawnAccess> Drawing(const PlanInput& input, const Graph& graph,
                                 std::span<const std::unique_ptr<Table>> tables);

}  // namespace morphspark
