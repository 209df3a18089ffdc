#include "execute/operation_crew.h"

#include <algorithm>
#include <atomic>

namespace morphspark {

namespace {

// Transactions of a stratum that are redone by one thread: fewer are not worth waking another.
constexpr size_t kRedoneAlone = 8;

}  // namespace

OperationCrew::OperationCrew(PlannedBatch* batch, const Policies& policies, bool strata, int workers,
                             OperationMemory* memory)
    : batch_(*batch),
      graph_(batch->graph()),
      memory_(*memory),
      policies_(policies),
      chains_(policies.Any([](const Strategy& one) { return one.unit == Unit::kChain; })),
      optimistic_(policies.Any([](const Strategy& one) { return one.cuts(); })),
      takes_back_(strata && policies.Any([](const Strategy& one) { return one.abort == Abort::kEager; })),
      failed_(workers) {
  if (chains_) {
    const auto chained = [&](Node node) {
      return policies.Of(graph_.type[memory->graph.owner[node]]).unit == Unit::kChain;
    };
    FindChains(graph_, memory->graph, chained, &memory->chains);
  }
  memory->failed.Resize(graph_.tasks);
  std::fill(memory->failed.begin(), memory->failed.end(), 0);
  if (takes_back_) {
    memory->ran.Resize(memory->graph.nodes.units);
    std::fill(memory->ran.begin(), memory->ran.end(), 0);
  }
  memory->values.Resize(memory->graph.exchange_places);
  memory->null.Resize(memory->graph.exchange_places);
  for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, number).KeepStrings();
}

std::span<const Node> OperationCrew::Nodes(const UnitId& unit) const {
  if (!chains_) return {&unit, 1};
  const ChainGraph& chains = memory_.chains;
  return {chains.nodes.data() + chains.first[unit], chains.nodes.data() + chains.first[unit + 1]};
}

void OperationCrew::Run(int worker, UnitId unit) {
  for (Node node : Nodes(unit)) RunNode(worker, node);
}

void OperationCrew::RunNode(int worker, Node node) {
  if (batch_.stopped()) return;
  const Task task = memory_.graph.owner[node];
  if (takes_back_) memory_.ran[node] = 1;
  if (!memory_.graph.Cut(task)) return RunWhole(worker, task);
  const TransactionCode& code = *batch_.CodeOf(task);
  const bool eager = policies_.Of(batch_.TypeOf(task)).abort == Abort::kEager;
  const uint32_t number = node - memory_.graph.first[task];
  const uint64_t place = memory_.graph.exchange[task];
  // Relaxed: whoever sees it too late does work that is taken back.
  std::atomic_ref<uint8_t> failed(memory_.failed[task]);
  bool passes = false;
  if (!eager || !failed.load(std::memory_order_relaxed)) {
    ReasonId reason;
    try {
      reason = workers_[worker].RunOperation(task, code, code.operations->list[number],
                                             {memory_.values.data() + place, memory_.null.data() + place});
    } catch (...) {
      return batch_.Stop(std::current_exception());
    }
    passes = reason == kNoReason;
    if (!passes) Fail(worker, task);
  }
  for (uint32_t use : code.operations->list[number].uses) {
    const Access access = graph_.first[task] + use;
    if (code.operations->exit[use] == number && (graph_.flags[access] & Graph::kWrites))
      batch_.versions()->Publish(access, passes);
  }
}

// A transaction that is not cut: its verdict is final if what it read was.
void OperationCrew::RunWhole(int worker, Task task) {
  workers_[worker].Run(task, !optimistic_);
  if (optimistic_ && batch_.Aborted(task)) Fail(worker, task);
}

void OperationCrew::Fail(int worker, Task task) {
  std::atomic_ref<uint8_t> failed(memory_.failed[task]);
  if (failed.exchange(1, std::memory_order_relaxed) == 0) failed_[worker].tasks.push_back(task);
}

bool OperationCrew::failed() const {
  return std::ranges::any_of(failed_, [](const Failed& one) { return !one.tasks.empty(); });
}

// ------------------------------------------------------------------------------------------------- taking back

Readers::Readers(const Graph& graph) : first_(uint64_t{graph.accesses()} + 2, 0) {
  const Access accesses = graph.accesses();
  for (Access access = 0; access < accesses; ++access) {
    if (graph.previous[access] != kBase) ++first_[graph.previous[access] + 2];
  }
  for (uint64_t i = 2; i < first_.size(); ++i) first_[i] += first_[i - 1];
  readers_.resize(first_.back());
  for (Access access = 0; access < accesses; ++access) {
    if (graph.previous[access] != kBase) readers_[first_[graph.previous[access] + 1]++] = access;
  }
}

const Readers& OperationCrew::readers() {
  if (!readers_) readers_.emplace(graph_);
  return *readers_;
}

