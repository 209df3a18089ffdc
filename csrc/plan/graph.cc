#include "plan/graph.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/prefetch.h"
#include "plan/uses.h"

namespace morphspark {
namespace {

constexpr Access kLinkAhead = 16;
constexpr int kStepsBack = 8;  // along a row, before its uses are listed

Access CountUses(const PlanInput& input, const TransactionCode& code, BatchRow row) {
  if (!code.uses_elements) return static_cast<Access>(code.uses.size());
  Access count = 0;
  EachUse(input, code, row, [&](const SiteUse&, int64_t) { ++count; });
  return count;
}

}  // namespace

uint64_t Graph::bytes() const {
  uint64_t bytes = first.bytes() + slot.bytes() + owner.bytes() + table.bytes() + flags.bytes() + previous.bytes() +
                   earlier.bytes() + type.bytes() + aliased.bytes() + grouped.bytes() + groups.bytes();
  for (const auto& one : rows) bytes += one.capacity() * sizeof(RowHandle);
  bytes += roamer.bytes() + (roamers.capacity() + foreseen.capacity() + onlookers.capacity()) * sizeof(Task);
  return bytes;
}

bool Graph::Validate() const {
  for (Task task = 0; task < tasks; ++task) {
    if (first[task] > first[task + 1]) return false;
    for (Access access = first[task]; access < first[task + 1]; ++access) {
      if (owner[access] != task) return false;
      for (const Access before : {previous[access], earlier[access]}) {
        if (before == kBase) continue;
        if (owner[before] >= task || table[before] != table[access] || slot[before] != slot[access]) return false;
      }
      if (previous[access] != kBase && !(flags[previous[access]] & kWrites)) return false;
    }
  }
  return true;
}

uint32_t NumberRows(const Graph& graph, Scratch<uint32_t>* numbers) {
  const Access accesses = graph.accesses();
  numbers->Resize(accesses);
  uint32_t rows = 0;
  for (Access access = 0; access < accesses; ++access) {
    if (graph.flags[access] & Graph::kHole) continue;
    const Access earlier = graph.earlier[access];
    (*numbers)[access] = earlier == kBase ? rows++ : (*numbers)[earlier];
  }
  return rows;
}

uint64_t Planner::bytes() const {
  uint64_t bytes = row_uses_.bytes();
  for (const auto& one : last_) bytes += one.capacity() * sizeof(Last);
  return bytes;
}

void Planner::Plan(const PlanInput& input, int64_t begin, int64_t end, ThreadPool* pool, Graph* graph) {
  row_uses_.Forget();
  graph->begin = begin;
  graph->tasks = static_cast<Task>(end - begin);
  graph->rows.resize(input.slots.size());
  for (size_t site = 0; site < input.slots.size(); ++site) graph->rows[site].resize(input.slots[site].size());
  FindRoamers(input, graph);
  FindWindows(input, graph);
  Count(input, pool, graph);
  Fill(input, pool, graph);
  MakeRoom(graph->accesses());
  base_ += graph->accesses();  // before linking: if that runs out of memory, its marks must be old for the next batch
  const auto parts = static_cast<uint32_t>(graph->tasks < Graph::kPart ? 1 : pool->threads());
  aliases_.resize(std::max<size_t>(aliases_.size(), parts));
  for (auto& some : aliases_) some.clear();
  pool->For(parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) Link(graph, static_cast<uint32_t>(part), parts, &aliases_[part]);
  });
  graph->aliased.Resize(graph->tasks);
  std::ranges::fill(graph->aliased, 0);
  Redirect(input, graph);
  assert(graph->Validate());
}

void Planner::FindRoamers(const PlanInput& input, Graph* graph) {
  graph->roamers.clear();
  graph->foreseen.clear();
  if (input.foreseen != nullptr) {
    graph->foreseen = input.foreseen->tasks;
    return;
  }
  if (std::ranges::none_of(input.code.transactions, &TransactionCode::computes_keys)) return;
  graph->roamer.Resize(graph->tasks);
  Task last = Graph::kNobody;
  for (Task task = 0; task < graph->tasks; ++task) {
    graph->roamer[task] = last;
    const TransactionCode* code = CodeAt(input, graph->begin + task);
    if (code == nullptr || !code->computes_keys) continue;
    graph->roamers.push_back(task);
    last = task;
  }
}

