#include "bench/ledger_loop.h"

#include <chrono>

#include "base/thread_pool.h"
#include "output/verdicts.h"

namespace morphspark::bench {
namespace {

double SecondsSince(std::chrono::steady_clock::time_point* start) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - *start).count();
  *start = now;
  return seconds;
}

}  // namespace

LedgerLoop::LedgerLoop() = default;

void LedgerLoop::Holdings::Resolve(const ColumnView& keys, const std::vector<uint8_t>& wanted,
                                   std::vector<Slot>* slots) {
  Bytes block[KeyIndex::kBlock];
  int64_t where[KeyIndex::kBlock];
  Slot found[KeyIndex::kBlock];
  int count = 0;
  slots->resize(keys.length);
  const auto flush = [&] {
    index.FindBlock(block, count, found);
    for (int i = 0; i < count; ++i) {
      if (found[i] == kNoSlot) found[i] = index.Find(block[i]);  // the block may name a new key twice
      if (found[i] == kNoSlot) {
        found[i] = static_cast<Slot>(amounts.size());
        index.Insert(block[i], found[i]);
        amounts.push_back(kInitial);
      }
      (*slots)[where[i]] = found[i];
    }
    count = 0;
  };
  for (int64_t row = 0; row < keys.length; ++row) {
    if (!wanted[row]) continue;
    where[count] = row;
    block[count] = keys.String(row);
    if (++count == KeyIndex::kBlock) flush();
  }
  flush();
}

LedgerLoop::Result LedgerLoop::Run(const std::vector<ColumnView>& columns) {
  const ColumnView &kind = columns[0], &amount = columns[5], &quantity = columns[6];
  const int64_t rows = kind.length;
  Result result;
  auto clock = std::chrono::steady_clock::now();
  transfer_.resize(rows);
  everyone_.assign(rows, 1);
  for (int64_t row = 0; row < rows; ++row) transfer_[row] = kind.String(row).view() == "transfer";
  accounts_.Resolve(columns[1], everyone_, &account_);
  assets_.Resolve(columns[2], everyone_, &asset_);
  accounts_.Resolve(columns[3], transfer_, &to_account_);
  assets_.Resolve(columns[4], transfer_, &to_asset_);
  result.resolve_seconds = SecondsSince(&clock);

  std::vector<TransactionStatus> status(rows, TransactionStatus::kCommitted);
  Buffer done(rows);
  result.balance.length = rows;
  result.balance.values.resize(rows * sizeof(int64_t));
  auto* balances = reinterpret_cast<int64_t*>(result.balance.values.data());
  int64_t* const money = accounts_.amounts.data();
  int64_t* const goods = assets_.amounts.data();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t value = amount.Int64(row), pieces = quantity.Int64(row);
    const Slot account = account_[row], asset = asset_[row];
    done[row] = 0;
    balances[row] = 0;
    if (!transfer_[row]) {
      money[account] += value;
      goods[asset] += pieces;
    } else if (money[account] >= value && goods[asset] >= pieces) {
      money[account] -= value;
      money[to_account_[row]] += value;
      goods[asset] -= pieces;
      goods[to_asset_[row]] += pieces;
      balances[row] = money[account];
      done[row] = 1;
    } else {
      status[row] = TransactionStatus::kAborted;
    }
  }
  result.loop_seconds = SecondsSince(&clock);

  ThreadPool alone(1);
  result.status = StatusColumn(status, &alone);
  SetValidity(done, &result.balance);
  result.output_seconds = SecondsSince(&clock);
  return result;
}

}  // namespace morphspark::bench
