#include "plan/operation_graph.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace morphspark {
namespace {

using Extent = OperationGraph::Extent;

// Calls visit(cut, tasks) for each type's transactions of a part, and for those that are not cut, with null. A few that
// an alias keeps whole are among the former: see `Graph::aliased`.
template <class Visit>
void EachGroup(const Graph& graph, const OperationGraph& operations, uint32_t part, Visit visit) {
  for (uint32_t type = 0; type <= graph.types; ++type) {
    const std::span<const Task> tasks = graph.Group(part, type);
    if (!tasks.empty()) visit(type < operations.cuts.size() ? operations.cuts[type] : nullptr, tasks);
  }
}

// How much a part has; the edges of each of its tasks.
Extent Measure(const Graph& graph, uint32_t part, OperationGraph* operations) {
  Extent sum;
  const Access* const previous = graph.previous.data();
  uint32_t* const edges = operations->edge.data();
  EachGroup(graph, *operations, part, [&](const Operations* cut, std::span<const Task> tasks) {
    if (cut == nullptr) {
      sum.nodes += tasks.size();
      for (Task task : tasks) {
        edges[task] = 0;
        for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access)
          edges[task] += previous[access] != kBase;
        sum.edges += edges[task];
      }
      return;
    }
    const auto uses = static_cast<Access>(cut->enters.size());
    for (Task task : tasks) {
      const Access* const own = previous + graph.first[task];
      const bool whole = graph.aliased[task];
      uint32_t count = whole ? 0 : static_cast<uint32_t>(cut->after.size());
      for (Access use = 0; use < uses; ++use) count += own[use] != kBase;
      edges[task] = count;
      sum.edges += count;
      sum.nodes += whole ? 1 : cut->ends.size();
      sum.places += whole ? 0 : cut->exchange;
    }
  });
  return sum;
}

// Numbers the nodes of a part.
void PlaceNodes(const Graph& graph, uint32_t part, const Extent& begin, OperationGraph* operations) {
  auto node = static_cast<Node>(begin.nodes);
  auto place = static_cast<uint32_t>(begin.places), edge = static_cast<uint32_t>(begin.edges);
  for (Task task = graph.PartBegin(part); task < graph.PartEnd(part); ++task) {
    const TransactionId type = graph.type[task];
    const OperationGraph::Size& size =
        operations->sizes[graph.aliased[task] || type == kUnmatched ? graph.types : type];
    const uint32_t edges = operations->edge[task];
    operations->first[task] = node;
    operations->exchange[task] = place;
    operations->edge[task] = edge;
    node += size.nodes;
    place += size.places;
    edge += edges;
  }
  const Node* const first = operations->first.data();
  Task* const owner = operations->owner.data();
  Node* const exit = operations->exit.data();
  const auto whole = [&](Task task) {
    owner[first[task]] = task;
    for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) exit[access] = first[task];
  };
  EachGroup(graph, *operations, part, [&](const Operations* cut, std::span<const Task> tasks) {
    if (cut == nullptr) {
      std::ranges::for_each(tasks, whole);
      return;
    }
    const uint32_t* const last = cut->exit.data();
    const auto uses = static_cast<Access>(cut->exit.size());
    const auto count = static_cast<Node>(cut->ends.size());
    for (Task task : tasks) {
      if (graph.aliased[task]) [[unlikely]] {
        whole(task);
        continue;
      }
      for (Node number = 0; number < count; ++number) owner[first[task] + number] = task;
      for (Access use = 0; use < uses; ++use) exit[graph.first[task] + use] = first[task] + last[use];
    }
  });
}