void Planner::FindWindows(const PlanInput& input, Graph* graph) {
  graph->reads_windows = false;
  if (!input.code.uses_windows()) return;
  for (Task task = 0; task < graph->tasks && !graph->reads_windows; ++task) {
    const TransactionCode* code = CodeAt(input, graph->begin + task);
    graph->reads_windows = code != nullptr && !code->windows.empty();
  }
}

Access Planner::LastUse(const Graph& graph, TableId table, Slot slot) const {
  if (slot >= last_[table].size()) return kBase;  // a key that is new
  const uint32_t base = base_ - graph.accesses(), any = last_[table][slot].any;
  return any < base ? kBase : any - base;
}

Access Planner::LastWriteBefore(const Graph& graph, TableId table, Slot slot, Task task) {
  const Access last = LastUse(graph, table, slot);
  if (last == kBase) return kBase;
  // Most rows have few uses behind the transaction, and need no list.
  Access access = last;
  for (int step = 0; step < kStepsBack; ++step) {
    if (graph.owner[access] < task) return graph.flags[access] & Graph::kWrites ? access : graph.previous[access];
    if (graph.earlier[access] == kBase) return kBase;
    access = graph.earlier[access];
  }
  const std::span<const Access> uses = row_uses_.Of(graph, last);
  // What the first one that is not before the transaction would read.
  const auto at = std::ranges::lower_bound(uses, task, {}, [&](Access use) { return graph.owner[use]; });
  assert(at != uses.end());
  return graph.previous[*at];
}

std::span<const Access> Planner::UsesBehind(const Graph& graph, TableId table, Slot slot, Task task) {
  const Access last = LastUse(graph, table, slot);
  if (last == kBase || graph.owner[last] <= task) return {};
  const std::span<const Access> uses = row_uses_.Of(graph, last);
  return {std::ranges::upper_bound(uses, task, {}, [&](Access use) { return graph.owner[use]; }), uses.end()};
}

void Planner::Count(const PlanInput& input, ThreadPool* pool, Graph* graph) {
  const Task tasks = graph->tasks;
  graph->types = static_cast<uint32_t>(input.code.transactions.size());
  graph->first.Resize(uint64_t{tasks} + 1);
  graph->type.Resize(tasks);
  graph->grouped.Resize(tasks);
  graph->groups.Resize(uint64_t{graph->parts()} * (graph->types + 2));
  uses_.resize(graph->types + 1);
  for (uint32_t type = 0; type < graph->types; ++type)
    uses_[type] = static_cast<Access>(input.code.transactions[type].uses.size());
  uses_.back() = 0;
  graph->onlooker.assign(input.onlooker.begin(), input.onlooker.end());
  graph->onlookers.clear();
  for (uint32_t type = 0; type < graph->onlooker.size(); ++type) {
    if (graph->onlooker[type]) uses_[type] = 0;
  }
  pool->For(graph->parts(), 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) Sort(input, static_cast<uint32_t>(part), graph);
  });
  uint64_t total = 0;
  Access* const first = graph->first.data();
  for (Task task = 0; task < tasks; ++task) {
    const Access count = first[task];
    first[task] = static_cast<Access>(total);
    total += count;
    if (graph->onlooks(task)) graph->onlookers.push_back(task);
  }
  if (total >= kHandlesMax) throw std::length_error("a batch has more than 2^32 accesses");
  first[tasks] = static_cast<Access>(total);
}

