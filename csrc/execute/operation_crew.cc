#include "execute/operation_crew.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <utility>

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
      own_(workers) {
  if (chains_) {
    const auto chained = [&](Node node) {
      return policies.Of(graph_.type[memory->graph.owner[node]]).unit == Unit::kChain;
    };
    FindChains(graph_, memory->graph, chained, &memory->chains);
  }
  memory->failed.Resize(graph_.tasks);
  std::ranges::fill(memory->failed, 0);
  memory->states.Resize(memory->graph.nodes.units);
  std::ranges::fill(memory->states, OperationState::kBlocked);
  memory->values.Resize(memory->graph.exchange_places);
  memory->null.Resize(memory->graph.exchange_places);
  for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, number);
  memory->strings.resize(std::max<size_t>(memory->strings.size(), workers));
  for (auto& [arena] : memory->strings) arena.Reset();
}

uint64_t OperationMemory::bytes() const {
  uint64_t bytes = graph.bytes() + chains.bytes() + states.bytes() + failed.bytes() + values.bytes() + null.bytes() +
                   transactions.bytes() + strata.bytes() + due.bytes() + stratum.bytes() + changed.bytes() +
                   readers.first.bytes() + readers.list.bytes();
  for (const auto& [arena] : strings) bytes += arena.reserved();
  return bytes;
}

std::span<const Node> OperationCrew::Nodes(const UnitId& unit) const {
  if (!chains_) return {&unit, 1};
  const ChainGraph& chains = memory_.chains;
  return {chains.nodes.data() + chains.first[unit], chains.nodes.data() + chains.first[unit + 1]};
}

void OperationCrew::Run(int worker, UnitId unit) {
  for (Node node : Nodes(unit)) RunNode(worker, node);
}

// What a worker waited for with the operation in hand, it executes at once.
void OperationCrew::Become(int worker, OperationState* state, OperationState to) {
  Own& own = own_[worker];
  const bool at_once = std::exchange(own.held, false) && to == OperationState::kExecuted;
  if (!at_once) Advance(state, OperationState::kReady, &own.made);
  if (to != OperationState::kReady) Advance(state, to, &own.made);
}

// Whether what a node waits for has been executed, or passed over since its transaction has failed.
bool OperationCrew::Ready(Node node) const {
  return std::ranges::all_of(memory_.graph.nodes.Before(node), [&](Node before) {
    // Relaxed, with the exchange in Fail: that came before the explorer's release of `before`, which let this one run.
    return memory_.states[before] == OperationState::kExecuted ||
           std::atomic_ref(memory_.failed[memory_.graph.owner[before]]).load(std::memory_order_relaxed) != 0;
  });
}

void OperationCrew::RunNode(int worker, Node node) {
  if (batch_.stopped()) return;
  const Task task = memory_.graph.owner[node];
  if (!memory_.graph.Cut(task)) return RunWhole(worker, task);
  assert(Ready(node));
  const TransactionId type = graph_.type[task];
  const TransactionCode& code = batch_.context().code->transactions[type];
  const bool eager = policies_.Of(type).abort == Abort::kEager;
  const uint32_t number = node - memory_.graph.first[task];
  const Operation& operation = code.operations->list[number];
  const uint64_t place = memory_.graph.exchange[task];
  // Relaxed, with the exchange in Fail: whoever sees it too late does work that is taken back.
  std::atomic_ref<uint8_t> failed(memory_.failed[task]);
  bool passes = false;
  if (!eager || !failed.load(std::memory_order_relaxed)) {
    ReasonId reason;
    try {
      reason = workers_[worker].RunOperation(
          task, code, operation,
          {memory_.values.data() + place, memory_.null.data() + place, &memory_.strings[worker].value});
    } catch (...) {
      return batch_.Stop(std::current_exception());
    }
    Become(worker, &memory_.states[node], OperationState::kExecuted);
    passes = reason == kNoReason;
    if (!passes) Fail(worker, task);
  } else {
    Become(worker, &memory_.states[node], OperationState::kReady);
  }
  for (uint32_t use : operation.uses) {
    const Access access = graph_.first[task] + use;
    if (code.operations->exit[use] == number && (graph_.flags[access] & Graph::kWrites))
      batch_.versions()->Publish(access, passes);
  }
}

// A transaction that is not cut: its verdict is final if what it read was.
void OperationCrew::RunWhole(int worker, Task task) {
  workers_[worker].Run(task, !optimistic_);
  if (batch_.stopped()) return;
  RanWhole(worker, {&task, 1});
  if (optimistic_ && batch_.Aborted(task)) Fail(worker, task);
}

