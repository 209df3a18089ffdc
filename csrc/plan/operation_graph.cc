#include "plan/operation_graph.h"

#include <algorithm>

namespace morphspark {
namespace {

bool HasAlias(const Graph& graph, Task task) {
  for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) {
    if (graph.flags[access] & Graph::kAlias) return true;
  }
  return false;
}

// The first row that a node takes.
Access FirstRow(const Graph& graph, const TransactionCode* code, Task task, bool cut, uint32_t number) {
  if (cut) {
    for (uint32_t use : code->operations->list[number].uses) {
      const Access access = graph.first[task] + use;
      if (!(graph.flags[access] & Graph::kHole)) return access;
    }
    return kBase;
  }
  for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) {
    if (!(graph.flags[access] & Graph::kHole)) return access;
  }
  return kBase;
}

// Calls visit(node) for each node that `node` waits for.
template <class Visit>
void EachBefore(const Graph& graph, const OperationGraph& operations, const TransactionCode* code, Task task, Node node,
                const std::vector<const TransactionCode*>& codes, Visit visit) {
  const bool cut = operations.Cut(task);
  const uint32_t number = node - operations.first[task];
  for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) {
    if (cut && code->operations->entry[access - graph.first[task]] != number) continue;
    const Access previous = graph.previous[access];
    if (previous == kBase) continue;
    const Task writer = graph.owner[previous];
    const bool writer_cut = operations.Cut(writer);
    visit(operations.first[writer] +
          (writer_cut ? codes[writer]->operations->exit[previous - graph.first[writer]] : 0));
  }
  if (!cut) return;
  for (uint32_t other : code->operations->list[number].after) visit(operations.first[task] + other);
}

}  // namespace

void FindOperations(const Graph& graph, const CodeOf& code_of, OperationGraph* operations) {
  const Task tasks = graph.tasks;
  operations->first.Resize(uint64_t{tasks} + 1);
  operations->exchange.Resize(tasks);
  std::vector<const TransactionCode*> codes(tasks);
  Node nodes = 0;
  uint64_t places = 0;
  for (Task task = 0; task < tasks; ++task) {
    codes[task] = code_of(task);
    const bool cut = codes[task] != nullptr && !codes[task]->operations->list.empty() && !HasAlias(graph, task);
    operations->first[task] = nodes;
    operations->exchange[task] = static_cast<uint32_t>(places);
    nodes += cut ? codes[task]->operations->count() : 1;
    places += cut ? codes[task]->operations->exchange : 0;
  }
  operations->first[tasks] = nodes;
  operations->exchange_places = places;
  operations->owner.Resize(nodes);
  operations->row.Resize(nodes);
  UnitGraph& units = operations->nodes;
  units.units = nodes;
  units.first.Resize(uint64_t{nodes} + 1);
  // Twice over all: first how many, then which.
  uint32_t total = 0;
  for (Task task = 0; task < tasks; ++task) {
    for (Node node = operations->first[task]; node < operations->first[task + 1]; ++node) {
      operations->owner[node] = task;
      operations->row[node] = FirstRow(graph, codes[task], task, operations->Cut(task), node - operations->first[task]);
      units.first[node] = total;
      EachBefore(graph, *operations, codes[task], task, node, codes, [&](Node) { ++total; });
    }
  }
  units.first[nodes] = total;
  units.before.Resize(total);
  for (Node node = 0; node < nodes; ++node) {
    const Task task = operations->owner[node];
    uint32_t at = units.first[node];
    EachBefore(graph, *operations, codes[task], task, node, codes, [&](Node before) { units.before[at++] = before; });
  }
}

namespace {

// Strongly connected components (Tarjan) of the chains, without recursion. Components are numbered so that each waits
// for smaller ones only.
class Components {
 public:
  Components(uint32_t chains, const std::vector<uint32_t>& first, const std::vector<Node>& nodes,
             const std::vector<uint32_t>& chain_of, const UnitGraph& graph)
      : first_(first),
        nodes_(nodes),
        chain_of_(chain_of),
        graph_(graph),
        index_(chains, 0),
        low_(chains, 0),
        component_(chains, kOpen) {
    for (uint32_t chain = 0; chain < chains; ++chain) {
      if (index_[chain] == 0) Visit(chain);
    }
  }

  const std::vector<uint32_t>& component() const { return component_; }
  uint32_t count() const { return count_; }

 private:
  static constexpr uint32_t kOpen = 0xFFFFFFFFu;

  // Where a visit of a chain stands: the node, and which of those that it waits for comes next.
  struct Place {
    uint32_t chain, node, before;
  };

  void Enter(uint32_t chain) {
    index_[chain] = low_[chain] = ++visited_;
    open_.push_back(chain);
    path_.push_back({chain, first_[chain], 0});
  }

  void Visit(uint32_t root) {
    Enter(root);
    while (!path_.empty()) {
      Place& place = path_.back();
      const uint32_t chain = place.chain;
      if (place.node == first_[chain + 1]) {
        Leave(chain);
        continue;
      }
      const auto before = graph_.Before(nodes_[place.node]);
      if (place.before == before.size()) {
        ++place.node;
        place.before = 0;
        continue;
      }
      const uint32_t other = chain_of_[before[place.before++]];
      if (index_[other] == 0) {
        Enter(other);
      } else if (component_[other] == kOpen) {
        low_[chain] = std::min(low_[chain], index_[other]);
      }
    }
  }

