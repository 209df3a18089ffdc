#include "execute/batch_statistics.h"

#include <algorithm>
#include <bit>

#include "base/stage_clock.h"
#include "execute/onlookers.h"
#include "plan/uses.h"
#include "program/lane_machine.h"
#include "program/operations.h"
#include "program/parametric.h"

namespace morphspark {
namespace {

constexpr int64_t kSampleMax = 256;
constexpr int64_t kSampleAccessesMax = 4096;
constexpr uint64_t kRowsMax = 512;  // of one transaction; any more are taken for rows that nobody else uses
constexpr uint32_t kNone = 0xFFFFFFFFu;

class Sample {
 public:
  explicit Sample(const PlanInput& input)
      : input_(input),
        onlooker_(FindOnlookers(input.code, Strategy{Scheme::kExplore, Exploration::kNs, Unit::kTransaction})),
        types_(input.code.transactions.size() + 1, 0) {}

  void Look(int64_t begin, int64_t end, BatchStatistics* statistics) {
    MakeRoom(kSampleMax);
    const int64_t last = std::min(end, begin + kSampleMax);
    for (int64_t position = begin; position < last && looked_ < kSampleAccessesMax; ++position) {
      ++found_.sample;
      const TransactionCode* code = CodeAt(input_, position);
      const auto type = code == nullptr ? 0 : static_cast<size_t>(code - input_.code.transactions.data() + 1);
      ++types_[type];
      if (code == nullptr) continue;
      if (!onlooker_.empty() && onlooker_[type - 1])
        ++found_.accesses;  // it is not planned, and nobody waits; as one it has its share in what accesses cost
      else
        Enter(*code, input_.order.Row(position));
    }
    Conclude();
    found_.transactions = end - begin;
    *statistics = found_;
  }

 private:
  struct Row {
    uint64_t name;  // table and slot
    uint32_t met = 0;
    uint32_t last = 0;     // number of the transaction that met it last
    uint32_t meeting = 0;  // which of its rows it was
    uint32_t writer = 0;   // number of the transaction that wrote it last; 0: none
    uint32_t chain = 0;    // that the write belongs to: the row that it began with
    uint32_t chained = 0;  // accesses of its chain
    // Accesses on the longest path up to the last write.
    uint32_t transaction_path = 0, operation_path = 0;
  };

  // A row that the present transaction met.
  struct Met {
    uint32_t row;
    uint32_t use;
    bool writes;
  };

  void MakeRoom(uint64_t more) {
    if (2 * (rows_.size() + more) < places_.size()) return;
    places_.assign(std::bit_ceil(4 * (rows_.size() + more)), kNone);
    for (uint32_t row = 0; row < rows_.size(); ++row) Place(rows_[row].name) = row;
  }

  // Where the number of a row is, or will be.
  uint32_t& Place(uint64_t name) {
    const uint64_t mask = places_.size() - 1;
    uint64_t place = (name * 0x9E3779B97F4A7C15u) >> 40 & mask;
    while (places_[place] != kNone && rows_[places_[place]].name != name) place = (place + 1) & mask;
    return places_[place];
  }

  uint32_t RowOf(uint64_t name) {
    uint32_t& row = Place(name);
    if (row == kNone) {
      row = static_cast<uint32_t>(rows_.size());
      rows_.push_back({name});
    }
    return row;
  }

