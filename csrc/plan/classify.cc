#include "plan/classify.h"

#include <algorithm>

#include "base/decimal.h"

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 14;

bool Equals(const Accepted& one, const ColumnView& column, int32_t scale, int64_t row) {
  switch (one.match) {
    case Match::kInt: return column.Int64(row) == one.value.i;
    case Match::kBool: return column.Bool(row) == (one.value.i != 0);
    case Match::kString: return column.String(row).view() == one.value.s.view();
    case Match::kDecimal: return column.Decimal(row) == one.value.d;
    case Match::kFloat: return CompareFloat(column.Float64(row), one.value.f) == 0;
    case Match::kIntAsFloat: return CompareFloat(static_cast<double>(column.Int64(row)), one.value.f) == 0;
    case Match::kDecimalAsFloat: return CompareFloat(decimal::ToDouble(column.Decimal(row), scale), one.value.f) == 0;
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

// Gives the transaction to those of the rows that have none yet and match.
void Claim(const Code& code, TransactionId id, std::span<const ColumnView> columns, int64_t begin, int64_t end,
           TransactionId* transactions) {
  const TransactionCode& transaction = code.transactions[id];
  if (const Accepted* only = OnlyString(transaction)) {
    const ColumnView& column = columns[transaction.on[0].column];
    const Bytes wanted = only->value.s;
    for (int64_t row = begin; row < end; ++row) {
      if (transactions[row] != kUnmatched || column.IsNull(row)) continue;
      const Bytes own = column.String(row);
      if (own.size == wanted.size && EqualBytes(own.data, wanted.data, own.size)) transactions[row] = id;
    }
    return;
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
      Claim(code, static_cast<TransactionId>(id), columns, begin, end, transactions->data());
    }
  });
}

}  // namespace morphspark
