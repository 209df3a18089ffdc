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

TransactionId FirstMatch(const Code& code, std::span<const ColumnView> columns, int64_t row) {
  for (size_t i = 0; i < code.transactions.size(); ++i) {
    const auto& on = code.transactions[i].on;
    if (std::all_of(on.begin(), on.end(),
                    [&](const Condition& one) { return Accepts(one, columns[one.column], row); })) {
      return static_cast<TransactionId>(i);
    }
  }
  return kUnmatched;
}

}  // namespace

void Classify(const Code& code, std::span<const ColumnView> columns, int64_t count, ThreadPool* pool,
              std::vector<TransactionId>* transactions) {
  transactions->resize(count);
  pool->For(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) (*transactions)[row] = FirstMatch(code, columns, row);
  });
}

}  // namespace morphspark