  // Links a transaction to those before it.
  void Enter(const TransactionCode& code, BatchRow row) {
    const auto number = static_cast<uint32_t>(found_.sample);
    const size_t uses = code.uses.size();
    met_.clear();
    count_.assign(uses, 0);
    waiting_.assign(uses, 0);
    bool alias = false;
    uint64_t more = uses;
    if (code.uses_elements) {
      more = 0;
      EachUse(input_, code, row, [&](const SiteUse&, int64_t) { ++more; });
    }
    MakeRoom(std::min(more, kRowsMax));
    int64_t unmet = 0;
    EachUse(input_, code, row, [&](const SiteUse& use, int64_t index) {
      const auto number_of_use = static_cast<uint32_t>(&use - code.uses.data());
      const Slot slot = input_.slots[use.site][index];
      if (slot == kNullKey) return;
      if (met_.size() == kRowsMax) {
        ++unmet;
        return;
      }
      const uint32_t row_number = RowOf(uint64_t{use.table} << 32 | slot);
      Row& one = rows_[row_number];
      if (one.last == number) {
        alias = true;
        met_[one.meeting].writes |= use.writes;
        return;
      }
      one.last = number;
      one.meeting = static_cast<uint32_t>(met_.size());
      ++one.met;
      ++count_[number_of_use];
      waiting_[number_of_use] += one.writer != 0;
      met_.push_back({row_number, number_of_use, use.writes});
    });
    if (met_.empty()) return;
    const auto own = static_cast<int64_t>(met_.size()) + unmet;
    unmet_ += unmet;
    looked_ += static_cast<int64_t>(met_.size());
    int64_t waits = 0;
    for (int64_t one : waiting_) waits += one;
    found_.accesses += own;
    found_.ld += own - 1;
    found_.td += waits;
    found_.degree_max = std::max(found_.degree_max, waits);
    ++found_.degrees[std::min(static_cast<size_t>(waits), found_.degrees.size() - 1)];
    found_.pd +=
        CountParametric(code, [&](uint32_t use) { return count_[use]; }, [&](uint32_t use) { return waiting_[use]; });
    uint32_t before = 0;
    for (const Met& one : met_) before = std::max(before, rows_[one.row].transaction_path);
    const uint32_t path = before + static_cast<uint32_t>(own);
    transaction_path_ = std::max(transaction_path_, path);
    const bool cut = !alias && !code.operations->list.empty();
    cut ? EnterOperations(*code.operations) : EnterWhole(static_cast<uint32_t>(own));
    for (const Met& one : met_) {
      if (!one.writes) continue;
      rows_[one.row].transaction_path = path;
      rows_[one.row].operation_path = paths_[one.use];
      rows_[one.row].chain = chains_[one.use];
      rows_[one.row].writer = number;
    }
  }

  void EnterOperations(const Operations& operations) {
    const size_t count = operations.list.size();
    reached_.assign(count, 0);
    chain_of_.assign(count, kNone);
    weight_.assign(count, 0);
    for (const Met& one : met_) {
      const uint32_t entry = operations.entry[one.use], exit = operations.exit[one.use];
      if (entry > exit) continue;
      reached_[entry] = std::max(reached_[entry], rows_[one.row].operation_path);
      ++weight_[exit];
      for (uint32_t operation : {entry, exit}) {
        if (chain_of_[operation] == kNone) chain_of_[operation] = one.row;
      }
    }
    for (const Met& one : met_) {
      const uint32_t entry = operations.entry[one.use];
      if (entry <= operations.exit[one.use] && rows_[one.row].writer) Wait(rows_[one.row].chain, chain_of_[entry]);
    }
    for (size_t number = 0; number < count; ++number) {
      uint32_t path = reached_[number];
      for (uint32_t other : operations.list[number].after) {
        path = std::max(path, reached_[other]);
        Wait(chain_of_[other], chain_of_[number]);
      }
      reached_[number] = path + weight_[number];
      operation_path_ = std::max(operation_path_, reached_[number]);
      if (chain_of_[number] != kNone) rows_[chain_of_[number]].chained += weight_[number];
    }
    paths_.resize(count_.size());
    chains_.resize(count_.size());
    for (const Met& one : met_) {
      const bool used = operations.entry[one.use] <= operations.exit[one.use];
      paths_[one.use] = used ? reached_[operations.exit[one.use]] : 0;
      chains_[one.use] = used ? chain_of_[operations.exit[one.use]] : one.row;
    }
  }

  // A transaction that is not cut is one operation, on the first of its rows.
  void EnterWhole(uint32_t own) {
    uint32_t before = 0;
    const uint32_t chain = met_[0].row;
    for (const Met& one : met_) {
      before = std::max(before, rows_[one.row].operation_path);
      if (rows_[one.row].writer) Wait(rows_[one.row].chain, chain);
    }
    operation_path_ = std::max(operation_path_, before + own);
    rows_[chain].chained += own;
    paths_.assign(count_.size(), before + own);
    chains_.assign(count_.size(), chain);
  }

