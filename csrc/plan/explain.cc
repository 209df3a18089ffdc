#include "plan/explain.h"

#include <algorithm>
#include <bit>

#include "plan/units.h"
#include "plan/uses.h"
#include "program/parametric.h"

namespace morphspark {
namespace {

bool IsOperation(const Graph& graph, Access access) { return !(graph.flags[access] & Graph::kHole); }

// By use of a transaction, and one more: where its accesses begin.
std::vector<Access> FirstOfUses(const PlanInput& input, const Graph& graph, Task task, const TransactionCode& code) {
  std::vector<Access> first{graph.first[task]};
  for (const SiteUse& use : code.uses) {
    const Site& site = input.code.sites[use.site];
    const BatchRow row = input.order.Row(graph.begin + task);
    first.push_back(first.back() +
                    (site.of_element ? static_cast<Access>(Elements(input.columns, site, row).size) : 1));
  }
  return first;
}

int64_t CountParametricOf(const PlanInput& input, const Graph& graph, Task task, const TransactionCode& code) {
  if (code.parametric.empty()) return 0;
  const std::vector<Access> first = FirstOfUses(input, graph, task, code);
  const auto count = [&](uint32_t use, auto test) {
    int64_t found = 0;
    for (Access access = first[use]; access < first[use + 1]; ++access) found += test(access);
    return found;
  };
  return CountParametric(
      code, [&](uint32_t use) { return count(use, [&](Access access) { return IsOperation(graph, access); }); },
      [&](uint32_t use) { return count(use, [&](Access access) { return graph.previous[access] != kBase; }); });
}

struct Path {
  int64_t weight = 0;
  std::vector<UnitId> units;  // in order
};

// The heaviest path through units, which wait for smaller ones only. Of several, the one that ends first.
template <class Weight>
Path HeaviestPath(const UnitGraph& units, Weight weight) {
  constexpr UnitId kStart = 0xFFFFFFFFu;
  std::vector<int64_t> reached(units.units, 0);
  std::vector<UnitId> from(units.units, kStart);
  UnitId last = kStart;
  for (UnitId unit = 0; unit < units.units; ++unit) {
    for (UnitId other : units.Before(unit)) {
      if (from[unit] == kStart || reached[other] > reached[from[unit]]) from[unit] = other;
    }
    reached[unit] = (from[unit] == kStart ? 0 : reached[from[unit]]) + weight(unit);
    if (last == kStart || reached[unit] > reached[last]) last = unit;
  }
  Path path;
  if (last != kStart) path.weight = reached[last];
  for (; last != kStart; last = from[last]) path.units.push_back(last);
  std::ranges::reverse(path.units);
  return path;
}

int64_t OperationsOf(const Graph& graph, Task task) {
  int64_t own = 0;
  for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) own += IsOperation(graph, access);
  return own;
}

// A row that a transaction comes back to counts where it is left.
std::vector<int64_t> WeightOfNodes(const Graph& graph, const OperationGraph& operations, const CodeOf& code_of) {
  std::vector<int64_t> weights(operations.nodes.units, 0);
  for (Task task = 0; task < graph.tasks; ++task) {
    const Node first = operations.first[task];
    if (!operations.Cut(task)) {
      weights[first] = OperationsOf(graph, task);
      continue;
    }
    const Operations& cut = *code_of(task)->operations;
    for (uint32_t use = 0; use < cut.exit.size(); ++use) {
      if (cut.entry[use] <= cut.exit[use])
        weights[first + cut.exit[use]] += IsOperation(graph, graph.first[task] + use);
    }
  }
  return weights;
}

void CountOperations(const PlanInput& input, const Graph& graph, const CodeOf& code_of, GraphShape* shape) {
  for (Task task = 0; task < graph.tasks; ++task) {
    for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) {
      shape->aliases += (graph.flags[access] & Graph::kAlias) != 0;
      if (!IsOperation(graph, access)) continue;
      (graph.flags[access] & Graph::kWrites ? shape->writes : shape->reads) += 1;
      shape->td += graph.previous[access] != kBase;
    }
    const int64_t own = OperationsOf(graph, task);
    shape->operations += own;
    shape->ld += std::max<int64_t>(own - 1, 0);
    const TransactionCode* code = code_of(task);
    if (code == nullptr) continue;
    shape->windows += !code->windows.empty();
    shape->pd += CountParametricOf(input, graph, task, *code);
  }
}

