#include "plan/graph.h"

#include <algorithm>
#include <limits>

#include "base/prefetch.h"

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 12;
constexpr Access kLinkAhead = 16;

// The code of the transaction at a position; null if none runs there.
const TransactionCode* CodeAt(const PlanInput& input, int64_t position) {
  if (position >= input.order.keyed) return nullptr;
  const TransactionId id = input.transactions[input.order.Row(position)];
  return id == kUnmatched ? nullptr : &input.code.transactions[id];
}

// The elements of a row's list, for a site that is named by them.
ListRange Elements(const PlanInput& input, const Site& site, BatchRow row) {
  const ColumnView& lists = input.columns[site.parts[0]];
  if (lists.kind != Kind::kList || lists.IsNull(row)) return {0, 0};
  return lists.List(row);
}

// Calls visit(use, index) for each row that a transaction may use, in the order of its accesses. `index` leads into
// the site's slots and handles.
template <class Visit>
void EachUse(const PlanInput& input, const TransactionCode& code, BatchRow row, Visit visit) {
  for (const SiteUse& use : code.uses) {
    const Site& site = input.code.sites[use.site];
    if (!site.of_element) {
      visit(use, row);
      continue;
    }
    const ListRange range = Elements(input, site, row);
    for (int64_t element = 0; element < range.size; ++element) visit(use, range.start + element);
  }
}

Access CountUses(const PlanInput& input, const TransactionCode& code, BatchRow row) {
  if (!code.uses_elements) return static_cast<Access>(code.uses.size());
  Access count = 0;
  EachUse(input, code, row, [&](const SiteUse&, int64_t) { ++count; });
  return count;
}

}  // namespace

uint64_t Graph::bytes() const {
  uint64_t bytes = first.bytes() + slot.bytes() + owner.bytes() + table.bytes() + flags.bytes() + previous.bytes();
  for (const auto& one : rows) bytes += one.capacity() * sizeof(RowHandle);
  bytes += roamer.bytes() + roamers.capacity() * sizeof(Task);
  return bytes;
}

uint64_t Planner::bytes() const {
  uint64_t bytes = 0;
  for (const auto& one : last_) bytes += one.capacity() * sizeof(Last);
  return bytes;
}

void Planner::Plan(const PlanInput& input, int64_t begin, int64_t end, ThreadPool* pool, Graph* graph) {
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
  const auto parts = static_cast<uint32_t>(graph->tasks < kGrain ? 1 : pool->threads());
  std::vector<std::vector<Alias>> aliases(parts);
  pool->For(parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) Link(graph, static_cast<uint32_t>(part), parts, &aliases[part]);
  });
  Redirect(input, &aliases, graph);
}

void Planner::FindRoamers(const PlanInput& input, Graph* graph) {
  graph->roamers.clear();
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

Access Planner::LastWriteBefore(const Graph& graph, TableId table, Slot slot, Task task) const {
  if (slot >= last_[table].size()) return kBase;  // a key that is new
  const uint32_t base = base_ - graph.accesses(), newest = last_[table][slot].write;
  if (newest < base) return kBase;
  Access access = newest - base;
  while (access != kBase && graph.owner[access] >= task) access = graph.previous[access];
  return access;
}

void Planner::Count(const PlanInput& input, ThreadPool* pool, Graph* graph) {
  const Task tasks = graph->tasks;
  graph->first.Resize(uint64_t{tasks} + 1);
  Access* const first = graph->first.data();
  pool->For(tasks, kGrain, [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      const TransactionCode* code = CodeAt(input, graph->begin + task);
      first[task] = code == nullptr ? 0 : CountUses(input, *code, input.order.Row(graph->begin + task));
    }
  });
  uint64_t total = 0;
  for (Task task = 0; task < tasks; ++task) {
    const Access count = first[task];
    first[task] = static_cast<Access>(total);
    total += count;
  }
  if (total >= kNullKey) throw std::length_error("a batch has more than 2^32 accesses");
  first[tasks] = static_cast<Access>(total);
}

