// Chooses how each batch is run, and how large it is, from what batches like it took on this machine.
//
// What can be chosen are *arms*: a strategy and a size of batch. What a batch is like is its *context*: the mix of
// transactions, how much of it can run at once, how many abort, how large it is (batch_statistics.h). For each context
// the adviser keeps what an access took lately with each arm. Of five measurements the middle one counts, of fewer the
// lower: whatever disturbs a batch makes it slower, so one that was disturbed says nothing.
//
//     Decide(statistics, learned costs, records) → decision             a pure function
//
//   first look     nothing is known: a few transactions in order
//   calibration    what planning costs on this machine: a small batch, whatever may come of it; again, ever more
//                  rarely, where nothing is planned for long; sooner, where transactions take half of what they took
//   trial          an arm that was never run, if it could win by the model (cost_model.h), the most promising first.
//                  Relatives of an arm (another exploration, l-abort) are tried if that did well, sizes for the best,
//                  and larger batches where lanes came close: their strata are wider. An arm that ran only when
//                  the best took twice what it takes now is as good as one that never did
//   again          arms that were close, and `serial` in any case, a few transactions of it; ever more rarely, down to
//                  once in 4,096 decisions, the more so the more they took; but at once where the best takes more than
//                  when they were measured
//   best           else
//
// Where functions are cheap the model says that no graph can win, and none is made. If the best suddenly takes much
// more or less than it did, and does so again, all that is known of the others is forgotten. A context that is met for
// the first time borrows what the one before it knew. Where the model says that a batch differs from those that were
// measured, what they took is corrected by that. The batches of an epoch are alike, also the last one, however small.
//
// How many transactions a worker takes at once follows from what one takes: few dear ones, so that nobody waits for the
// last; many cheap ones, so that taking them costs little.
//
// Looking costs time, too: while the best is run and nothing is to be tried, as many batches go without a look as make
// it cheap. Batches with less work than a look is worth run in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "execute/batch_report.h"
#include "execute/cost_model.h"
#include "execute/strategy.h"

namespace morphspark {

enum class Why : uint32_t {
  kConfigured,   // the user named the strategy
  kFirstLook,    // what a transaction costs is not known yet
  kTrial,        // it could win, and was not tried on batches like this
  kBest,         // it took least on batches like this
  kAgain,        // it may have become the best since it was measured
  kUnplannable,  // the strategy can't run what the transactions do
  kSmall,        // too little work to be worth a thought
  kCalibration,  // what planning costs on this machine is not known yet
  kWhole,        // the transactions can't run in parts, so whole ones are the units
};

// The last few measurements.
class Recent {
 public:
  void Add(double seconds);
  // The middle one; of an even number the lower of the two in the middle. If the last two are somewhat above that, or
  // below, things have changed: the one nearer to it.
  double Estimate() const;
  // As if all had taken so many times as long.
  void Scale(double times);
  int count() const { return count_; }

 private:
  double Middle() const;

  static constexpr int kKept = 5;
  std::array<float, kKept> seconds_ = {};  // the newest first
  int count_ = 0;
};

struct Arm {
  Strategy strategy;
  int64_t transactions;  // at once
  int leader;            // tried only if this one did well; -1: always
  bool resized;          // another size of its leader
};
std::span<const Arm> Arms();

// What is known of an arm in a context.
struct ArmRecord {
  Recent seconds;         // per access
  bool borrowed = false;  // from the context before: the next measurement replaces it
  uint64_t last = 0;      // decision in which it ran last
  uint64_t patience = 8;  // decisions until it is tried again
  double beaten_by = 0;   // what the best took then; 0: not known

  bool known() const { return seconds.count() > 0; }
};

struct Decision {
  int arm;
  int64_t transactions;  // at most
  Why why;
  double predicted;  // seconds of an access
  double best = 0;   // the same of the arm that takes least; 0: not known
};

struct Situation {
  int workers = 1;
  int64_t punctuation = 0;  // transactions at once, if the user says so
  uint64_t decisions = 0;   // made so far
  bool calibrated = true;
};
Decision Decide(const BatchStatistics& statistics, const LearnedCosts& costs, std::span<const ArmRecord> records,
                const Situation& situation);

class Adviser {
 public:
  static constexpr uint64_t kPatienceMax = 4096;

  struct Advice {
    Strategy strategy;
    int64_t transactions;
    double predicted = 0;  // seconds
    Why why = Why::kConfigured;
    int arm = -1;  // -1: nothing is learned of it but what a transaction costs
    uint64_t context = 0;
    double accesses = 1;  // per transaction
    double best = 0;      // seconds of an access with the arm that takes least; 0: not known
    DecisionInputs inputs = {};
    uint32_t chunk = Crew::kUsualChunk;  // transactions that a worker takes at once
    bool tells = true;                   // are they enough to tell what the arm can do?
  };

  // Advice for a batch that needs no look, if it is one.
  std::optional<Advice> WithoutALook(int64_t ran, int64_t transactions, int64_t punctuation);
  // For the next transactions of an epoch. `punctuation`: how many at once, if the user says so.
  Advice Next(const BatchStatistics& statistics, int workers, int64_t punctuation);
  void Learn(const Advice& advice, const BatchReport& report, int workers);

  // For tests: from now on any arm for any few transactions, drawn from a seed.
  void Shake(uint64_t seed) { shaken_ = seed; }

 private:
  struct Context {
    std::vector<ArmRecord> records;  // by arm
    BatchStatistics like;            // the batches that its records are about
    double serial = 0;               // seconds of an access of theirs in order; 0: there are none
    int surprises = 0;               // in a row
  };

  // What lanes do for transactions of some types.
  struct InLanes {
    Recent share;       // of the work one by one
    Recent seconds;     // of an access
    uint64_t last = 0;  // decision in which that was measured
  };

  uint64_t Key(const BatchStatistics& statistics) const;
  Context& Enter(uint64_t key);
  void Smooth(BatchStatistics* statistics);
  void Refresh(const DecisionInputs& inputs, int workers, Context* context);
  double LanesGain(uint64_t types, double serial) const;
  void LearnLanes(const Advice& advice, double busy, int workers);
  void LearnRecord(const Advice& advice, double seconds, Context* context);
  Advice Shaken(const BatchStatistics& statistics, int64_t limit);
  void LearnCosts(const Advice& advice, const BatchReport& report, int workers);
  void LearnCalibration(double planning_before);

  static constexpr uint64_t kPatienceAtFirst = 64;  // with calibration

  std::unordered_map<uint64_t, Context> contexts_;
  uint64_t last_context_ = 0;
  uint64_t decisions_ = 0;
  LearnedCosts costs_;                           // `serial`: of the last context; `lanes_gain`: never
  std::unordered_map<uint64_t, InLanes> lanes_;  // by types
  Recent transaction_;                           // seconds of one in order, whatever it does
  int calibrations_ = 0;
  uint64_t planned_last_ = 0;                         // decision in which a graph was made last
  double serial_then_ = 0;                            // seconds of an access in order, of what it was made for
  uint64_t calibration_patience_ = kPatienceAtFirst;  // decisions without one, until what it costs is measured again
  double aborts_ = 0;
  std::array<double, 3> spans_ = {};  // of transactions, operations, chains, lately; 0: not known
  std::optional<Advice> last_best_;   // may be repeated without a look
  double unlooked_ = 0;               // seconds that may be run so
  std::optional<uint64_t> shaken_;
};

}  // namespace morphspark
