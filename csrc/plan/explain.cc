#include "plan/explain.h"

#include <algorithm>
#include <bit>

#include "plan/units.h"

namespace morphspark {
namespace {

// The heaviest path through whole transactions, each as heavy as it has operations.
int64_t Span(const Graph& graph, const UnitGraph& units) {
  std::vector<int64_t> reached(graph.tasks, 0);
  int64_t longest = 0;
  for (Task task = 0; task < graph.tasks; ++task) {
    int64_t before = 0;
    for (UnitId other : units.Before(task)) before = std::max(before, reached[other]);
    int64_t own = 0;
    for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access)
      own += !(graph.flags[access] & Graph::kHole);
    reached[task] = before + own;
    longest = std::max(longest, reached[task]);
  }
  return longest;
}

}  // namespace

GraphShape ShapeOf(const Graph& graph, const CodeOf& code_of) {
  GraphShape shape;
  shape.transactions = graph.tasks;
  for (Access access = 0; access < graph.accesses(); ++access) {
    shape.aliases += (graph.flags[access] & Graph::kAlias) != 0;
    if (graph.flags[access] & Graph::kHole) continue;
    ++shape.operations;
    (graph.flags[access] & Graph::kWrites ? shape.writes : shape.reads) += 1;
    shape.td += graph.previous[access] != kBase;
  }
  UnitGraph units;
  UnitsOfTransactions(graph, &units);
  Strata strata;
  Stratify(units, &strata);
  for (uint32_t level = 0; level < strata.levels(); ++level)
    shape.strata.push_back(strata.first[level + 1] - strata.first[level]);
  for (Task task = 0; task < graph.tasks; ++task) {
    const auto bucket = static_cast<size_t>(std::bit_width(units.Before(task).size()));
    if (bucket >= shape.degrees.size()) shape.degrees.resize(bucket + 1, 0);
    ++shape.degrees[bucket];
  }
  shape.span = Span(graph, units);
  OperationGraph operations;
  FindOperations(graph, code_of, &operations);
  shape.ld = int64_t{operations.nodes.units} - graph.tasks;
  for (Node node = 0; node < operations.nodes.units; ++node) {
    for (Node before : operations.nodes.Before(node)) shape.pd += operations.owner[before] == operations.owner[node];
  }
  ChainGraph chains;
  FindRawChains(graph, operations, &chains);
  shape.chains = chains.rows;
  for (uint32_t chain = 0; chain < chains.rows; ++chain)
    shape.longest_chain = std::max<int64_t>(shape.longest_chain, chains.first[chain + 1] - chains.first[chain]);
  FindChains(graph, operations, [](Node) { return true; }, &chains);
  shape.merged_chains = chains.merged;
  return shape;
}

std::vector<DrawnAccess> Drawing(const Graph& graph, std::span<const std::unique_ptr<Table>> tables) {
  std::vector<DrawnAccess> drawn;
  std::vector<int64_t> number(graph.accesses(), -1);
  for (Access access = 0; access < graph.accesses(); ++access) {
    if (graph.flags[access] & Graph::kHole) continue;
    number[access] = static_cast<int64_t>(drawn.size());
    const Access previous = graph.previous[access];
    const uint16_t table = graph.table[access];
    drawn.push_back({graph.owner[access], table, (graph.flags[access] & Graph::kWrites) != 0,
                     previous == kBase ? -1 : number[previous], tables[table]->KeyText(graph.slot[access])});
  }
  return drawn;
}

}  // namespace morphspark
