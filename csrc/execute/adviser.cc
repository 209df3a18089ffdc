#include "execute/adviser.h"

#include <bit>
#include <cmath>
#include <utility>

namespace morphspark {
namespace {

constexpr double kChunkSeconds = 40e-6;  // of what a worker takes at once
constexpr double kChunkMax = 64;
constexpr double kThoughtSeconds = 40e-6;   // work that is worth a thought
constexpr double kLookShare = 200;          // a look may take one of so many parts of the time
constexpr double kCheapLook = 20;           // the same of a batch that is no longer what it was
constexpr int64_t kFirstTransactions = 32;  // that tell what one costs, roughly
constexpr double kSerialSeconds = 300e-6;   // of `serial`, where it is only measured
constexpr int64_t kMixed = 256;             // transactions that show most of what there is
constexpr int64_t kCalibration = 1024;      // transactions that tell what planning costs
constexpr int kCalibrations = 2;            // the first of them finds no memory yet
constexpr double kTrialSeconds = 1e-3;      // a first trial is no larger than it needs to be, and
constexpr int64_t kTrialMin = 1024;         // no smaller than this; in lanes,
constexpr int64_t kTrialMinInLanes = 2048;  // where strata must be wide, than this
constexpr double kWorthATrial = 0.95;       // of the best, at least as good as this by the model
constexpr double kRelatives = 0.85;         // of an arm, at best
constexpr double kDidWell = 1.25;           // times the best, and its relatives are tried
constexpr double kPromising = 1.3;          // times the best: it may still win
constexpr double kSecondChance = 1.5;       // times the best at first, when it finds no memory yet, and caches are cold
constexpr double kClose = 1.12;             // times the best, and it is tried again now and then:
constexpr double kReluctance = 0.04;        // more than the best: half as often; twice that: a fifth
constexpr double kSlowTimes = 0.85;         // of what it took then, at least, where all took more
constexpr uint64_t kPatienceMin = 8;        // decisions until it is
constexpr double kWon = 0.98;               // of the best, and less is not by chance
constexpr double kWorse = 1.15;             // times what it was: the best has lost its lead, perhaps
constexpr double kHopeful = 0.8;            // of the best by the model, and measured
constexpr double kNotHopeless = 3;          // at most so many times the best: tried again now and then, too
constexpr double kOutdated = 2;             // times what it takes now, the best took then: nothing is known of others
constexpr double kLostMax = 2;              // times what the model says
constexpr int kRunsEnough = 2;
constexpr double kSurprise = 1.6;  // times what it was, or one of so many parts
constexpr double kDrift = 1.5;     // times what it was, twice, and less than this: it is so by now
constexpr double kOtherWorld = 4;  // the same: so much that nothing can be said of the others
constexpr int kSurprises = 2;      // in a row
constexpr double kSomeAborts = 0.02;
constexpr int64_t kAbortsOver = 1024;  // transactions whose aborts are remembered
constexpr size_t kContextsMax = 512;
constexpr double kGrow = 0.1;         // how fast costs follow what is measured
constexpr double kWideEnough = 0.7;   // of what strata allow: lanes gained less, so it is not for the strata
constexpr double kSpansFollow = 0.3;  // how fast spans follow those of samples
constexpr double kModelTrust = 2;     // the model tells no difference larger than this
constexpr double kLanesGainUsual = 4;
constexpr double kLanesForgotten = 1024;  // decisions until twice as much is hoped for

constexpr std::array<int64_t, 3> kSizes = {8192, 2048, 1 << 16};  // the usual one first
constexpr int kSerial = 0;

std::vector<Arm> MakeArms() {
  std::vector<Arm> arms{{Strategy{}, kSizes[2], -1, false}};
  const auto add = [&](Exploration exploration, Unit unit, Abort abort, int leader) {
    const Strategy strategy{Scheme::kExplore, exploration, unit, abort};
    const int usual = static_cast<int>(arms.size());
    arms.push_back({strategy, kSizes[0], leader, false});
    for (int64_t size : {kSizes[1], kSizes[2]}) arms.push_back({strategy, size, usual, true});
    return usual;
  };
  add(Exploration::kBfs, Unit::kStratum, Abort::kEager, -1);
  for (Unit unit : {Unit::kTransaction, Unit::kOperation, Unit::kChain}) {
    const int leader = add(Exploration::kNs, unit, Abort::kEager, -1);
    for (Exploration exploration : {Exploration::kBfs, Exploration::kDfs})
      add(exploration, unit, Abort::kEager, leader);
    if (unit == Unit::kTransaction) continue;  // settled before anybody reads it: nothing is ever taken back
    for (Exploration exploration : {Exploration::kNs, Exploration::kBfs, Exploration::kDfs})
      add(exploration, unit, Abort::kLazy, leader);
  }
  return arms;
}

// Planned to learn what planning costs: whole transactions by join counters.
int CalibrationArm() {
  static const int arm = [] {
    const auto plain = [](const Arm& one) {
      return one.strategy.scheme == Scheme::kExplore && one.strategy.exploration == Exploration::kNs &&
             one.strategy.unit == Unit::kTransaction && !one.resized;
    };
    return static_cast<int>(std::ranges::find_if(Arms(), plain) - Arms().begin());
  }();
  return arm;
}

// Equal parts of about a size, so that no crumb is left.
int64_t EvenBatch(int64_t transactions, int64_t size) {
  const int64_t batches = std::max<int64_t>((transactions + size / 2) / size, 1);
  return (transactions + batches - 1) / batches;
}

bool InLanes(int arm) { return Arms()[arm].strategy.unit == Unit::kStratum; }

// Does what keeps one from what it could reach keep the other, too: uneven shares, waiting?
bool Alike(int arm, int other) {
  return arm != kSerial && other != kSerial && !InLanes(arm) && !InLanes(other) &&
         Arms()[arm].strategy.cuts() == Arms()[other].strategy.cuts();
}

// Transactions that tell what an arm can do.
int64_t Enough(int arm) { return InLanes(arm) ? kTrialMinInLanes : kTrialMin; }

// What is left of an epoch may be few, where most of it was run; but not where there never are more.
bool Tell(int arm, int64_t transactions, int64_t together, int64_t punctuation) {
  const int64_t usual = punctuation > 0 ? std::min(punctuation, together) : together;
  return arm == kSerial || transactions >= std::min(Enough(arm), usual) / 2;
}

int64_t ForSeconds(double seconds, double access, const BatchStatistics& statistics) {
  const double each = access * statistics.AccessesEach();
  return each <= 0 ? 0 : static_cast<int64_t>(std::min(std::ceil(seconds / each), 1e9));
}

uint32_t ChunkOf(double transaction_seconds) {
  if (transaction_seconds <= 0) return Crew::kUsualChunk;
  return static_cast<uint32_t>(std::clamp(kChunkSeconds / transaction_seconds, 1.0, kChunkMax));
}

int64_t SizeBucket(int64_t transactions) {
  return std::clamp<int64_t>((std::bit_width(static_cast<uint64_t>(std::max<int64_t>(transactions, 1))) - 1) / 2, 0, 6);
}

uint64_t SpanBucket(double span) {
  return static_cast<uint64_t>(std::clamp<int64_t>(std::lround(-std::log2(std::max(span, 1e-6))), 0, 6));
}

// Did the best take so much more when it was measured that transactions were others, probably?
bool Outdated(const ArmRecord& record, double least) { return record.beaten_by > kOutdated * least; }

// The choice itself, with names for what it is made from.
class Chooser {
 public:
  Chooser(const BatchStatistics& statistics, const LearnedCosts& costs, std::span<const ArmRecord> records,
          const Situation& situation)
      : statistics_(statistics), costs_(costs), records_(records), situation_(situation) {}

