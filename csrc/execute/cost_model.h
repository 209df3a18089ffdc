// What a batch will take, as a pure function of what it is like and of what things cost on this machine:
//
//     planning + (work + dispatch) × max(1 / workers, span)         for each access
//
// `serial` needs no graph: its work is all there is. v-schedule divides the work by what lanes gain, which nobody knows
// before transactions of these types ran in lanes: until then the model supposes the most. So a prediction is what an
// arm could reach, and says which arms are worth a trial.
#pragma once

#include <array>

#include "execute/batch_statistics.h"
#include "execute/strategy.h"

namespace morphspark {

inline constexpr int kUnits = 4;
inline constexpr double kLanesGainMax = 16;

// Seconds; 0: not known yet.
struct LearnedCosts {
  double serial = 0;                         // of an access in order, of batches like this
  std::array<double, kUnits> planning = {};  // by unit, of an access: links, units, versions
  std::array<double, kUnits> dispatch = {};  // by unit, of an access: what a worker needs beyond `serial`
  double barrier = 0;                        // of a stratum
  double lanes_gain = kLanesGainMax;         // times faster than one by one, where strata are wide enough

  // Of a unit that never ran, from what whole transactions took.
  double Planning(Unit unit) const;
  double Dispatch(Unit unit) const;
};

// Seconds of an access in a batch of so many transactions.
double PredictAccess(const Strategy& strategy, const BatchStatistics& statistics, const LearnedCosts& costs,
                     int workers, int64_t transactions);

// What lanes could gain with strata of this width: there are no more of them than transactions.
double LanesPossible(const BatchStatistics& statistics, int workers);
// What they did gain, from the seconds that an access kept a worker busy.
double LanesGained(const BatchStatistics& statistics, const LearnedCosts& costs, double busy);

// What a decision was made from.
struct DecisionInputs {
  BatchStatistics statistics;
  LearnedCosts costs;
};

}  // namespace morphspark
