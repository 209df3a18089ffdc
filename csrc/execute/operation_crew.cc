#include "execute/operation_crew.h"

#include <algorithm>
#include <queue>

namespace morphspark {

OperationCrew::OperationCrew(PlannedBatch* batch, const Strategy& strategy, int workers, OperationMemory* memory)
    : batch_(*batch),
      graph_(batch->graph()),
      memory_(*memory),
      chains_(strategy.unit == Unit::kChain),
      eager_(strategy.abort == Abort::kEager),
      failed_(workers) {
  FindOperations(graph_, [&](Task task) { return batch->CodeOf(task); }, &memory->graph);
  if (chains_) FindChains(graph_, memory->graph, &memory->chains);
  memory->failed.Resize(graph_.tasks);
  std::fill(memory->failed.begin(), memory->failed.end(), 0);
  memory->values.Resize(memory->graph.exchange_places);
  memory->null.Resize(memory->graph.exchange_places);
  for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, number).KeepStrings();
}

void OperationCrew::Run(int worker, UnitId unit) {
  if (!chains_) return RunNode(worker, unit);
  const ChainGraph& chains = memory_.chains;
  for (uint32_t at = chains.first[unit]; at < chains.first[unit + 1]; ++at) RunNode(worker, chains.nodes[at]);
}

void OperationCrew::RunNode(int worker, Node node) {
  if (batch_.stopped()) return;
  const Task task = memory_.graph.owner[node];
  if (!memory_.graph.Cut(task)) return RunWhole(worker, task);
  const TransactionCode& code = *batch_.CodeOf(task);
  const uint32_t number = node - memory_.graph.first[task];
  const uint64_t place = memory_.graph.exchange[task];
  // Relaxed: whoever sees it too late does work that is taken back.
  std::atomic_ref<uint8_t> failed(memory_.failed[task]);
  bool passes = false;
  if (!eager_ || !failed.load(std::memory_order_relaxed)) {
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

// A transaction that is not cut: its own verdict is final as far as what it read was.
void OperationCrew::RunWhole(int worker, Task task) {
  workers_[worker].Run(task, false);
  if (batch_.Aborted(task)) Fail(worker, task);
}

void OperationCrew::Fail(int worker, Task task) {
  std::atomic_ref<uint8_t> failed(memory_.failed[task]);
  if (failed.exchange(1, std::memory_order_relaxed) == 0) failed_[worker].tasks.push_back(task);
}

bool OperationCrew::failed() const {
  return std::ranges::any_of(failed_, [](const Failed& one) { return !one.tasks.empty(); });
}

namespace {

// Who reads what an access published.
struct Readers {
  std::vector<uint32_t> first;
  std::vector<Task> tasks;

  explicit Readers(const Graph& graph) : first(uint64_t{graph.accesses()} + 2, 0) {
    const Access accesses = graph.accesses();
    for (Access access = 0; access < accesses; ++access) {
      if (graph.previous[access] != kBase) ++first[graph.previous[access] + 2];
    }
    for (uint64_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
    tasks.resize(first.back());
    for (Access access = 0; access < accesses; ++access) {
      if (graph.previous[access] != kBase) tasks[first[graph.previous[access] + 1]++] = graph.owner[access];
    }
  }
};

}  // namespace

int64_t OperationCrew::Redo() {
  if (batch_.stopped() || !failed()) return 0;
  std::priority_queue<Task, std::vector<Task>, std::greater<>> due;
  std::vector<uint8_t> listed(graph_.tasks, 0);
  for (const Failed& some : failed_) {
    for (Task task : some.tasks) {
      due.push(task);
      listed[task] = 1;
    }
  }
  const Readers readers(graph_);
  std::vector<uint8_t> changed(graph_.accesses(), 0);  // what it published is not what it had published
  struct Before {
    Access source;
    std::vector<uint64_t> image;
  };
  std::vector<Before> before;
  std::vector<uint64_t> image;
  BatchVersions& versions = *batch_.versions();
  int64_t redone = 0;
  for (; !due.empty() && !batch_.stopped(); ++redone) {
    const Task task = due.top();
    due.pop();
    const Access begin = graph_.first[task], end = graph_.first[task + 1];
    before.resize(end - begin);
    for (Access access = begin; access < end; ++access) {
      if (!(graph_.flags[access] & Graph::kWrites)) continue;
      before[access - begin].source = versions.Source(access);
      versions.Published(access, &before[access - begin].image);
    }
    versions.Forget(task);
    for (ReturnedValues& column : *batch_.context().returned) column.Clear(batch_.Position(task));
    workers_[0].Run(task);
    for (Access access = begin; access < end; ++access) {
      if (!(graph_.flags[access] & Graph::kWrites)) continue;
      const Access source = versions.Source(access);
      const Before& was = before[access - begin];
      const bool own = versions.Published(access, &image);
      changed[access] = source != was.source || (own ? image != was.image : source != kBase && changed[source]);
      if (!changed[access]) continue;
      for (uint32_t at = readers.first[access]; at < readers.first[access + 1]; ++at) {
        const Task reader = readers.tasks[at];
        if (!listed[reader]) due.push(reader);
        listed[reader] = 1;
      }
    }
  }
  return redone;
}

}  // namespace morphspark
