// Who runs the units of a nested batch: parts of transactions, chains and whole transactions by an OperationCrew, those
// of groups with v-schedule in lanes.
#pragma once

#include <deque>
#include <vector>

#include "execute/nest.h"
#include "execute/operation_crew.h"

namespace morphspark {

// A group of v-schedule. Where other groups may take back what its transactions read, so are their verdicts.
class NestedLanes : public Crew {
 public:
  NestedLanes(PlannedBatch* batch, OperationCrew* operations, const OperationGraph& graph, int workers,
              uint32_t lanes_min, std::deque<LaneMemory>* memory);
  void Run(int worker, UnitId unit) override { RunMany(worker, {&unit, 1}); }
  void RunMany(int worker, std::span<const UnitId> units) override;
  Chunk chunk() const override { return chunk_; }
  void Held(int worker) override { operations_.Held(worker); }

 private:
  struct alignas(64) Worker {
    Worker(PlannedBatch* batch, int number, uint32_t lanes_min, LaneMemory* memory)
        : lanes(batch, number, lanes_min, memory) {}

    PlannedBatch::LaneWorker lanes;
    std::vector<Task> tasks;
  };

  PlannedBatch& batch_;
  OperationCrew& operations_;
  const OperationGraph& graph_;
  const Chunk chunk_;
  std::deque<Worker> workers_;
};

class NestedCrews {
 public:
  NestedCrews(PlannedBatch* batch, const Policies& policies, int workers, uint32_t lanes_min, OperationMemory* memory,
              std::deque<LaneMemory>* lane_memory, Scratch<uint8_t>* group_of);

  OperationCrew& operations() { return operations_; }
  std::span<const Nest::Member> members() const { return members_; }

 private:
  uint8_t GroupOf(const Strategy& strategy);

  OperationCrew operations_;
  NestedLanes lanes_;
  std::vector<Strategy> groups_;
  std::vector<Nest::Member> members_;  // by group
};

}  // namespace morphspark