// Who waits for whom. The nodes of all earlier accesses have their numbers.
void PlaceEdges(const Graph& graph, uint32_t part, OperationGraph* operations) {
  uint32_t* const first = operations->nodes.first.data();
  Node* const before = operations->nodes.before.data();
  const Node* const exit = operations->exit.data();
  const Access* const previous = graph.previous.data();
  const auto whole = [&](Task task) {
    uint32_t at = operations->edge[task];
    first[operations->first[task]] = at;
    for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) {
      if (previous[access] != kBase) before[at++] = exit[previous[access]];
    }
  };
  EachGroup(graph, *operations, part, [&](const Operations* cut, std::span<const Task> tasks) {
    if (cut == nullptr) {
      std::ranges::for_each(tasks, whole);
      return;
    }
    for (Task task : tasks) {
      if (graph.aliased[task]) [[unlikely]] {
        whole(task);
        continue;
      }
      const Node own = operations->first[task];
      const Access* const writes = previous + graph.first[task];
      uint32_t at = operations->edge[task];
      uint32_t* node = first + own;
      const uint32_t *enters = cut->enters.data(), *after = cut->after.data();
      for (const Operations::End& end : cut->ends) {
        *node++ = at;
        for (const uint32_t* const last = cut->enters.data() + end.enters; enters != last; ++enters) {
          if (writes[*enters] != kBase) before[at++] = exit[writes[*enters]];
        }
        for (const uint32_t* const last = cut->after.data() + end.after; after != last; ++after)
          before[at++] = own + *after;
      }
    }
  });
}

// One node per task: where somebody roams.
void WholeTransactions(const Graph& graph, OperationGraph* operations) {
  const Task tasks = graph.tasks;
  for (Scratch<uint32_t>* numbers : {&operations->owner, &operations->exchange}) numbers->Resize(tasks);
  operations->exit.Resize(graph.accesses());
  std::copy_n(graph.owner.begin(), graph.accesses(), operations->exit.begin());
  for (Task task = 0; task < tasks; ++task) {
    operations->first[task] = operations->owner[task] = task;
    operations->exchange[task] = 0;
  }
  operations->first[tasks] = tasks;
  operations->exchange_places = 0;
  UnitsOfTransactions(graph, &operations->nodes);
}

}  // namespace

void FindOperations(const Graph& graph, ThreadPool* pool, OperationGraph* operations) {
  const Task tasks = graph.tasks;
  operations->first.Resize(uint64_t{tasks} + 1);
  if (!graph.roamers.empty()) return WholeTransactions(graph, operations);
  operations->sizes.assign(graph.types + 1, {1, 0});
  for (size_t type = 0; type < operations->cuts.size(); ++type) {
    const Operations* const cut = operations->cuts[type];
    if (cut != nullptr) operations->sizes[type] = {static_cast<uint32_t>(cut->list.size()), cut->exchange};
  }
  operations->exchange.Resize(tasks);
  operations->edge.Resize(tasks);
  // How much each part has, where each begins, then the parts themselves.
  const auto each_part = [&](const auto& body) {
    const auto some = [&](int64_t from, int64_t to) {
      for (int64_t part = from; part < to; ++part) body(static_cast<uint32_t>(part));
    };
    pool == nullptr ? some(0, graph.parts()) : pool->For(graph.parts(), 1, some);
  };
  operations->parts.resize(graph.parts());
  each_part([&](uint32_t part) { operations->parts[part] = Measure(graph, part, operations); });
  Extent total;
  for (Extent& part : operations->parts) {
    const Extent own = part;
    part = total;
    total = {total.nodes + own.nodes, total.edges + own.edges, total.places + own.places};
  }
  if (total.nodes >= kBase || total.edges >= kBase) throw std::length_error("a batch has more than 2^32 operations");
  operations->owner.Resize(total.nodes);
  operations->exit.Resize(graph.accesses());
  operations->exchange_places = total.places;
  UnitGraph& nodes = operations->nodes;
  nodes.units = static_cast<UnitId>(total.nodes);
  nodes.first.Resize(total.nodes + 1);
  nodes.before.Resize(total.edges);
  each_part([&](uint32_t part) { PlaceNodes(graph, part, operations->parts[part], operations); });
  each_part([&](uint32_t part) { PlaceEdges(graph, part, operations); });
  operations->first[tasks] = nodes.units;
  nodes.first[nodes.units] = static_cast<uint32_t>(total.edges);
  assert(operations->Validate(tasks));
}

