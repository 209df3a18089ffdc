#include "output/verdicts.h"

#include <algorithm>
#include <stdexcept>

#include "output/returned.h"

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 15;
constexpr uint8_t kTextBytes[] = {9, 7, 9};  // "committed", "aborted", "unmatched"

void CheckBytes(uint64_t bytes) {
  if (bytes > INT32_MAX) throw std::length_error("an output column would hold more than 2 GiB");
}

}  // namespace

ColumnBuffers StatusColumn(std::span<const TransactionStatus> status, ThreadPool* pool) {
  ColumnBuffers column;
  const auto rows = static_cast<int64_t>(status.size());
  column.length = rows;
  column.offsets.resize((rows + 1) * sizeof(int32_t));
  auto* offsets = reinterpret_cast<int32_t*>(column.offsets.data());
  offsets[0] = 0;
  uint64_t bytes = 0;
  for (int64_t row = 0; row < rows; ++row) {
    bytes += kTextBytes[static_cast<int>(status[row])];
    offsets[row + 1] = static_cast<int32_t>(bytes);
  }
  CheckBytes(bytes);
  column.values.resize(bytes);
  pool->For(rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      uint8_t* to = column.values.data() + offsets[row];
      switch (status[row]) {  // constant sizes: a store or two instead of a call
        case TransactionStatus::kCommitted:
          std::memcpy(to, "committed", 9);
          break;
        case TransactionStatus::kAborted:
          std::memcpy(to, "aborted", 7);
          break;
        case TransactionStatus::kUnmatched:
          std::memcpy(to, "unmatched", 9);
          break;
      }
    }
  });
  return column;
}

ColumnBuffers ReasonColumn(std::span<const ReasonId> reason, const ReasonTexts& texts) {
  ColumnBuffers column;
  column.length = static_cast<int64_t>(reason.size());
  Buffer valid(reason.size());
  column.offsets.resize((reason.size() + 1) * sizeof(int32_t));
  auto* offsets = reinterpret_cast<int32_t*>(column.offsets.data());
  offsets[0] = 0;
  uint64_t bytes = 0;
  for (size_t row = 0; row < reason.size(); ++row) {
    valid[row] = reason[row] != kNoReason;
    if (valid[row]) bytes += texts[reason[row]].size();
    CheckBytes(bytes);
    offsets[row + 1] = static_cast<int32_t>(bytes);
  }
  column.values.resize(bytes);
  for (size_t row = 0; row < reason.size(); ++row) {
    if (valid[row])
      std::memcpy(column.values.data() + offsets[row], texts[reason[row]].data(), texts[reason[row]].size());
  }
  SetValidity(valid, &column);
  return column;
}

ColumnBuffers EffectiveTimestamps(const ColumnView& timestamps, const Order& order, int64_t begin, int64_t end,
                                  const std::optional<Value>& watermark, ThreadPool* pool) {
  if (order.identity && timestamps.validity == nullptr &&
      (timestamps.kind == Kind::kInt64 || timestamps.kind == Kind::kTimestamp)) {
    ColumnBuffers column;  // the usual batch: in order, and microseconds or integers
    column.length = end - begin;
    column.values.resize(column.length * sizeof(int64_t));
    auto* out = reinterpret_cast<int64_t*>(column.values.data());
    const int64_t floor = watermark ? watermark->i : INT64_MIN;
    pool->For(column.length, kGrain, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) out[row] = std::max(timestamps.Int64(begin + row), floor);
    });
    return column;
  }
  ReturnedValues values(timestamps.kind, end - begin);
  const auto fill = [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last; ++at) {
      Value own;
      if (!timestamps.Load(order.Row(begin + at), &own)) continue;
      const bool older = watermark && CompareValues(timestamps.kind, own, *watermark) < 0;
      values.Set(at, older ? *watermark : own);
    }
  };
  // Strings share one arena, so only fixed-width timestamps are filled by several threads.
  if (timestamps.kind == Kind::kString)
    fill(0, end - begin);
  else
    pool->For(end - begin, kGrain, fill);
  return std::move(values).Finish();
}

}  // namespace morphspark