  Decision Choose() const {
    if (records_[kSerial].seconds.count() < kRunsEnough) return {kSerial, FirstLook(), Why::kFirstLook, costs_.serial};
    if (!situation_.calibrated) {
      const int arm = CalibrationArm();
      return {arm, kCalibration, Why::kCalibration, Predicted(arm)};
    }
    const int best = Best();
    std::optional<Decision> decision = Trial(best);
    if (!decision) decision = Again(best);
    if (!decision) decision = Decision{best, FullSize(best), Why::kBest, Estimate(best)};
    decision->best = Estimate(best);
    return *decision;
  }

 private:
  double Estimate(int arm) const { return records_[arm].seconds.Estimate(); }

  double Predicted(int arm) const {
    return PredictAccess(Arms()[arm].strategy, statistics_, costs_, situation_.workers, FullSize(arm));
  }

  // The same, where it is like the best, which may be far from what it could reach.
  double Expected(int arm, int best) const {
    const double lost = Alike(arm, best) ? std::clamp(Estimate(best) / Predicted(best), 1.0, kLostMax) : 1;
    return lost * Predicted(arm);
  }

  int Best() const {
    int best = kSerial;
    for (int arm = 0; arm < static_cast<int>(records_.size()); ++arm) {
      if (records_[arm].known() && Possible(arm) && Estimate(arm) < Estimate(best)) best = arm;
    }
    return best;
  }