// Whether the operation ran that has a row first, or last, in its transaction.
bool OperationCrew::Ran(Access access, bool first) const {
  const Task task = graph_.owner[access];
  const Node node = memory_.graph.first[task];
  if (!memory_.graph.Cut(task)) return memory_.ran[node];
  const Operations& operations = *batch_.CodeOf(task)->operations;
  const Access use = access - graph_.first[task];
  if (operations.entry[use] > operations.exit[use]) return false;  // it has none
  return memory_.ran[node + (first ? operations.entry[use] : operations.exit[use])];
}

void OperationCrew::TakeBack(Task task) {
  BatchVersions& versions = *batch_.versions();
  for (Access access = graph_.first[task]; access < graph_.first[task + 1]; ++access) {
    if (!(graph_.flags[access] & Graph::kWrites) || !Ran(access, false) || versions.Source(access) != access) continue;
    versions.Publish(access, false);
    for (Access reader : readers().Of(access)) {
      if (Ran(reader, true)) misled_.push_back(graph_.owner[reader]);
    }
  }
}

void OperationCrew::EndStratum() {
  if (!takes_back_ || batch_.stopped()) return;
  std::vector<Task> fresh;
  for (Failed& some : failed_) {
    fresh.insert(fresh.end(), some.tasks.begin() + some.settled, some.tasks.end());
    some.settled = some.tasks.size();
  }
  std::ranges::sort(fresh);  // each takes over what the one before it has settled
  for (Task task : fresh) {
    if (memory_.graph.Cut(task) && policies_.Of(batch_.TypeOf(task)).abort == Abort::kEager) TakeBack(task);
  }
}

// ----------------------------------------------------------------------------------------------------- redoing

// True if it was not before. Relaxed: whoever marks it lists it, and lists are put together when all are done.
bool OperationCrew::MarkDue(Task task) {
  return std::atomic_ref(memory_.due[task]).exchange(1, std::memory_order_relaxed) == 0;
}

void OperationCrew::RedoOne(int worker, Task task, Redoer* redoer) {
  BatchVersions& versions = *batch_.versions();
  const Access begin = graph_.first[task], end = graph_.first[task + 1];
  redoer->before.resize(std::max<size_t>(redoer->before.size(), end - begin));
  for (Access access = begin; access < end; ++access) {
    if (!(graph_.flags[access] & Graph::kWrites)) continue;
    Redoer::Before& was = redoer->before[access - begin];
    was.source = versions.Source(access);
    versions.Published(access, &was.image);
  }
  versions.Forget(task);
  for (ReturnedValues& column : *batch_.context().returned) column.Clear(batch_.Position(task));
  workers_[worker].Run(task);
  for (Access access = begin; access < end; ++access) {
    if (!(graph_.flags[access] & Graph::kWrites)) continue;
    const Access source = versions.Source(access);
    const Redoer::Before& was = redoer->before[access - begin];
    const bool own = versions.Published(access, &redoer->image);
    const bool changed =
        source != was.source || (own ? redoer->image != was.image : source != kBase && changed_[source]);
    changed_[access] = changed;
    if (!changed) continue;
    for (Access reader : readers().Of(access)) {
      if (MarkDue(graph_.owner[reader])) redoer->followers.push_back(graph_.owner[reader]);
    }
  }
}

int64_t OperationCrew::Redo(ThreadPool* pool) {
  if (batch_.stopped() || (!failed() && misled_.empty())) return 0;
  readers();  // before threads want them
  changed_.assign(graph_.accesses(), 0);
  UnitsOfTransactions(graph_, &memory_.transactions);
  Stratify(memory_.transactions, &memory_.strata);
  memory_.due.Resize(graph_.tasks);
  std::fill(memory_.due.begin(), memory_.due.end(), 0);
  std::vector<std::vector<Task>> due(memory_.strata.levels());
  const auto list = [&](const std::vector<Task>& tasks) {
    for (Task task : tasks) due[memory_.strata.level[task]].push_back(task);
  };
  for (const Failed& some : failed_) {
    for (Task task : some.tasks) {
      if (MarkDue(task)) list({task});
    }
  }
  for (Task task : misled_) {
    if (MarkDue(task)) list({task});
  }
  std::vector<Redoer> redoers(workers_.size());
  int64_t redone = 0;
  // Followers belong to later strata than what they follow, so a stratum is complete when its turn comes.
  for (const std::vector<Task>& stratum : due) {
    if (batch_.stopped()) break;
    redone += static_cast<int64_t>(stratum.size());
    if (pool == nullptr || stratum.size() <= kRedoneAlone) {
      for (Task task : stratum) RedoOne(0, task, &redoers[0]);
    } else {
      std::atomic<size_t> next{0};
      pool->For(static_cast<int64_t>(redoers.size()), 1, [&](int64_t from, int64_t to) {
        for (int64_t worker = from; worker < to; ++worker) {
          for (size_t at; (at = next.fetch_add(1, std::memory_order_relaxed)) < stratum.size();)
            RedoOne(static_cast<int>(worker), stratum[at], &redoers[worker]);
        }
      });
    }
    for (Redoer& one : redoers) {
      list(one.followers);
      one.followers.clear();
    }
  }
  return redone;
}

}  // namespace morphspark