void OperationCrew::RanWhole(int worker, std::span<const Task> tasks) {
  for (Task task : tasks) {
    OperationState* const state = &memory_.states[memory_.graph.first[task]];
    const bool aborts = !optimistic_ && batch_.Aborted(task);
    Become(worker, state, aborts ? OperationState::kAborted : OperationState::kExecuted);
  }
}

std::span<OperationState> OperationCrew::StatesOf(Task task) {
  OperationState* const states = memory_.states.data();
  return {states + memory_.graph.first[task], states + memory_.graph.first[task + 1]};
}

bool OperationCrew::Validate() const {
  for (Task task = 0; task < graph_.tasks; ++task) {
    const OperationState end = batch_.Aborted(task) ? OperationState::kAborted : OperationState::kExecuted;
    for (Node node = memory_.graph.first[task]; node < memory_.graph.first[task + 1]; ++node) {
      if (memory_.states[node] != end) return false;
    }
  }
  return true;
}

void OperationCrew::Fail(int worker, Task task) {
  std::atomic_ref<uint8_t> failed(memory_.failed[task]);
  // Relaxed, with the loads in RunNode and Ready: whoever sets it lists it, and lists are looked at when all have
  // arrived.
  if (failed.exchange(1, std::memory_order_relaxed) == 0) own_[worker].failed.push_back(task);
}

bool OperationCrew::failed() const {
  return std::ranges::any_of(own_, [](const Own& one) { return !one.failed.empty(); });
}

void OperationCrew::RanAgain() {
  for (Task task = 0; task < graph_.tasks; ++task) {
    const OperationState ended = batch_.Aborted(task) ? OperationState::kAborted : OperationState::kExecuted;
    for (OperationState& state : StatesOf(task)) {
      RollBack(&state, OperationState::kReady, &own_[0].made);
      Advance(&state, ended, &own_[0].made);
    }
  }
}

Transitions OperationCrew::Made() const {
  Transitions sum{};
  for (const Own& one : own_) {
    for (size_t number = 0; number < sum.size(); ++number) sum[number] += one.made[number];
  }
  return sum;
}

// ------------------------------------------------------------------------------------------------- taking back