  bool Possible(int arm) const {
    const Arm& one = Arms()[arm];
    if (one.strategy.cuts() && !statistics_.may_cut) return false;
    if (InLanes(arm) && statistics_.lanes == 0) return false;
    if (!one.resized) return true;
    const int64_t together = statistics_.Together();
    return situation_.punctuation <= 0 &&
           EvenBatch(together, one.transactions) != EvenBatch(together, Arms()[one.leader].transactions);
  }

  int64_t FullSize(int arm) const { return EvenBatch(statistics_.transactions, Arms()[arm].transactions); }
  int64_t SerialLook() const {
    return std::max(ForSeconds(kSerialSeconds, costs_.serial, statistics_), kFirstTransactions);
  }
  // Those that are rare and dear must have their share in it.
  int64_t SerialLookAgain() const { return std::max(SerialLook(), std::min(kMixed, FullSize(kSerial) / 4)); }
  int64_t FirstLook() const { return records_[kSerial].known() ? SerialLookAgain() : SerialLook(); }

  // What an arm that never ran could reach; nothing where it is not its turn.
  std::optional<double> Hope(int arm, int best) const {
    const Arm& one = Arms()[arm];
    const double least = Estimate(best);
    if (one.resized) {
      const bool of_best = one.leader == best || (Arms()[best].resized && Arms()[best].leader == one.leader);
      if (of_best) return kRelatives * least;
      // Strata of larger batches are wider, and lanes may win there only.
      const bool wider = InLanes(arm) && one.transactions > Arms()[one.leader].transactions;
      return wider && records_[one.leader].known() ? std::optional(kRelatives * Estimate(one.leader)) : std::nullopt;
    }
    const double expected = Expected(arm, best);
    if (one.leader < 0) return expected;
    if (one.strategy.abort == Abort::kLazy && statistics_.aborts < kSomeAborts) return std::nullopt;
    if (!records_[one.leader].known() || Estimate(one.leader) > kDidWell * least) return std::nullopt;
    return std::max(Predicted(arm), kRelatives * Estimate(one.leader));
  }

