#include "execute/onlookers.h"

#include <algorithm>

namespace morphspark {

std::vector<uint8_t> FindOnlookers(const Code& code, const Strategy& strategy) {
  if (strategy.scheme != Scheme::kExplore && strategy.scheme != Scheme::kTstream) return {};
  // Rows that are named while the batch runs may be added to the graph, and change what others have read.
  if (std::ranges::any_of(code.transactions, &TransactionCode::computes_keys)) return {};
  std::vector<uint8_t> onlookers;
  for (const TransactionCode& one : code.transactions) {
    onlookers.push_back(one.written.empty() && !one.windows.empty());
  }
  if (std::ranges::find(onlookers, 1) == onlookers.end()) onlookers.clear();
  return onlookers;
}

OnlookerCrew::OnlookerCrew(PlannedBatch* batch, const BatchContext& context, int workers) : batch_(*batch) {
  for (int number = 0; number < workers; ++number) workers_.emplace_back(batch, context, number);
}

void OnlookerCrew::Run(int worker, UnitId unit) {
  Worker& own = workers_[worker];
  own.pace.Step();
  if (batch_.stopped()) return;
  const Task task = batch_.graph().onlookers[unit];
  try {
    own.machine.rows().Enter(task);
    batch_.Conclude(task, own.machine.Run(*batch_.CodeOf(task), batch_.Row(task), batch_.Position(task)), true);
  } catch (...) {
    batch_.Stop(std::current_exception());
  }
}

}  // namespace morphspark