// Which transaction each task of a part is, and how many rows it may use; then sorts them by that.
void Planner::Sort(const PlanInput& input, uint32_t part, Graph* graph) {
  const Task begin = graph->PartBegin(part), end = graph->PartEnd(part);
  const uint32_t types = graph->types;
  uint32_t* const groups = graph->groups.data() + uint64_t{part} * (types + 2);
  std::fill_n(groups, types + 2, 0);
  for (Task task = begin; task < end; ++task) {
    const TransactionCode* code = CodeAt(input, graph->begin + task);
    const auto type = code == nullptr ? types : static_cast<uint32_t>(code - input.code.transactions.data());
    graph->type[task] = code == nullptr ? kUnmatched : static_cast<TransactionId>(type);
    graph->first[task] = uses_[type];
    ++groups[type + 1];
  }
  groups[0] = begin;
  for (uint32_t type = 0; type <= types; ++type) groups[type + 1] += groups[type];
  // Filling moves each beginning to the one behind it, and back.
  for (Task task = begin; task < end; ++task) {
    const TransactionId type = graph->type[task];
    graph->grouped[groups[type == kUnmatched ? types : type]++] = task;
  }
  for (uint32_t type = types + 1; type > 0; --type) groups[type] = groups[type - 1];
  groups[0] = begin;
  for (uint32_t type = 0; type < types; ++type) {
    const TransactionCode& code = input.code.transactions[type];
    if (!code.uses_elements || (!graph->onlooker.empty() && graph->onlooker[type])) continue;
    for (Task task : graph->Group(part, type))
      graph->first[task] = CountUses(input, code, input.order.Row(graph->begin + task));
  }
  for (uint32_t type = 0; input.foreseen != nullptr && type < types; ++type) {
    if (!input.code.transactions[type].computes_keys) continue;
    for (Task task : graph->Group(part, type))
      graph->first[task] += static_cast<Access>(input.foreseen->RowsOf(task).size());
  }
}

void Planner::Fill(const PlanInput& input, ThreadPool* pool, Graph* graph) {
  const Access total = graph->accesses();
  for (Scratch<uint32_t>* numbers : {&graph->slot, &graph->owner, &graph->previous, &graph->earlier})
    numbers->Resize(total);
  graph->table.Resize(total);
  graph->flags.Resize(total);
  pool->For(graph->parts(), 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) {
      for (uint32_t type = 0; type < graph->types; ++type) {
        if (!graph->onlooker.empty() && graph->onlooker[type]) continue;
        const std::span<const Task> tasks = graph->Group(static_cast<uint32_t>(part), type);
        FillGroup(input, tasks, input.code.transactions[type], graph);
        FillForeseen(input, tasks, input.code.transactions[type], graph);
      }
    }
  });
}

// The accesses of transactions of one type.
void Planner::FillGroup(const PlanInput& input, std::span<const Task> tasks, const TransactionCode& code,
                        Graph* graph) {
  // Addresses in locals: a byte that is written may be anything, so the compiler would fetch them again each time.
  Slot* const slots = graph->slot.data();
  Task* const owners = graph->owner.data();
  uint16_t* const tables = graph->table.data();
  uint8_t* const flags = graph->flags.data();
  const Access* const first = graph->first.data();
  const auto fill = [&](Access access, Task task, const SiteUse& use, Slot slot, RowHandle* handle) {
    const bool null = slot == kNullKey;
    slots[access] = slot;
    owners[access] = task;
    tables[access] = use.table;
    flags[access] = null ? Graph::kHole : use.writes ? Graph::kWrites : 0;
    *handle = null ? kNullKey : access;
  };
  if (code.uses_elements) {
    for (Task task : tasks) {
      Access access = first[task];
      EachUse(input, code, input.order.Row(graph->begin + task), [&](const SiteUse& use, int64_t index) {
        fill(access++, task, use, input.slots[use.site][index], &graph->rows[use.site][index]);
      });
    }
    return;
  }
  Access number = 0;
  for (const SiteUse use : code.uses) {
    const Slot* const slot = input.slots[use.site].data();
    RowHandle* const handle = graph->rows[use.site].data();
    for (Task task : tasks) {
      const BatchRow row = input.order.Row(graph->begin + task);
      fill(first[task] + number, task, use, slot[row], handle + row);
    }
    ++number;
  }
}

