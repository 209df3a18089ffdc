// Chooses how each batch is run, from what batches like it took on this machine.
//
// What can be chosen is a short list of *arms*: a strategy and a size of batch. What a batch is like is its *context*:
// the mix of transactions, how often a sample of it meets the same rows, how many of the last batch aborted. For each
// context the adviser keeps what an access took with each arm (long transactions take longer, whatever the arm), a
// moving average of measured times. So it needs no model of a workload or a machine, only a bound that spares it most
// trials:
//
//     no arm can take less than planning does, plus its share of the work that `serial` takes alone
//
// Both are measured: what a transaction costs by a first look at some thousand, what planning costs by one small batch
// that is planned whatever may come of it (calibration), and both from then on by every batch that runs so.
//
// Where functions are cheap that bound is above `serial`, and nothing else is ever tried. Otherwise arms that could
// win are tried on two small batches each (of which the faster counts: whatever disturbs a batch makes it slower),
// large batches only for those that did well. Afterwards the best runs, others that were close are tried again now and
// then, those that were not, but could win, ever more rarely. If the best is suddenly much slower than it was, all are.
// While all goes as expected, most batches are not even looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "execute/planned_run.h"
#include "execute/strategy.h"

namespace morphspark {

enum class Why : uint32_t {
  kConfigured,   // the user named the strategy
  kFirstLook,    // what a transaction costs is not known yet
  kTrial,        // it could win, and was not tried on batches like this
  kBest,         // it took least on batches like this
  kAgain,        // it was close to the best, a while ago
  kUnplannable,  // the strategy can't run what the transactions do
  kSmall,        // too few transactions to be worth a thought
  kCalibration,  // what planning costs on this machine is not known yet
  kWhole,        // the transactions can't run in parts, so whole ones are the units
};

// What a batch is like, found without its graph.
struct BatchFeatures {
  int64_t transactions = 0;
  double accesses = 0;       // per transaction, of a sample
  double same_row = 0;       // share of the sample that meets the row most often met
  double distinct_rows = 0;  // share of the sample's accesses that meet a row for the first time
  uint32_t mix = 0;          // which transactions, roughly
};
BatchFeatures LookAtBatch(const PlanInput& input, int64_t begin, int64_t end);

class Adviser {
 public:
  struct Advice {
    Strategy strategy;
    int64_t transactions;
    double predicted = 0;  // seconds
    Why why = Why::kConfigured;
    int arm = 0;
    uint64_t context = 0;
    double accesses = 1;  // per transaction
    DecisionInputs inputs = {};
  };

  // Advice for the next of the batches that need no look.
  std::optional<Advice> WithoutALook(int64_t transactions, int64_t punctuation);
  // For the next transactions of an epoch. `punctuation`: how many at once, if the user says so.
  Advice Next(const BatchFeatures& features, int workers, int64_t punctuation);
  void Learn(const Advice& advice, const BatchReport& report);

 private:
  struct Arm {
    Strategy strategy;
    int64_t transactions;  // at once
    double gain;           // at most so many times faster per worker than serial
    int after;             // tried only if this one did well; -1: always
  };
  static constexpr uint64_t kPatience = 256;
  struct Record {
    double seconds = 0;  // per access
    uint32_t runs = 0;
    uint64_t last = 0;              // decision in which it ran last
    uint64_t patience = kPatience;  // decisions until it is tried again, where it is not close to the best
  };
  struct Choice {
    int arm;
    int64_t transactions;  // at most
    Why why;
  };
  struct Context {
    std::vector<Record> records;  // by arm
    int slow = 0;                 // how often in a row the best took much longer than it should
    bool inherited = false;       // nothing was measured in it yet
  };

  static const std::vector<Arm>& Arms();
  uint64_t Key(const BatchFeatures& features) const;
  Context& Enter(uint64_t key);
  int Best(const Context& context) const;
  double Bound(const Context& context, int arm, int workers) const;
  bool NothingCouldWin(const Context& context, int workers) const;
  Choice Choose(Context* context, const BatchFeatures& features, int workers, int64_t punctuation);
  // An arm to be tried before the best runs again.
  std::optional<Choice> FindTrial(Context* context, const BatchFeatures& features, int workers, int64_t punctuation,
                                  int best);
  // Of the context that was entered last.
  Advice Advise(const Context& context, int arm, int64_t transactions, Why why) const;

  std::unordered_map<uint64_t, Context> contexts_;
  uint64_t last_context_ = 0;
  uint64_t decisions_ = 0;
  double overhead_ = 0;    // of planning and installing, seconds per access
  int calibrations_ = 0;   // how often it was measured for its own sake
  double aborts_ = 0;      // share of the last batch
  int unlooked_ = 0;       // batches that need no look
  int steady_ = 0;         // looks in a row that found the best to be best, all in one context
  DecisionInputs inputs_;  // when looked at last
};

}  // namespace morphspark