  std::optional<Decision> Trial(int best) const {
    const double least = Estimate(best);
    std::optional<Decision> most_promising;
    for (int arm = 1; arm < static_cast<int>(records_.size()); ++arm) {
      if (!Possible(arm)) continue;
      const ArmRecord& record = records_[arm];
      if (record.known() && (arm == best || !Outdated(record, least))) {
        if (record.seconds.count() >= kRunsEnough || record.borrowed || arm == best) continue;
        const double own = Estimate(arm);
        if (own < (Arms()[arm].resized ? kPromising : kSecondChance) * least)
          return Decision{arm, own < kClose * least ? FullSize(arm) : TrialSize(arm, own), Why::kTrial, own};
        // Far from what it should reach: it may have been disturbed.
        const double expected = Expected(arm, best);
        if (!Arms()[arm].resized && expected < kHopeful * least)
          return Decision{arm, TrialSize(arm, expected), Why::kTrial, Estimate(arm)};
        continue;
      }
      const auto hope = Hope(arm, best);
      if (!hope || *hope >= kWorthATrial * least) continue;
      if (!most_promising || *hope < most_promising->predicted)
        most_promising = Decision{arm, TrialSize(arm, *hope), Why::kTrial, *hope};
    }
    return most_promising;
  }

  int64_t TrialSize(int arm, double hope) const {
    const Arm& one = Arms()[arm];
    if (one.resized) return FullSize(arm);
    return std::min(std::max(Enough(arm), ForSeconds(kTrialSeconds, hope, statistics_)), FullSize(arm));
  }

  // What an arm would take now. Where the best took more when it was measured, so did everything, perhaps.
  double Nowadays(int arm, double least) const {
    const double then = records_[arm].beaten_by;
    return Estimate(arm) * (then > 0 ? std::clamp(least / then, kSlowTimes, 1.0) : 1);
  }

  // In decisions: the more is probably lost, the more rarely.
  static uint64_t Patience(const ArmRecord& record, double own, double least) {
    const double lost = std::clamp(own / least, 1.0, kPromising) - 1;
    const double patience = static_cast<double>(record.patience) * (1 + std::pow(lost / kReluctance, 2));
    return static_cast<uint64_t>(std::min(patience, static_cast<double>(Adviser::kPatienceMax)));
  }

  std::optional<Decision> Again(int best) const {
    const double least = Estimate(best);
    for (int arm = 0; arm < static_cast<int>(records_.size()); ++arm) {
      const ArmRecord& record = records_[arm];
      if (arm == best || !record.known() || !Possible(arm)) continue;
      const bool worse = record.beaten_by > 0 && least > kWorse * record.beaten_by;  // the best, since then
      const double own = Estimate(arm);
      const double nowadays = Nowadays(arm, least);
      const uint64_t patience = Patience(record, arm == kSerial ? least : nowadays, least);
      if (!worse && situation_.decisions - record.last <= patience) continue;
      // A short look tells more than a batch takes: caches are cold.
      if (arm == kSerial)
        return Decision{arm, own < kPromising * least ? FullSize(arm) : SerialLookAgain(), Why::kAgain, own};
      const bool close = nowadays < kClose * least;
      const bool hopeful = own < kNotHopeless * least && !Arms()[arm].resized && Expected(arm, best) < kHopeful * least;
      if (!close && !hopeful) continue;
      // Nothing is risked on what is only hoped, or was true elsewhere.
      const bool sure = own < kClose * least && !record.borrowed;
      const int64_t transactions = sure ? FullSize(arm) : TrialSize(arm, own);
      return Decision{arm, transactions, Why::kAgain, own};
    }
    return std::nullopt;
  }

