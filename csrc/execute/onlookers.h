// Transactions that write nothing and read windows: onlookers. Nobody waits for them, and all that they read is kept as
// versions until the batch ends. So they are not planned: when all others have run, they run in any order, on all
// threads, each as of its own place (state/past_rows.h). A window over a thousand rows would be a thousand accesses.
#pragma once

#include <deque>
#include <vector>

#include "execute/explorer.h"
#include "execute/planned_batch.h"
#include "state/past_rows.h"

namespace morphspark {

// Which types are onlookers under a strategy that runs whole transactions; empty if none is.
std::vector<uint8_t> FindOnlookers(const Code& code, const Strategy& strategy);

// Units are numbers of onlookers, in their order.
class OnlookerCrew : public Crew {
 public:
  // `rows` of the context are slots.
  OnlookerCrew(PlannedBatch* batch, const BatchContext& context, int workers);
  void Run(int worker, UnitId unit) override;
  // As many as there are: a sum that stands where the last reader was has the shortest way to the next.
  Chunk chunk() const override { return {1, UINT32_MAX}; }

 private:
  struct Worker {
    Worker(PlannedBatch* batch, const BatchContext& context, int number)
        : frame(*context.code, number), machine(context, PastRows(batch->versions()), &frame), pace(batch->poller()) {}
    Frame frame;
    Machine<PastRows> machine;
    Pace pace;
  };

  PlannedBatch& batch_;
  std::deque<Worker> workers_;
};

}  // namespace morphspark
