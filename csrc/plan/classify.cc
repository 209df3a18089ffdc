#include "plan/classify.h"

#include <algorithm>

#include "base/decimal.h"

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 14;

bool Equals(const Accepted& one, const ColumnView& column, int32_t scale, int64_t row) {
  switch (one.match) {
    case Match::kInt:
      return column.Int64(row) == one.value.i;
    case Match::kBool:
      return column.Bool(row) == (one.value.i != 0);
    case Match::kString:
      return column.String(row).view() == one.value.s.view();
    case Match::kDecimal:
      return column.Decimal(row) == one.value.d;
    case Match::kFloat:
      return CompareFloat(column.Float64(row), one.value.f) == 0;
    case Match::kIntAsFloat:
      return CompareFloat(static_cast<double>(column.Int64(row)), one.value.f) == 0;
    case Match::kDecimalAsFloat:
      return CompareFloat(decimal::ToDouble(column.Decimal(row), scale), one.value.f) == 0;
  }
  return false;
}

bool Accepts(const Condition& condition, const ColumnView& column, int64_t row) {
  if (column.IsNull(row)) return false;
  return std::any_of(condition.accepted.begin(), condition.accepted.end(),
                     [&](const Accepted& one) { return Equals(one, column, condition.scale, row); });
}

// The usual on(): one column of strings, one value.
const Accepted* OnlyString(const TransactionCode& code) {
  if (code.on.size() != 1 || code.on[0].accepted.size() != 1) return nullptr;
  const Accepted& only = code.on[0].accepted[0];
  return only.match == Match::kString ? &only : nullptr;
}

// A string of at most 16 bytes as two words, to be compared without a branch: which of a few kinds an event has is as
// good as random, and a wrong guess costs more than the comparison.
class ShortString {
 public:
  static constexpr uint64_t kBytesMax = 16;

  explicit ShortString(Bytes text) : size_(text.size) {
    char padded[kBytesMax] = {}, ones[kBytesMax] = {};
    std::memcpy(padded, text.data, text.size);
    std::memset(ones, 0xFF, text.size);
    std::memcpy(words_, padded, kBytesMax);
    std::memcpy(masks_, ones, kBytesMax);
  }
  // Reads 16 bytes, whatever the other's size.
  bool Equals(Bytes other) const {
    uint64_t words[2];
    std::memcpy(words, other.data, kBytesMax);
    const uint64_t differ = ((words[0] & masks_[0]) ^ words_[0]) | ((words[1] & masks_[1]) ^ words_[1]);
    return (differ | (other.size ^ size_)) == 0;
  }

 private:
  uint64_t size_;
  uint64_t words_[2], masks_[2];
};

void ClaimByString(const ColumnView& column, Bytes wanted, TransactionId id, int64_t begin, int64_t end,
                   TransactionId* transactions) {
  const auto claim = [&](int64_t row, bool equal) {
    const TransactionId old = transactions[row];
    const bool mine = equal & !column.IsNull(row) & (old == kUnmatched);
    // `mine ? id : old` as arithmetic, since the compiler would branch.
    transactions[row] = static_cast<TransactionId>(old ^ ((old ^ id) & -static_cast<int>(mine)));
  };
  int64_t row = begin;
  if (wanted.size <= ShortString::kBytesMax) {
    const ShortString text(wanted);
    const char* const safe_end = column.String(column.length - 1).data;  // 16 bytes before it are inside the buffer
    for (; row < end && column.String(row).data + ShortString::kBytesMax <= safe_end; ++row) {
      claim(row, text.Equals(column.String(row)));
    }
  }
  for (; row < end; ++row) {
    const Bytes own = column.String(row);
    claim(row, own.size == wanted.size && EqualBytes(own.data, wanted.data, own.size));
  }
}

// Gives the transaction to those of the rows that have none yet and match.
void Claim(const Code& code, TransactionId id, std::span<const ColumnView> columns, int64_t begin, int64_t end,
           TransactionId* transactions) {
  const TransactionCode& transaction = code.transactions[id];
  if (const Accepted* only = OnlyString(transaction)) {
    const ColumnView& column = columns[transaction.on[0].column];
    return ClaimByString(column, only->value.s, id, begin, end, transactions);
  }
  for (int64_t row = begin; row < end; ++row) {
    if (transactions[row] != kUnmatched) continue;
    const auto accepts = [&](const Condition& one) { return Accepts(one, columns[one.column], row); };
    if (std::all_of(transaction.on.begin(), transaction.on.end(), accepts)) transactions[row] = id;
  }
}

}  // namespace

void Classify(const Code& code, std::span<const ColumnView> columns, int64_t count, ThreadPool* pool,
              std::vector<TransactionId>* transactions) {
  transactions->assign(count, kUnmatched);
  pool->For(count, kGrain, [&](int64_t begin, int64_t end) {
    for (size_t id = 0; id < code.transactions.size(); ++id) {
      if (code.transactions[id].is_trigger) continue;
      Claim(code, static_cast<TransactionId>(id), columns, begin, end, transactions->data());
    }
  });
}

}  // namespace morphspark