void OperationCrew::FindReaders() {
  if (knows_readers_) return;
  const Access accesses = graph_.accesses();
  auto& [first, list] = memory_.readers;
  // Counted two places ahead, so that filling moves each to where its successor begins.
  first.Resize(uint64_t{accesses} + 2);
  std::ranges::fill(first, 0);
  for (Access access = 0; access < accesses; ++access) {
    if (graph_.previous[access] != kBase) ++first[graph_.previous[access] + 2];
  }
  for (uint64_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
  list.Resize(first[accesses + 1]);
  for (Access access = 0; access < accesses; ++access) {
    if (graph_.previous[access] != kBase) list[first[graph_.previous[access] + 1]++] = access;
  }
  knows_readers_ = true;
}

// Whether the operation ran that has a row first, or last, in its transaction.
bool OperationCrew::Ran(Access access, bool first) const {
  const Task task = graph_.owner[access];
  Node node = memory_.graph.first[task];
  if (memory_.graph.Cut(task)) {
    const Operations& operations = *memory_.graph.cuts[graph_.type[task]];
    const Access use = access - graph_.first[task];
    if (operations.entry[use] > operations.exit[use]) return false;  // it has none
    node += first ? operations.entry[use] : operations.exit[use];
  }
  return memory_.states[node] == OperationState::kExecuted;
}

void OperationCrew::TakeBack(Task task) {
  BatchVersions& versions = *batch_.versions();
  for (Access access = graph_.first[task]; access < graph_.first[task + 1]; ++access) {
    if (!(graph_.flags[access] & Graph::kWrites) || !Ran(access, false) || versions.Source(access) != access) continue;
    versions.Publish(access, false);
    for (Access reader : memory_.readers.Of(access)) {
      if (Ran(reader, true)) misled_.push_back(graph_.owner[reader]);
    }
  }
}

void OperationCrew::EndStratum() {
  if (!takes_back_ || batch_.stopped()) return;
  fresh_.clear();
  for (Own& own : own_) {
    fresh_.insert(fresh_.end(), own.failed.begin() + own.settled, own.failed.end());
    own.settled = own.failed.size();
  }
  if (fresh_.empty()) return;
  FindReaders();
  std::ranges::sort(fresh_);  // each takes over what the one before it has settled
  for (Task task : fresh_) {
    if (memory_.graph.Cut(task) && policies_.Of(graph_.type[task]).abort == Abort::kEager) TakeBack(task);
  }
}

// ----------------------------------------------------------------------------------------------------- redoing

void OperationCrew::RedoOne(int worker, Task task, Redoer* redoer) {
  redoer->rerun.Run(&batch_, &workers_[worker], task);
  if (batch_.stopped()) return;
  ++redoer->redone;
  const OperationState ended = batch_.Aborted(task) ? OperationState::kAborted : OperationState::kExecuted;
  for (OperationState& state : StatesOf(task)) Advance(&state, ended, &own_[worker].made);
  for (Access access = graph_.first[task]; access < graph_.first[task + 1]; ++access) {
    if (!(graph_.flags[access] & Graph::kWrites)) continue;
    const Access source = batch_.versions()->Source(access);
    const bool same = redoer->rerun.Same(access) && (source == access || source == kBase || !memory_.changed[source]);
    memory_.changed[access] = !same;
    if (same) continue;
    // Relaxed, with the plain load in FindStratum: that comes when the pool has joined the redoers of this stratum.
    for (Access reader : memory_.readers.Of(access))
      std::atomic_ref(memory_.due[graph_.owner[reader]]).store(1, std::memory_order_relaxed);
  }
}

// It waits until everything before it is final.
void OperationCrew::BecomeDue(Task task) {
  memory_.due[task] = 1;
  for (OperationState& state : StatesOf(task)) RollBack(&state, OperationState::kBlocked, &own_[0].made);
}

// Which transactions failed, or read what was taken back; false if there are none.
bool OperationCrew::FindDue() {
  if (!failed() && misled_.empty()) return false;
  memory_.due.Resize(graph_.tasks);
  std::ranges::fill(memory_.due, 0);
  for (const Own& own : own_) {
    for (Task task : own.failed) BecomeDue(task);
  }
  for (Task task : misled_) BecomeDue(task);
  return true;
}

// The transactions of a stratum that are due. What they wait for is final, so all their operations are ready.
std::span<const Task> OperationCrew::FindStratum(uint32_t level) {
  uint64_t count = 0;
  for (uint32_t at = memory_.strata.first[level]; at < memory_.strata.first[level + 1]; ++at) {
    const Task task = memory_.strata.order[at];
    if (!memory_.due[task]) continue;
    memory_.stratum[count++] = task;
    for (OperationState& state : StatesOf(task)) RollBack(&state, OperationState::kReady, &own_[0].made);
  }
  return {memory_.stratum.data(), count};
}

int64_t OperationCrew::Redo(ThreadPool* pool) {
  if (batch_.stopped() || !FindDue()) return 0;
  FindReaders();
  memory_.changed.Resize(graph_.accesses());
  std::ranges::fill(memory_.changed, 0);
  UnitsOfTransactions(graph_, &memory_.transactions);
  Stratify(memory_.transactions, &memory_.strata);
  memory_.stratum.Resize(graph_.tasks);
  memory_.redoers.resize(workers_.size());
  for (auto& [redoer] : memory_.redoers) redoer.redone = 0;
  // Followers belong to later strata than what they follow, so a stratum is complete when its turn comes.
  for (uint32_t level = 0; level < memory_.strata.levels() && !batch_.stopped(); ++level) {
    const std::span<const Task> stratum = FindStratum(level);
    std::atomic<size_t> next{0};
    const auto redo = [&](int64_t worker) {
      // Relaxed: who takes which is all that matters; what they did, the pool hands to the next stratum.
      for (size_t at; (at = next.fetch_add(1, std::memory_order_relaxed)) < stratum.size();) {
        RedoOne(static_cast<int>(worker), stratum[at], &memory_.redoers[worker].value);
      }
    };
    if (pool == nullptr || stratum.size() <= kRedoneAlone) {
      redo(0);
    } else {
      const auto share = [&](int64_t from, int64_t to) {
        for (int64_t worker = from; worker < to; ++worker) redo(worker);
      };
      pool->For(static_cast<int64_t>(memory_.redoers.size()), 1, share, [&] { batch_.poller()->Look(); });
    }
  }
  int64_t redone = 0;
  for (const auto& [redoer] : memory_.redoers) redone += redoer.redone;
  return redone;
}

}  // namespace morphspark