  const BatchStatistics& statistics_;
  const LearnedCosts& costs_;
  std::span<const ArmRecord> records_;
  const Situation& situation_;
};

// Down at once, up slowly: what disturbs adds to costs, and takes nothing away.
void Follow(double measured, double* cost) {
  if (measured <= 0) return;
  if (*cost <= 0 || measured < *cost) *cost = measured;
  *cost += kGrow * std::min(measured - *cost, *cost);
}

}  // namespace

void Recent::Add(double seconds) {
  std::shift_right(seconds_.begin(), seconds_.end(), 1);
  seconds_[0] = static_cast<float>(seconds);
  count_ = std::min(count_ + 1, kKept);
}

void Recent::Scale(double times) {
  for (float& one : seconds_) one *= static_cast<float>(times);
}

double Recent::Estimate() const {
  const double middle = Middle();
  if (count_ < 3) return middle;
  const auto [less, more] = std::minmax(seconds_[0], seconds_[1]);
  if (less > middle && more < kDrift * middle) return less;
  if (more < middle && kDrift * less > middle) return more;
  return middle;
}

double Recent::Middle() const {
  if (count_ == 0) return 0;
  const auto middle = static_cast<int64_t>((count_ - 1) / 2);
  for (int i = 0; i < count_; ++i) {
    const auto end = seconds_.begin() + count_;
    const int64_t smaller = std::count_if(seconds_.begin(), end, [&](float one) { return one < seconds_[i]; });
    const int64_t as_small = std::count_if(seconds_.begin(), end, [&](float one) { return one <= seconds_[i]; });
    if (smaller <= middle && middle < as_small) return seconds_[i];
  }
  return 0;  // not reached: one of them is in the middle
}

std::span<const Arm> Arms() {
  static const auto* arms = new std::vector<Arm>(MakeArms());
  return *arms;
}

Decision Decide(const BatchStatistics& statistics, const LearnedCosts& costs, std::span<const ArmRecord> records,
                const Situation& situation) {
  return Chooser(statistics, costs, records, situation).Choose();
}

uint64_t Adviser::Key(const BatchStatistics& statistics) const {
  uint64_t key = statistics.mix;
  key = key * 31 + static_cast<uint64_t>(SizeBucket(statistics.Together()));
  key = key * 31 + SpanBucket(statistics.transaction_span);
  key = key * 31 + SpanBucket(statistics.operation_span);
  key = key * 31 + static_cast<uint64_t>(std::lround(std::min(statistics.AccessesEach(), 64.0)));
  return key * 31 + static_cast<uint64_t>(std::lround(statistics.aborts * 4));
}

// A context that is met for the first time starts with what the one before it knew. Whether that is worth something
// shows when its best runs.
Adviser::Context& Adviser::Enter(uint64_t key) {
  if (contexts_.size() > kContextsMax) contexts_.clear();
  auto found = contexts_.find(key);
  if (found == contexts_.end()) {
    Context context;  // whole before it is listed: there may be no memory for its records
    const auto before = contexts_.find(last_context_);
    if (before != contexts_.end()) context = before->second;
    context.surprises = 0;
    context.records.resize(Arms().size());
    for (ArmRecord& record : context.records) record.borrowed = record.known();
    found = contexts_.emplace(key, std::move(context)).first;
  }
  last_context_ = key;
  return found->second;
}

// A sample of a few hundred transactions has few that wait for each other: by chance twice as many, or half.
void Adviser::Smooth(BatchStatistics* statistics) {
  double* const spans[] = {&statistics->transaction_span, &statistics->operation_span, &statistics->chain_span};
  for (int i = 0; i < 3; ++i) {
    const double now = std::max(*spans[i], 1e-6);
    double& known = spans_[i];
    known = known <= 0 || now > kOtherWorld * known || known > kOtherWorld * now
                ? now
                : known * std::pow(now / known, kSpansFollow);
    *spans[i] = known;
  }
}

// What was measured on other batches, as the model tells the difference: by what they are like and what their
// transactions cost. What has been learned about the machine since is in the measurements already.
void Adviser::Refresh(const DecisionInputs& inputs, int workers, Context* context) {
  LearnedCosts costs = inputs.costs;
  costs.lanes_gain = kLanesGainUsual;
  LearnedCosts costs_then = costs;
  costs_then.serial = std::exchange(context->serial, costs.serial);
  const BatchStatistics then = std::exchange(context->like, inputs.statistics);
  if (costs_then.serial <= 0) return;
  const auto model = [&](const Arm& arm, const BatchStatistics& statistics, const LearnedCosts& own) {
    return PredictAccess(arm.strategy, statistics, own, workers, EvenBatch(statistics.Together(), arm.transactions));
  };
  for (int arm = 1; arm < static_cast<int>(Arms().size()); ++arm) {
    ArmRecord& record = context->records[arm];
    if (!record.known()) continue;
    const double times = model(Arms()[arm], inputs.statistics, costs) / model(Arms()[arm], then, costs_then);
    record.seconds.Scale(std::clamp(times, 1 / kModelTrust, kModelTrust));
  }
}

// The most until it is known; then ever more hope, as what the transactions do may have changed. If it is known better
// by now what they take one by one, lanes have gained more; or else they may gain as much as they did.
double Adviser::LanesGain(uint64_t types, double serial) const {
  const auto found = lanes_.find(types);
  if (found == lanes_.end() || found->second.share.count() < kRunsEnough) return kLanesGainMax;
  const double hope = std::exp2(static_cast<double>(decisions_ - found->second.last) / kLanesForgotten);
  const double gained = std::max(1 / found->second.share.Estimate(), serial / found->second.seconds.Estimate());
  return std::min(hope * gained, kLanesGainMax);
}

std::optional<Adviser::Advice> Adviser::WithoutALook(int64_t ran, int64_t transactions, int64_t punctuation) {
  if (shaken_) return std::nullopt;
  const int64_t limit = punctuation > 0 ? std::min(punctuation, transactions) : transactions;
  const double work = transaction_.Estimate() * static_cast<double>(limit);
  if (transaction_.count() > 0 && work < kThoughtSeconds)
    return Advice{.strategy = {}, .transactions = limit, .predicted = work, .why = Why::kSmall};
  if (unlooked_ <= 0 || !last_best_) return std::nullopt;
  Advice advice = *last_best_;
  const int64_t together = ran + transactions;
  if (SizeBucket(together) != SizeBucket(advice.inputs.statistics.Together())) return std::nullopt;
  ++decisions_;
  const double each = advice.predicted / static_cast<double>(advice.transactions);
  advice.transactions = std::min(EvenBatch(transactions, Arms()[advice.arm].transactions), limit);
  advice.predicted = each * static_cast<double>(advice.transactions);
  advice.tells = Tell(advice.arm, advice.transactions, together, punctuation);
  return advice;
}

Adviser::Advice Adviser::Next(const BatchStatistics& looked, int workers, int64_t punctuation) {
  ++decisions_;
  const int64_t left = looked.transactions;
  const int64_t limit = punctuation > 0 ? std::min(punctuation, left) : left;
  if (shaken_) return Shaken(looked, limit);
  DecisionInputs inputs{looked, costs_};
  inputs.statistics.aborts = aborts_;
  Smooth(&inputs.statistics);
  const double accesses = looked.AccessesEach();
  const uint64_t key = Key(inputs.statistics);
  Context& context = Enter(key);
  const Recent& serial = context.records[kSerial].seconds;
  inputs.costs.serial = serial.count() > 0 ? serial.Estimate() : transaction_.Estimate() / accesses;
  inputs.costs.lanes_gain = LanesGain(looked.types, inputs.costs.serial);
  Refresh(inputs, workers, &context);
  const bool others = serial_then_ > kOutdated * inputs.costs.serial;  // than were planned last
  const uint64_t patience = others ? kPatienceAtFirst : calibration_patience_;
  const bool calibrated = calibrations_ >= kCalibrations && decisions_ - planned_last_ < patience;
  const Situation situation{workers, punctuation, decisions_, calibrated};
  const Decision decision = Decide(inputs.statistics, inputs.costs, context.records, situation);
  int64_t transactions = std::min(decision.transactions, limit);
  // What would be left is too little work for a batch of its own.
  const double rest = static_cast<double>(left - transactions) * accesses * decision.predicted;
  if (punctuation <= 0 && transaction_.count() > 0 && rest < kThoughtSeconds) transactions = left;
  const double predicted = decision.predicted * accesses * static_cast<double>(transactions);
  Advice advice{Arms()[decision.arm].strategy,
                transactions,
                predicted,
                decision.why,
                decision.arm,
                key,
                accesses,
                decision.best,
                inputs};
  advice.chunk = ChunkOf(inputs.costs.serial * accesses);
  advice.tells = Tell(decision.arm, transactions, looked.Together(), punctuation);
  last_best_.reset();
  if (decision.why == Why::kBest) {
    last_best_ = advice;
    unlooked_ = kLookShare * looked.seconds;
  }
  return advice;
}

Adviser::Advice Adviser::Shaken(const BatchStatistics& statistics, int64_t limit) {
  constexpr uint64_t kMost = 7;
  uint64_t drawn = (*shaken_ + decisions_) * 0x9E3779B97F4A7C15u;
  drawn ^= drawn >> 29;
  drawn *= 0xBF58476D1CE4E5B9u;
  drawn ^= drawn >> 32;
  Strategy strategy = Arms()[drawn % Arms().size()].strategy;
  if (strategy.cuts() && !statistics.may_cut) strategy.unit = Unit::kTransaction;
  const auto few = static_cast<int64_t>(1 + (drawn >> 32) % kMost);
  return {
      .strategy = strategy, .transactions = std::min(few, limit), .why = Why::kTrial, .inputs = {statistics, costs_}};
}

// Planning depends on what transactions do, as it computes rows: what whole ones take more or less than before, other
// units do, too.
void Adviser::LearnCalibration(double planning_before) {
  const auto whole = static_cast<size_t>(Unit::kTransaction);
  const double times = planning_before > 0 ? costs_.planning[whole] / planning_before : 1;
  for (size_t unit = 0; unit < kUnits; ++unit) {
    if (unit != whole) costs_.planning[unit] *= times;
  }
  if (++calibrations_ <= kCalibrations) return;
  calibration_patience_ = kOutdated * times < 1 ? kPatienceAtFirst : std::min(2 * calibration_patience_, kPatienceMax);
}

void Adviser::LearnCosts(const Advice& advice, const BatchReport& report, int workers) {
  const auto accesses = static_cast<double>(report.accesses + report.onlookers);  // as statistics count them
  const auto unit = static_cast<size_t>(advice.strategy.unit);
  Follow((report.plan + report.construct + report.install) / accesses, &costs_.planning[unit]);
  const double busy = (report.explore * workers - report.waiting) / accesses;
  // At least a bit: 0 is what is not known.
  if (advice.strategy.unit == Unit::kStratum) {
    LearnLanes(advice, busy, workers);
  } else if (advice.inputs.costs.serial > 0) {
    Follow(std::max(busy - advice.inputs.costs.serial, 1e-9), &costs_.dispatch[unit]);
  }
  if (report.levels > 0 && advice.strategy.exploration == Exploration::kBfs)
    Follow(report.waiting / workers / report.levels, &costs_.barrier);
}

void Adviser::Learn(const Advice& advice, const BatchReport& report, int workers) {
  if (report.transactions == 0) return;
  const auto transactions = static_cast<double>(report.transactions);
  const double aborts = static_cast<double>(report.aborted) / transactions;
  aborts_ += std::min(transactions / kAbortsOver, 1.0) * (aborts - aborts_);
  unlooked_ -= report.seconds;
  if (advice.strategy.scheme == Scheme::kSerial) transaction_.Add(report.seconds / transactions);
  const double planning = costs_.planning[static_cast<size_t>(Unit::kTransaction)];
  if (report.accesses + report.onlookers > 0 && advice.strategy.scheme == Scheme::kExplore)
    LearnCosts(advice, report, workers);
  if (advice.strategy.scheme != Scheme::kSerial) {
    planned_last_ = decisions_;
    serial_then_ = advice.inputs.costs.serial;
  }
  if (advice.why == Why::kCalibration) {
    LearnCalibration(planning);
    return;  // too small to tell what the arm can do
  }
  const auto found = contexts_.find(advice.context);
  if (advice.arm < 0 || !advice.tells || found == contexts_.end()) return;
  LearnRecord(advice, report.seconds / (transactions * advice.accesses), &found->second);
}

void Adviser::LearnLanes(const Advice& advice, double busy, int workers) {
  const BatchStatistics& statistics = advice.inputs.statistics;
  if (advice.inputs.costs.serial <= 0 || statistics.lanes <= 0) return;
  const double gained = LanesGained(statistics, advice.inputs.costs, busy);
  const double possible = LanesPossible(statistics, workers);
  // Thin strata don't tell what wide ones would do.
  if (gained > kWideEnough * possible && gained < advice.inputs.costs.lanes_gain) return;
  if (lanes_.size() > kContextsMax) lanes_.clear();
  InLanes& known = lanes_[statistics.types];
  known.share.Add(1 / gained);
  known.seconds.Add(advice.inputs.costs.serial / gained);
  known.last = decisions_;
}

void Adviser::LearnRecord(const Advice& advice, double seconds, Context* context) {
  ArmRecord& record = context->records[advice.arm];
  const double before = record.seconds.Estimate();
  const bool best = advice.why == Why::kBest, borrowed = record.borrowed;
  const bool outdated = advice.why == Why::kTrial && Outdated(record, advice.best);
  const double times = before > 0 ? std::max(seconds / before, before / seconds) : 1;
  const bool surprise = best && times > kSurprise && (borrowed || record.seconds.count() >= kRunsEnough);
  if (best) context->surprises = surprise ? context->surprises + 1 : 0;
  const double batch = seconds * advice.accesses * static_cast<double>(advice.transactions);
  const bool cheap = kCheapLook * advice.inputs.statistics.seconds < batch;
  if (surprise && (cheap || context->surprises >= kSurprises)) last_best_.reset();
  record.last = decisions_;
  if (surprise && borrowed && context->surprises < kSurprises) return;  // it may have been disturbed: once more
  if (borrowed || outdated) record.seconds = Recent();
  // Of the best, what it took elsewhere counts as one measurement: if this one was disturbed, it stays the best.
  if (borrowed && best && !surprise) record.seconds.Add(before);
  record.borrowed = false;
  record.seconds.Add(seconds);
  record.beaten_by = advice.best;
  // Another look at `serial` tells what it takes, not that batches have changed: if they have, the best tells.
  if (advice.arm == kSerial && !borrowed) context->serial = record.seconds.Estimate();
  // Who has won is tried again at once: it takes more than one measurement to believe it.
  const bool won = seconds < kWon * advice.best;
  if (advice.why == Why::kAgain)
    record.patience = won ? 1 : std::clamp(2 * record.patience, kPatienceMin, kPatienceMax);
  if (best && !surprise && before > 0) {
    // A bit more or less than there: so will those like it.
    for (int other = 0; other < static_cast<int>(context->records.size()); ++other) {
      ArmRecord& one = context->records[other];
      if (one.borrowed && Alike(advice.arm, other)) one.seconds.Scale(record.seconds.Estimate() / before);
    }
  }
  if (surprise && borrowed && times < kOtherWorld) {
    // It takes somewhat more or less here than there, and so will the others: old figures must not make them look good.
    for (ArmRecord& other : context->records) {
      if (!other.borrowed) continue;
      other.seconds.Scale(seconds / before);
      other.beaten_by *= seconds / before;
    }
  } else if (surprise && (borrowed || context->surprises >= kSurprises)) {
    // Not what it was: what is known of the others is worth no more.
    context->records.assign(context->records.size(), ArmRecord());
    context->records[advice.arm].seconds.Add(seconds);
    context->records[advice.arm].last = decisions_;
  } else {
    return;
  }
  context->surprises = 0;
}

}  // namespace morphspark
