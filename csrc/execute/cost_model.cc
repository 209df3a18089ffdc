#include "execute/cost_model.h"

#include <algorithm>

namespace morphspark {
namespace {

constexpr double kLanesGainMin = 0.25;

// Until they are measured: times what whole transactions take.
constexpr double kPlanningOfUnit[kUnits] = {1.5, 2, 1, 1};
constexpr double kDispatchOfUnit[kUnits] = {1.5, 1, 1, 1};

int Index(Unit unit) { return static_cast<int>(unit); }

double SpanOf(Unit unit, const BatchStatistics& statistics) {
  if (unit == Unit::kOperation) return statistics.operation_span;
  return unit == Unit::kChain ? statistics.chain_span : statistics.transaction_span;
}

// Of an access, what is done for transactions that can't run in lanes.
double OneByOne(const BatchStatistics& statistics, const LearnedCosts& costs) {
  return (costs.serial + costs.Dispatch(Unit::kTransaction)) * (1 - statistics.lanes);
}

}  // namespace

double LanesPossible(const BatchStatistics& statistics, int workers) {
  return std::clamp(1 / std::max(statistics.transaction_span, 1e-6) / workers, 1.0, kLanesGainMax);
}

double LanesGained(const BatchStatistics& statistics, const LearnedCosts& costs, double busy) {
  const double work = costs.serial * statistics.lanes;
  const double in_lanes = busy - OneByOne(statistics, costs);
  return std::clamp(work / std::max(in_lanes, work / kLanesGainMax), kLanesGainMin, kLanesGainMax);
}

double LearnedCosts::Planning(Unit unit) const {
  const double own = planning[Index(unit)];
  return own > 0 ? own : kPlanningOfUnit[Index(unit)] * planning[Index(Unit::kTransaction)];
}

double LearnedCosts::Dispatch(Unit unit) const {
  const double own = dispatch[Index(unit)];
  return own > 0 ? own : kDispatchOfUnit[Index(unit)] * dispatch[Index(Unit::kTransaction)];
}

double PredictAccess(const Strategy& strategy, const BatchStatistics& statistics, const LearnedCosts& costs,
                     int workers, int64_t transactions) {
  if (strategy.scheme == Scheme::kSerial) return costs.serial;
  const double span = std::clamp(SpanOf(strategy.unit, statistics), 0.0, 1.0);
  const double equal_share = 1.0 / workers;
  double seconds = costs.Planning(strategy.unit);
  if (strategy.unit == Unit::kStratum) {
    const double gain = std::min(LanesPossible(statistics, workers), costs.lanes_gain);
    const double in_lanes = costs.serial * statistics.lanes / gain;
    seconds += std::max((OneByOne(statistics, costs) + in_lanes) * equal_share, costs.serial * span);
  } else {
    // What is taken back was done for nothing.
    const double redone = strategy.cuts() ? statistics.aborts : 0;
    seconds += (costs.serial * (1 + redone) + costs.Dispatch(strategy.unit)) * std::max(equal_share, span);
  }
  if (strategy.exploration == Exploration::kBfs) {
    const double strata = std::max(span * static_cast<double>(transactions), 1.0);
    seconds += costs.barrier * strata / (statistics.AccessesEach() * static_cast<double>(transactions));
  }
  return seconds;
}

}  // namespace morphspark
