#include "execute/nested_crews.h"

#include <algorithm>

namespace morphspark {

NestedLanes::NestedLanes(PlannedBatch* batch, OperationCrew* operations, const OperationGraph& graph, int workers,
                         uint32_t lanes_min, std::deque<LaneMemory>* memory)
    : batch_(*batch), operations_(*operations), graph_(graph), chunk_(LaneChunk(lanes_min)) {
  if (memory->size() < static_cast<size_t>(workers)) memory->resize(workers);
  for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, number, lanes_min, &(*memory)[number]);
}

void NestedLanes::RunMany(int worker, std::span<const UnitId> units) {
  PlannedBatch::LaneWorker& lanes = workers_[worker].lanes;
  std::vector<Task>& tasks = workers_[worker].tasks;
  tasks.clear();
  for (const UnitId& unit : units) tasks.push_back(graph_.owner[operations_.Nodes(unit)[0]]);
  const bool final = !operations_.optimistic();
  lanes.Run(tasks, final);
  if (batch_.stopped()) return;
  operations_.RanWhole(worker, tasks);
  if (final) return;
  for (Task task : tasks) {
    if (batch_.Aborted(task)) operations_.Fail(worker, task);
  }
}

NestedCrews::NestedCrews(PlannedBatch* batch, const Policies& policies, int workers, uint32_t lanes_min,
                         OperationMemory* memory, std::deque<LaneMemory>* lane_memory, Scratch<uint8_t>* group_of)
    : operations_(batch, policies, /*strata=*/false, workers, memory),
      lanes_(batch, &operations_, memory->graph, workers, lanes_min, lane_memory) {
  const UnitId units = operations_.units().units;
  group_of->Resize(units);
  for (UnitId unit = 0; unit < units; ++unit) {
    const std::span<const Node> nodes = operations_.Nodes(unit);
    // Of chains that were merged with other nodes, the chains' group.
    const Strategy* strategy = nullptr;
    for (Node node : nodes) {
      const Strategy& own = policies.Of(batch->TypeOf(memory->graph.owner[node]));
      if (strategy == nullptr || own.unit == Unit::kChain) strategy = &own;
      if (own.unit == Unit::kChain) break;
    }
    (*group_of)[unit] = GroupOf(*strategy);
  }
}

uint8_t NestedCrews::GroupOf(const Strategy& strategy) {
  const auto found = std::ranges::find(groups_, strategy);
  if (found != groups_.end()) return static_cast<uint8_t>(found - groups_.begin());
  Crew* const crew = strategy.unit == Unit::kStratum ? static_cast<Crew*>(&lanes_) : &operations_;
  groups_.push_back(strategy);
  members_.push_back({strategy.exploration, crew});
  return static_cast<uint8_t>(groups_.size() - 1);
}

}  // namespace morphspark