  void Leave(uint32_t chain) {
    path_.pop_back();
    if (!path_.empty()) low_[path_.back().chain] = std::min(low_[path_.back().chain], low_[chain]);
    if (low_[chain] != index_[chain]) return;
    uint32_t member;
    do {
      member = open_.back();
      open_.pop_back();
      component_[member] = count_;
    } while (member != chain);
    ++count_;
  }

  const std::vector<uint32_t>& first_;
  const std::vector<Node>& nodes_;
  const std::vector<uint32_t>& chain_of_;
  const UnitGraph& graph_;
  std::vector<uint32_t> index_, low_, component_;
  std::vector<uint32_t> open_;
  std::vector<Place> path_;
  uint32_t visited_ = 0, count_ = 0;
};

// The number of each node's chain: that of its first row; a node without rows, or not to be chained, is one of its own.
std::vector<uint32_t> NumberChains(const Graph& graph, const OperationGraph& operations, const Chained& chained,
                                   uint32_t* chains) {
  std::vector<uint32_t> chain_of(operations.nodes.units, kBase);
  std::vector<std::vector<uint32_t>> by_slot;
  *chains = 0;
  for (Node node = 0; node < operations.nodes.units; ++node) {
    const Access access = operations.row[node];
    if (access == kBase || !chained(node)) {
      chain_of[node] = (*chains)++;
      continue;
    }
    const uint16_t table = graph.table[access];
    if (table >= by_slot.size()) by_slot.resize(table + 1);
    auto& slots = by_slot[table];
    const Slot slot = graph.slot[access];
    if (slot >= slots.size()) slots.resize(std::max<size_t>(slot + 1, 2 * slots.size()), kBase);
    if (slots[slot] == kBase) slots[slot] = (*chains)++;
    chain_of[node] = slots[slot];
  }
  return chain_of;
}

// Sorts items by a number that each has, keeping their order.
void SortByNumber(std::span<const uint32_t> number_of, uint32_t numbers, std::vector<uint32_t>* first,
                  std::vector<uint32_t>* items) {
  first->assign(uint64_t{numbers} + 1, 0);
  for (uint32_t number : number_of) ++(*first)[number + 1];
  for (uint32_t i = 0; i < numbers; ++i) (*first)[i + 1] += (*first)[i];
  items->resize(number_of.size());
  std::vector<uint32_t> next(first->begin(), first->end() - 1);
  for (uint32_t item = 0; item < number_of.size(); ++item) (*items)[next[number_of[item]]++] = item;
}

void Keep(const std::vector<uint32_t>& first, const std::vector<Node>& nodes, ChainGraph* chains) {
  chains->first.Resize(first.size());
  std::ranges::copy(first, chains->first.begin());
  chains->nodes.Resize(nodes.size());
  std::ranges::copy(nodes, chains->nodes.begin());
}

}  // namespace

void FindRawChains(const Graph& graph, const OperationGraph& operations, ChainGraph* chains) {
  const std::vector<uint32_t> chain_of = NumberChains(graph, operations, [](Node) { return true; }, &chains->rows);
  std::vector<uint32_t> first;
  std::vector<Node> nodes;
  SortByNumber(chain_of, chains->rows, &first, &nodes);
  Keep(first, nodes, chains);
  chains->merged = 0;
  chains->units.units = chains->rows;
}

void FindChains(const Graph& graph, const OperationGraph& operations, const Chained& chained, ChainGraph* chains) {
  const std::vector<uint32_t> chain_of = NumberChains(graph, operations, chained, &chains->rows);
  std::vector<uint32_t> first;
  std::vector<Node> nodes;
  SortByNumber(chain_of, chains->rows, &first, &nodes);
  const Components components(chains->rows, first, nodes, chain_of, operations.nodes);
  const uint32_t units = components.count();
  chains->merged = chains->rows - units;
  std::vector<uint32_t> unit_of(chain_of.size());
  for (Node node = 0; node < chain_of.size(); ++node) unit_of[node] = components.component()[chain_of[node]];
  SortByNumber(unit_of, units, &first, &nodes);
  Keep(first, nodes, chains);
  UnitGraph& graph_of_units = chains->units;
  graph_of_units.units = units;
  graph_of_units.first.Resize(uint64_t{units} + 1);
  graph_of_units.before.Resize(operations.nodes.first[operations.nodes.units]);
  uint32_t total = 0;
  for (UnitId unit = 0; unit < units; ++unit) {
    graph_of_units.first[unit] = total;
    for (uint32_t at = first[unit]; at < first[unit + 1]; ++at) {
      for (Node before : operations.nodes.Before(nodes[at])) {
        if (unit_of[before] != unit) graph_of_units.before[total++] = unit_of[before];
      }
    }
  }
  graph_of_units.first[units] = total;
}

}  // namespace morphspark