void FindOperations(const Graph& graph, const CodeOf& code_of, OperationGraph* operations) {
  operations->cuts.assign(graph.types, nullptr);
  for (Task task = 0; task < graph.tasks; ++task) {
    const TransactionCode* const code = code_of(task);
    const TransactionId type = graph.type[task];
    if (type == kUnmatched) continue;
    if (code != nullptr && !code->operations->list.empty()) operations->cuts[type] = code->operations.get();
  }
  FindOperations(graph, nullptr, operations);
}

bool OperationGraph::Validate(Task tasks) const {
  for (Task task = 0; task < tasks; ++task) {
    for (Node node = first[task]; node < first[task + 1]; ++node) {
      if (owner[node] != task) return false;
    }
  }
  return first[tasks] == nodes.units && nodes.Validate();
}

uint64_t ChainGraph::Work::bytes() const {
  return number.bytes() + next.bytes() + first.bytes() + nodes.bytes() + index.bytes() + low.bytes() +
         component.bytes() + open.capacity() * sizeof(uint32_t) + path.capacity() * sizeof(Place);
}

namespace {

// Strongly connected components (Tarjan) of the chains, without recursion. Components are numbered so that each waits
// for smaller ones only.
class Components {
 public:
  Components(uint32_t chains, const UnitGraph& graph, ChainGraph::Work* work) : graph_(graph), work_(*work) {
    for (Scratch<uint32_t>* numbers : {&work_.index, &work_.low, &work_.component}) numbers->Resize(chains);
    std::ranges::fill(work_.index, 0);
    std::ranges::fill(work_.component, kOpen);
    work_.open.clear();
    work_.path.clear();
    for (uint32_t chain = 0; chain < chains; ++chain) {
      if (work_.index[chain] == 0) Visit(chain);
    }
  }

  uint32_t count() const { return count_; }

 private:
  static constexpr uint32_t kOpen = 0xFFFFFFFFu;
  using Place = ChainGraph::Place;  // where a visit of a chain stands: the node, and which of those before it is next

  void Enter(uint32_t chain) {
    work_.index[chain] = work_.low[chain] = ++visited_;
    work_.open.push_back(chain);
    work_.path.push_back({chain, work_.first[chain], 0});
  }

  void Visit(uint32_t root) {
    Enter(root);
    while (!work_.path.empty()) {
      Place& place = work_.path.back();
      const uint32_t chain = place.chain;
      if (place.node == work_.first[chain + 1]) {
        Leave(chain);
        continue;
      }
      const auto before = graph_.Before(work_.nodes[place.node]);
      if (place.before == before.size()) {
        ++place.node;
        place.before = 0;
        continue;
      }
      const uint32_t other = work_.number[before[place.before++]];
      if (work_.index[other] == 0) {
        Enter(other);
      } else if (work_.component[other] == kOpen) {
        work_.low[chain] = std::min(work_.low[chain], work_.index[other]);
      }
    }
  }

  void Leave(uint32_t chain) {
    work_.path.pop_back();
    if (!work_.path.empty()) {
      uint32_t& low = work_.low[work_.path.back().chain];
      low = std::min(low, work_.low[chain]);
    }
    if (work_.low[chain] != work_.index[chain]) return;
    uint32_t member;
    do {
      member = work_.open.back();
      work_.open.pop_back();
      work_.component[member] = count_;
    } while (member != chain);
    ++count_;
  }

