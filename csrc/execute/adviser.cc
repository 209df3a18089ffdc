#include "execute/adviser.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace morphspark {
namespace {

constexpr int64_t kSmall = 256;         // transactions that are never worth a thought
constexpr int64_t kFirstLook = 4096;    // transactions that tell what one costs
constexpr int64_t kCalibration = 2048;  // transactions that tell what planning costs
constexpr int64_t kTrialBatch = 8192;
constexpr int64_t kLargeBatch = 1 << 16;
constexpr double kWorthATrial = 0.9;  // of the best, at least as good as this by its bound
constexpr double kDidWell = 1.5;      // times the best, and its larger batches are tried
constexpr double kClose = 1.3;        // times the best, and it is tried again now and then
constexpr uint32_t kRunsEnough = 2;   // measurements are noisy: of close ones, so many at least
constexpr uint64_t kDecisionsBetween = 64;
constexpr double kNewest = 0.3;  // weight of the newest measurement
constexpr double kMuchSlower = 1.6;
constexpr int kSlowInARow = 2;
constexpr size_t kContextsMax = 512;
constexpr int kUnlooked = 15;  // batches in a row
constexpr int64_t kSample = 128;

uint64_t Bucket(double share) {
  return share <= 0 ? 0 : static_cast<uint64_t>(std::clamp(std::log2(share) + 16, 0.0, 15.0));
}

}  // namespace

BatchFeatures LookAtBatch(const PlanInput& input, int64_t begin, int64_t end) {
  BatchFeatures features;
  features.transactions = end - begin;
  const int64_t step = std::max<int64_t>((end - begin) / kSample, 1);
  std::vector<uint64_t> rows;
  std::vector<uint32_t> types(input.code.transactions.size() + 1, 0);
  int64_t looked = 0;
  for (int64_t position = begin; position < end; position += step, ++looked) {
    const bool keyed = position < input.order.keyed;
    const BatchRow row = input.order.Row(position);
    const TransactionId id = keyed ? input.transactions[row] : kUnmatched;
    ++types[id == kUnmatched ? 0 : id + 1];
    if (id == kUnmatched) continue;
    for (const SiteUse& use : input.code.transactions[id].uses) {
      const Site& site = input.code.sites[use.site];
      if (!site.of_element) {
        rows.push_back(uint64_t{use.table} << 32 | input.slots[use.site][row]);
        continue;
      }
      const ColumnView& lists = input.columns[site.parts[0]];
      if (lists.kind != Kind::kList || lists.IsNull(row)) continue;
      const ListRange range = lists.List(row);
      for (int64_t i = 0; i < range.size; ++i)
        rows.push_back(uint64_t{use.table} << 32 | input.slots[use.site][range.start + i]);
    }
  }
  if (looked == 0) return features;
  std::ranges::sort(rows);
  size_t most = 0, distinct = 0;
  for (size_t i = 0; i < rows.size();) {
    size_t next = i;
    while (next < rows.size() && rows[next] == rows[i]) ++next;
    most = std::max(most, next - i);
    ++distinct;
    i = next;
  }
  features.accesses = static_cast<double>(rows.size()) / static_cast<double>(looked);
  if (!rows.empty()) {
    features.same_row = static_cast<double>(most) / static_cast<double>(rows.size());
    features.distinct_rows = static_cast<double>(distinct) / static_cast<double>(rows.size());
  }
  for (uint32_t count : types)
    features.mix = features.mix * 9 + static_cast<uint32_t>((4 * count + looked / 2) / looked);
  return features;
}

const std::vector<Adviser::Arm>& Adviser::Arms() {
  static const auto* arms = [] {
    const Strategy serial{};
    const auto planned = [](Exploration exploration, Unit unit) {
      return Strategy{Scheme::kExplore, exploration, unit, Abort::kEager};
    };
    const Strategy columns = planned(Exploration::kBfs, Unit::kStratum);
    const Strategy strata = planned(Exploration::kBfs, Unit::kTransaction);
    const Strategy joins = planned(Exploration::kNs, Unit::kTransaction);
    return new std::vector<Arm>{
        {serial, kLargeBatch, 1, -1},  {columns, kTrialBatch, 16, -1}, {strata, kTrialBatch, 1.1, -1},
        {joins, kTrialBatch, 1.1, -1}, {columns, kLargeBatch, 16, 1},  {strata, kLargeBatch, 1.1, 2},
        {joins, kLargeBatch, 1.1, 3},
    };
  }();
  return *arms;
}

uint64_t Adviser::Key(const BatchFeatures& features) const {
  uint64_t key = features.mix;
  key = key * 31 + Bucket(features.same_row);
  key = key * 31 + static_cast<uint64_t>(std::lround(features.distinct_rows * 4));
  key = key * 31 + static_cast<uint64_t>(std::lround(std::min(features.accesses, 64.0)));
  return key * 31 + static_cast<uint64_t>(std::lround(aborts_ * 4));
}

// A context that is met for the first time starts with what the one before it knew. Whether that is worth something
// shows when its best runs.
Adviser::Context& Adviser::Enter(uint64_t key) {
  auto found = contexts_.find(key);
  if (found == contexts_.end()) {
    Context context;  // whole before it is listed: there may be no memory for its records
    const auto before = contexts_.find(last_context_);
    if (before != contexts_.end()) context.records = before->second.records;
    context.inherited = true;
    context.records.resize(Arms().size());
    found = contexts_.emplace(key, std::move(context)).first;
  }
  last_context_ = key;
  return found->second;
}