// The rows that they will name by keys that they compute, behind those of their sites.
void Planner::FillForeseen(const PlanInput& input, std::span<const Task> tasks, const TransactionCode& code,
                           Graph* graph) {
  if (!code.computes_keys || input.foreseen == nullptr) return;
  for (Task task : tasks) {
    const auto foreseen = input.foreseen->RowsOf(task);
    Access access = graph->first[task + 1] - static_cast<Access>(foreseen.size());
    for (const ForeseenRow& row : foreseen) {
      graph->slot[access] = row.slot;
      graph->owner[access] = task;
      graph->table[access] = row.table;
      graph->flags[access] = row.writes ? Graph::kWrites : 0;
      ++access;
    }
  }
}

// Room for every slot in `last_`, and for this batch's accesses in its numbers.
void Planner::MakeRoom(Access accesses) {
  last_of_.resize(tables_.size());
  for (size_t table = 0; table < tables_.size(); ++table) {
    last_[table].resize(tables_[table]->slots());
    last_of_[table] = last_[table].data();
  }
  if (accesses < std::numeric_limits<uint32_t>::max() - base_) return;
  for (auto& rows : last_) std::fill(rows.begin(), rows.end(), Last());
  base_ = 1;
}

// Links the accesses of the rows that belong to this part.
void Planner::Link(Graph* graph, uint32_t part, uint32_t parts, std::vector<Alias>* aliases) {
  const Access total = graph->accesses();
  const uint32_t base = base_ - total;
  const Slot* const slots = graph->slot.data();
  const uint16_t* const tables = graph->table.data();
  Access* const previous = graph->previous.data();
  Access* const earlier = graph->earlier.data();
  const Task* const owner = graph->owner.data();
  uint8_t* const flags = graph->flags.data();
  Last* const* const last = last_of_.data();
  for (Access access = 0; access < total; ++access) {
    if (access + kLinkAhead < total) {
      const Slot ahead = slots[access + kLinkAhead];
      Prefetch(last[tables[access + kLinkAhead]] + (ahead < kNullKey ? ahead : 0));
    }
    const Slot slot = slots[access];
    if (parts > 1 && slot % parts != part) continue;
    if (slot == kNullKey) [[unlikely]] {
      previous[access] = earlier[access] = kBase;
      continue;
    }
    Last& row = last[tables[access]][slot];
    const Access kept = row.any >= base ? row.any - base : kBase;
    if (kept != kBase && owner[kept] == owner[access]) [[unlikely]] {
      if ((flags[access] & Graph::kWrites) && !(flags[kept] & Graph::kWrites)) {
        flags[kept] |= Graph::kWrites;
        if (previous[kept] != kBase) flags[previous[kept]] |= Graph::kSuperseded;
        row.write = base + kept;
      }
      flags[access] = Graph::kHole | Graph::kAlias;
      previous[access] = earlier[access] = kBase;
      aliases->push_back({access, kept});
      continue;
    }
    const bool known = row.write >= base;
    previous[access] = known ? row.write - base : kBase;
    earlier[access] = kept;
    row.any = base + access;
    if (flags[access] & Graph::kWrites) {
      if (known) flags[row.write - base] |= Graph::kSuperseded;
      row.write = base + access;
    }
  }
}

// Lets the handles of holes lead to what was kept; each transaction that has some is gone through once.
void Planner::Redirect(const PlanInput& input, Graph* graph) {
  std::vector<Alias>& aliases = aliases_.front();
  for (size_t part = 1; part < aliases_.size(); ++part)
    aliases.insert(aliases.end(), aliases_[part].begin(), aliases_[part].end());
  if (aliases_.size() > 1) std::ranges::sort(aliases, {}, &Alias::hole);
  for (auto alias = aliases.begin(); alias != aliases.end();) {
    const Task task = graph->owner[alias->hole];
    graph->aliased[task] = 1;
    const int64_t position = graph->begin + task;
    Access access = graph->first[task];
    EachUse(input, *CodeAt(input, position), input.order.Row(position), [&](const SiteUse& use, int64_t index) {
      if (alias != aliases.end() && alias->hole == access) graph->rows[use.site][index] = (alias++)->kept;
      ++access;
    });
    // Rows that were foreseen have no handles.
    while (alias != aliases.end() && graph->owner[alias->hole] == task) ++alias;
  }
}

}  // namespace morphspark