  const UnitGraph& graph_;
  ChainGraph::Work& work_;
  uint32_t visited_ = 0, count_ = 0;
};

// The first row that each node takes. Calls visit(node, access); kBase: it has none.
template <class Visit>
void EachFirstRow(const Graph& graph, const OperationGraph& operations, Visit visit) {
  const auto hole = [&](Access access) { return (graph.flags[access] & Graph::kHole) != 0; };
  for (Task task = 0; task < graph.tasks; ++task) {
    const Access begin = graph.first[task], end = graph.first[task + 1];
    const Node node = operations.first[task];
    if (!operations.Cut(task)) {
      Access access = begin;
      while (access < end && hole(access)) ++access;
      visit(node, access < end ? access : kBase);
      continue;
    }
    const std::vector<Operation>& list = operations.cuts[graph.type[task]]->list;
    for (uint32_t number = 0; number < list.size(); ++number) {
      Access found = kBase;
      for (uint32_t use : list[number].uses) {
        if (hole(begin + use)) continue;
        found = begin + use;
        break;
      }
      visit(node + number, found);
    }
  }
}

// The number of each node's chain: that of its first row; a node without rows, or not to be chained, is one of its own.
uint32_t NumberChains(const Graph& graph, const OperationGraph& operations, const Chained& chained,
                      ChainGraph::Work* work) {
  Scratch<uint32_t>&row_of = work->nodes, &chain_of = work->next;
  chain_of.Resize(NumberRows(graph, &row_of));
  std::ranges::fill(chain_of, kBase);
  work->number.Resize(operations.nodes.units);
  uint32_t chains = 0;
  EachFirstRow(graph, operations, [&](Node node, Access access) {
    if (access == kBase || !chained(node)) {
      work->number[node] = chains++;
      return;
    }
    uint32_t& chain = chain_of[row_of[access]];
    if (chain == kBase) chain = chains++;
    work->number[node] = chain;
  });
  return chains;
}

// Sorts nodes by the number that each has, keeping their order.
void SortByNumber(ChainGraph::Work* work, uint32_t numbers, Scratch<uint32_t>* first, Scratch<Node>* nodes) {
  first->Resize(uint64_t{numbers} + 1);
  std::ranges::fill(*first, 0);
  for (uint32_t number : work->number) ++(*first)[number + 1];
  for (uint32_t i = 0; i < numbers; ++i) (*first)[i + 1] += (*first)[i];
  nodes->Resize(work->number.size());
  work->next.Resize(numbers);
  std::copy_n(first->begin(), numbers, work->next.begin());
  for (Node node = 0; node < work->number.size(); ++node) (*nodes)[work->next[work->number[node]]++] = node;
}

}  // namespace

void FindRawChains(const Graph& graph, const OperationGraph& operations, ChainGraph* chains) {
  chains->rows = NumberChains(graph, operations, [](Node) { return true; }, &chains->work);
  SortByNumber(&chains->work, chains->rows, &chains->first, &chains->nodes);
  chains->units.units = chains->rows;
}

void FindChains(const Graph& graph, const OperationGraph& operations, const Chained& chained, ChainGraph* chains) {
  ChainGraph::Work& work = chains->work;
  chains->rows = NumberChains(graph, operations, chained, &work);
  SortByNumber(&work, chains->rows, &work.first, &work.nodes);
  const Components components(chains->rows, operations.nodes, &work);
  const uint32_t units = components.count();
  for (uint32_t& number : work.number) number = work.component[number];
  SortByNumber(&work, units, &chains->first, &chains->nodes);
  UnitGraph& graph_of_units = chains->units;
  graph_of_units.units = units;
  graph_of_units.first.Resize(uint64_t{units} + 1);
  graph_of_units.before.Resize(operations.nodes.first[operations.nodes.units]);
  uint32_t total = 0;
  for (UnitId unit = 0; unit < units; ++unit) {
    graph_of_units.first[unit] = total;
    for (uint32_t at = chains->first[unit]; at < chains->first[unit + 1]; ++at) {
      for (Node before : operations.nodes.Before(chains->nodes[at])) {
        if (work.number[before] != unit) graph_of_units.before[total++] = work.number[before];
      }
    }
  }
  graph_of_units.first[units] = total;
  assert(graph_of_units.Validate());
}

}  // namespace morphspark