int Adviser::Best(const Context& context) const {
  int best = -1;
  for (int arm = 0; arm < static_cast<int>(context.records.size()); ++arm) {
    const Record& record = context.records[arm];
    if (record.runs && (best < 0 || record.seconds < context.records[best].seconds)) best = arm;
  }
  return best;
}

std::optional<Adviser::Advice> Adviser::WithoutALook(int64_t transactions, int64_t punctuation) {
  const auto context = contexts_.find(last_context_);
  if (unlooked_ == 0 || context == contexts_.end()) return std::nullopt;
  --unlooked_;
  transactions = std::min(transactions, punctuation > 0 ? punctuation : kLargeBatch);
  return Advise(context->second, 0, transactions, Why::kBest);
}

Adviser::Advice Adviser::Advise(const Context& context, int arm, int64_t transactions, Why why) const {
  const double accesses = std::max(inputs_.accesses, 1.0);
  const double predicted = context.records[arm].seconds * accesses * static_cast<double>(transactions);
  return {Arms()[arm].strategy, transactions, predicted, why, arm, last_context_, accesses, inputs_};
}

Adviser::Advice Adviser::Next(const BatchFeatures& features, int workers, int64_t punctuation) {
  const int64_t limit = punctuation > 0 ? std::min(punctuation, features.transactions) : features.transactions;
  if (features.transactions < kSmall) return {.strategy = {}, .transactions = limit, .why = Why::kSmall, .arm = -1};
  ++decisions_;
  if (contexts_.size() > kContextsMax) contexts_.clear();
  const uint64_t key = Key(features);
  const std::vector<Arm>& arms = Arms();
  Context& context = Enter(key);
  inputs_ = {features.accesses, features.same_row,          features.distinct_rows,
             aborts_,           context.records[0].seconds, overhead_};
  const auto advise = [&](int arm, int64_t transactions, Why why) {
    transactions = std::min(transactions, limit);
    // What would be left is too little for a batch of its own.
    if (punctuation <= 0 && features.transactions - transactions < kSmall) transactions = features.transactions;
    return Advise(context, arm, transactions, why);
  };
  const Record& serial = context.records[0];
  if (serial.runs == 0) return advise(0, kFirstLook, Why::kFirstLook);
  if (!calibrated_) return advise(1, kCalibration, Why::kCalibration);
  const int best = Best(context);
  const double least = context.records[best].seconds;
  double lowest = std::numeric_limits<double>::infinity();  // bound of any arm but serial
  for (int arm = 1; arm < static_cast<int>(arms.size()); ++arm) {
    const Record& record = context.records[arm];
    const bool columns = arms[arm].strategy.unit == Unit::kStratum;
    if (workers == 1 && !columns) continue;
    const double bound = overhead_ + serial.seconds / (workers * arms[arm].gain);
    lowest = std::min(lowest, bound);
    if (punctuation > 0 && arms[arm].after >= 0) continue;  // there is only one size
    if (arms[arm].after >= 0) {
      const Record& smaller = context.records[arms[arm].after];
      if (smaller.runs == 0 || smaller.seconds > kDidWell * least) continue;
    }
    if (arms[arm].transactions > kTrialBatch && features.transactions < 2 * kTrialBatch) continue;
    if (record.runs == 0) {
      if (bound < kWorthATrial * least) return advise(arm, arms[arm].transactions, Why::kTrial);
    } else if (record.runs < kRunsEnough && record.seconds < kClose * least) {
      return advise(arm, arms[arm].transactions, Why::kTrial);
    }
  }
  for (int arm = 0; arm < static_cast<int>(arms.size()); ++arm) {
    const Record& record = context.records[arm];
    const bool close = record.runs && record.seconds < kClose * least;
    if (arm != best && close && decisions_ - record.last > kDecisionsBetween)
      return advise(arm, std::min(arms[arm].transactions, kTrialBatch), Why::kAgain);
  }
  if (best == 0 && lowest > least) unlooked_ = kUnlooked;
  return advise(best, arms[best].transactions, Why::kBest);
}

void Adviser::Learn(const Advice& advice, const BatchReport& report) {
  if (advice.arm < 0 || report.transactions == 0) return;
  const auto transactions = static_cast<double>(report.transactions);
  aborts_ = static_cast<double>(report.aborted) / transactions;
  if (advice.why == Why::kCalibration) calibrated_ = true;
  if (report.accesses > 0) {
    const double measured = (report.plan + report.install) / static_cast<double>(report.accesses);
    overhead_ += (advice.why == Why::kCalibration ? 1 : kNewest) * (measured - overhead_);
  }
  const auto found = contexts_.find(advice.context);
  if (found == contexts_.end()) return;
  Context& context = found->second;
  Record& record = context.records[advice.arm];
  const double seconds = report.seconds / (transactions * advice.accesses);
  const bool much_slower = record.runs >= kRunsEnough && seconds > kMuchSlower * record.seconds;
  context.slow = much_slower ? context.slow + 1 : 0;
  if (much_slower) unlooked_ = 0;
  if (context.inherited) {
    const bool other = seconds > kMuchSlower * record.seconds || record.seconds > kMuchSlower * seconds;
    if (record.runs && other) context.slow = kSlowInARow;
    context.inherited = false;
  }
  record.seconds = record.runs == 0 ? seconds : record.seconds + kNewest * (seconds - record.seconds);
  ++record.runs;
  record.last = decisions_;
  if (context.slow < kSlowInARow) return;
  // Not what it was: what is known of the others is worth no more.
  context.slow = 0;
  record.seconds = seconds;
  for (Record& other : context.records) {
    if (&other != &record) other = Record();
  }
}

}  // namespace morphspark