  void Wait(uint32_t before, uint32_t chain) {
    if (before != chain && before != kNone && chain != kNone) waits_.emplace_back(before, chain);
  }

  void Conclude() {
    uint32_t most = 0;
    for (const Row& one : rows_) most = std::max(most, one.met);
    for (uint32_t count : types_)
      found_.mix =
          found_.mix * 9 + static_cast<uint32_t>((4 * count + found_.sample / 2) / std::max<int64_t>(found_.sample, 1));
    const std::vector<TransactionCode>& codes = input_.code.transactions;
    for (size_t type = 0; type < codes.size(); ++type) {
      if (types_[type + 1] > 0) found_.types |= uint64_t{1} << type % 64;
      if (types_[type + 1] > 0 && LaneMachine::CanRun(input_.code, codes[type]))
        found_.lanes += static_cast<double>(types_[type + 1]) / static_cast<double>(found_.sample);
    }
    found_.may_cut = input_.code.may_cut();
    if (found_.accesses == 0) return;
    const auto share = [&](auto part) { return static_cast<double>(part) / static_cast<double>(found_.accesses); };
    found_.same_row = share(most);
    found_.distinct_rows = share(rows_.size() + unmet_);
    found_.transaction_span = share(transaction_path_);
    found_.operation_span = share(operation_path_);
    if (found_.may_cut) FindChainSpan(share);
  }

  // Chains that wait for nobody are taken away, then those that waited for them only, and so on: what is left waits in
  // circles, or for such, and runs one after the other.
  template <class Share>
  void FindChainSpan(Share share) {
    std::vector<uint32_t> first(rows_.size() + 2, 0), waits(rows_.size(), 0), path(rows_.size(), 0), ready;
    for (const auto& [before, chain] : waits_) {
      ++first[before + 2];
      ++waits[chain];
    }
    for (size_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<uint32_t> after(waits_.size());
    for (const auto& [before, chain] : waits_) after[first[before + 1]++] = chain;
    int64_t left = 0;
    for (uint32_t chain = 0; chain < rows_.size(); ++chain) {
      if (waits[chain] == 0) ready.push_back(chain);
      left += rows_[chain].chained;
    }
    uint32_t longest = 0;
    while (!ready.empty()) {
      const uint32_t chain = ready.back();
      ready.pop_back();
      path[chain] += rows_[chain].chained;
      left -= rows_[chain].chained;
      longest = std::max(longest, path[chain]);
      for (uint32_t i = first[chain]; i < first[chain + 1]; ++i) {
        path[after[i]] = std::max(path[after[i]], path[chain]);
        if (--waits[after[i]] == 0) ready.push_back(after[i]);
      }
    }
    found_.cyclic = share(left);
    found_.chain_span = share(longest + left);
  }

  const PlanInput& input_;
  const std::vector<uint8_t> onlooker_;  // by type; empty: none
  BatchStatistics found_;
  std::vector<Row> rows_;         // in the order in which they were met
  std::vector<uint32_t> places_;  // open addressing: their numbers by name
  uint64_t unmet_ = 0;
  int64_t looked_ = 0;                                // accesses
  std::vector<uint32_t> types_;                       // transactions of each; the first are those that run nothing
  std::vector<std::pair<uint32_t, uint32_t>> waits_;  // chains: the second waits for the first
  uint32_t transaction_path_ = 0, operation_path_ = 0;
  // Of the present transaction:
  std::vector<Met> met_;
  std::vector<int64_t> count_, waiting_;               // by use
  std::vector<uint32_t> paths_, chains_;               // by use: where its last operation is
  std::vector<uint32_t> reached_, chain_of_, weight_;  // by operation
};

}  // namespace

BatchStatistics LookAtBatch(const PlanInput& input, int64_t begin, int64_t end) {
  StageClock clock;
  BatchStatistics statistics;
  Sample(input).Look(begin, end, &statistics);
  statistics.seconds = clock.Lap();
  return statistics;
}

}  // namespace morphspark