// A chain is all operations on a row.
void CountChains(const Graph& graph, GraphShape* shape) {
  std::vector<int64_t> length(graph.accesses());  // of a row's operations up to this one
  for (Access access = 0; access < graph.accesses(); ++access) {
    if (!IsOperation(graph, access)) continue;
    const Access earlier = graph.earlier[access];
    length[access] = earlier == kBase ? 1 : length[earlier] + 1;
    shape->chains += earlier == kBase;
    if (length[access] <= shape->longest_chain) continue;
    shape->longest_chain = length[access];
    shape->of_longest_chain = access;
  }
}

// Chains that share their unit with another.
int64_t CountMerged(const ChainGraph& chains) {
  std::vector<int64_t> size(chains.units.units, 0);  // in chains
  for (uint32_t unit : chains.work.component) ++size[unit];
  int64_t merged = 0;
  for (int64_t chains_of_unit : size) merged += chains_of_unit > 1 ? chains_of_unit : 0;
  return merged;
}

}  // namespace

GraphShape ShapeOf(const PlanInput& input, const Graph& graph, bool whole) {
  const CodeOf code_of = [&](Task task) { return CodeAt(input, graph.begin + task); };
  GraphShape shape;
  shape.transactions = graph.tasks;
  shape.roamers = static_cast<int64_t>(graph.roamers.size());
  shape.foreseen = static_cast<int64_t>(graph.foreseen.size());
  CountOperations(input, graph, code_of, &shape);
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
  shape.transaction_span = HeaviestPath(units, [&](UnitId task) { return OperationsOf(graph, task); }).weight;
  OperationGraph operations;
  const CodeOf never = [](Task) { return nullptr; };
  FindOperations(graph, whole ? never : code_of, &operations);
  const std::vector<int64_t> weights = WeightOfNodes(graph, operations, code_of);
  const Path path = HeaviestPath(operations.nodes, [&](UnitId node) { return weights[node]; });
  shape.span = path.weight;
  for (Node node : path.units) {
    const Task task = operations.owner[node];
    if (shape.critical_path.empty() || shape.critical_path.back() != task) shape.critical_path.push_back(task);
  }
  CountChains(graph, &shape);
  if (whole) return shape;
  ChainGraph chains;
  FindChains(graph, operations, [](Node) { return true; }, &chains);
  shape.merged_chains = CountMerged(chains);
  return shape;
}

std::vector<DrawnAccess> Drawing(const PlanInput& input, const Graph& graph,
                                 std::span<const std::unique_ptr<Table>> tables) {
  std::vector<DrawnAccess> drawn;
  std::vector<int64_t> number(graph.accesses(), -1);
  for (Access access = 0; access < graph.accesses(); ++access) {
    if (!IsOperation(graph, access)) continue;
    number[access] = static_cast<int64_t>(drawn.size());
    const Access previous = graph.previous[access];
    const uint16_t table = graph.table[access];
    drawn.push_back({graph.owner[access],
                     table,
                     (graph.flags[access] & Graph::kWrites) != 0,
                     previous == kBase ? -1 : number[previous],
                     {},
                     tables[table]->KeyText(graph.slot[access])});
  }
  for (Task task = 0; task < graph.tasks; ++task) {
    const TransactionCode* code = CodeAt(input, graph.begin + task);
    if (code == nullptr || code->parametric.empty()) continue;
    const std::vector<Access> first = FirstOfUses(input, graph, task, *code);
    for (const ParametricRead& one : code->parametric) {
      for (Access read = first[one.read]; read < first[one.read + 1]; ++read) {
        if (graph.previous[read] == kBase) continue;
        for (Access write = first[one.write]; write < first[one.write + 1]; ++write) {
          const bool together = !one.in_step || write - first[one.write] == read - first[one.read];
          if (together && number[write] >= 0) drawn[number[write]].parametric.push_back(number[graph.previous[read]]);
        }
      }
    }
  }
  return drawn;
}

}  // namespace morphspark