void Planner::Fill(const PlanInput& input, ThreadPool* pool, Graph* graph) {
  const Access total = graph->accesses();
  graph->slot.Resize(total);
  graph->owner.Resize(total);
  graph->table.Resize(total);
  graph->flags.Resize(total);
  graph->previous.Resize(total);
  pool->For(graph->tasks, kGrain, [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      const TransactionCode* code = CodeAt(input, graph->begin + task);
      if (code == nullptr) continue;
      Access access = graph->first[task];
      EachUse(input, *code, input.order.Row(graph->begin + task), [&](const SiteUse& use, int64_t index) {
        const Slot slot = input.slots[use.site][index];
        const bool null = slot == kNullKey;
        graph->slot[access] = slot;
        graph->owner[access] = static_cast<Task>(task);
        graph->table[access] = use.table;
        graph->flags[access] = null ? Graph::kHole : use.writes ? Graph::kWrites : 0;
        graph->rows[use.site][index] = null ? kNullKey : access;
        ++access;
      });
    }
  });
}

// Room for every slot in `last_`, and for this batch's accesses in its numbers.
void Planner::MakeRoom(Access accesses) {
  for (size_t table = 0; table < tables_.size(); ++table) last_[table].resize(tables_[table]->slots());
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
  uint8_t* const flags = graph->flags.data();
  std::vector<Last*> last;
  for (auto& rows : last_) last.push_back(rows.data());
  for (Access access = 0; access < total; ++access) {
    if (access + kLinkAhead < total) {
      const Slot ahead = slots[access + kLinkAhead];
      Prefetch(last[tables[access + kLinkAhead]] + (ahead < kNullKey ? ahead : 0));
    }
    const Slot slot = slots[access];
    if (parts > 1 && slot % parts != part) continue;
    if (slot == kNullKey) [[unlikely]] {
      previous[access] = kBase;
      continue;
    }
    Last& row = last[tables[access]][slot];
    if (row.any >= base && graph->owner[row.any - base] == graph->owner[access]) [[unlikely]] {
      const Access kept = row.any - base;
      if ((flags[access] & Graph::kWrites) && !(flags[kept] & Graph::kWrites)) {
        flags[kept] |= Graph::kWrites;
        if (previous[kept] != kBase) flags[previous[kept]] |= Graph::kSuperseded;
        row.write = base + kept;
      }
      flags[access] = Graph::kHole | Graph::kAlias;
      previous[access] = kBase;
      aliases->push_back({access, kept});
      continue;
    }
    const bool known = row.write >= base;
    previous[access] = known ? row.write - base : kBase;
    row.any = base + access;
    if (flags[access] & Graph::kWrites) {
      if (known) flags[row.write - base] |= Graph::kSuperseded;
      row.write = base + access;
    }
  }
}

// Lets the handles of holes lead to what was kept; each transaction that has some is gone through once.
void Planner::Redirect(const PlanInput& input, std::vector<std::vector<Alias>>* parts, Graph* graph) {
  std::vector<Alias>& aliases = parts->front();
  for (size_t part = 1; part < parts->size(); ++part)
    aliases.insert(aliases.end(), (*parts)[part].begin(), (*parts)[part].end());
  if (parts->size() > 1) std::ranges::sort(aliases, {}, &Alias::hole);
  for (auto alias = aliases.begin(); alias != aliases.end();) {
    const Task task = graph->owner[alias->hole];
    const int64_t position = graph->begin + task;
    Access access = graph->first[task];
    EachUse(input, *CodeAt(input, position), input.order.Row(position), [&](const SiteUse& use, int64_t index) {
      if (alias != aliases.end() && alias->hole == access) graph->rows[use.site][index] = (alias++)->kept;
      ++access;
    });
  }
}

}  // namespace morphspark
