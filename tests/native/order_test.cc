// The order of a batch, against std::stable_sort.
#include "plan/order.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "columns.h"

namespace morphspark {
namespace {

using testing::Column;
using testing::Random;
using testing::Rows;

int Compare(const ColumnView& column, int64_t a, int64_t b) {
  Value left, right;
  column.Load(a, &left);
  column.Load(b, &right);
  switch (column.kind) {
    case Kind::kString:
      return left.s.view().compare(right.s.view());
    case Kind::kDecimal:
      return (left.d > right.d) - (left.d < right.d);
    default:
      return (left.i > right.i) - (left.i < right.i);
  }
}

// What the order should be: rows with a whole key by key, then the others; ties as they came.
std::vector<BatchRow> Sorted(const std::vector<ColumnView>& columns, int64_t count) {
  const auto whole = [&](BatchRow row) {
    return std::none_of(columns.begin(), columns.end(), [&](const auto& one) { return one.IsNull(row); });
  };
  const auto less = [&](BatchRow a, BatchRow b) {
    if (whole(a) != whole(b)) return whole(a);
    if (!whole(a)) return false;
    for (const ColumnView& column : columns) {
      if (const int order = Compare(column, a, b)) return order < 0;
    }
    return false;
  };
  std::vector<BatchRow> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), less);
  return rows;
}

struct Batch {
  std::vector<Column> columns;
  int64_t count;

  std::vector<ColumnView> views() const {
    std::vector<ColumnView> views;
    for (const Column& column : columns) views.push_back(column.View());
    return views;
  }
};

Status RunOrder(const Batch& batch, int threads, const std::optional<OrderKey>& last, Late late, Order* order) {
  ThreadPool pool(threads);
  const std::vector<ColumnView> views = batch.views();
  std::vector<const ColumnView*> columns;
  for (const ColumnView& view : views) columns.push_back(&view);
  return OrderBatch(columns, batch.count, last, late, &pool, order);
}

std::vector<BatchRow> RowsOf(const Order& order) {
  std::vector<BatchRow> rows;
  for (int64_t position = 0; position < order.running; ++position) rows.push_back(order.Row(position));
  return rows;
}

void CheckOrder(const Batch& batch, const std::vector<BatchRow>& expected, int threads) {
  Order order;
  BOOST_REQUIRE(RunOrder(batch, threads, std::nullopt, Late::kFail, &order).ok());
  const std::vector<ColumnView> views = batch.views();
  BOOST_REQUIRE(RowsOf(order) == expected);
  int64_t keyed = 0;
  for (int64_t row = 0; row < batch.count; ++row) {
    keyed += std::none_of(views.begin(), views.end(), [&](const auto& one) { return one.IsNull(row); });
  }
  BOOST_REQUIRE_EQUAL(order.keyed, keyed);
  BOOST_REQUIRE_EQUAL(order.running, batch.count);
  BOOST_REQUIRE_EQUAL(order.late, 0);
  const bool sorted_already = std::is_sorted(expected.begin(), expected.end());
  if (keyed == batch.count) BOOST_REQUIRE_EQUAL(order.identity, sorted_already);
  if (order.identity) BOOST_REQUIRE(order.rows.empty());
}

void CheckOrder(const Batch& batch, int threads) { CheckOrder(batch, Sorted(batch.views(), batch.count), threads); }

template <class T, class Make>
Rows<T> RandomRows(int64_t count, int nulls_percent, Random* random, Make make) {
  Rows<T> rows;
  for (int64_t i = 0; i < count; ++i) {
    const bool null = static_cast<int>((*random)() % 100) < nulls_percent;
    rows.push_back(null ? std::nullopt : std::optional<T>(make()));
  }
  return rows;
}

Batch RandomBatch(const std::vector<Kind>& kinds, int64_t count, int64_t distinct, int nulls_percent, Random* random) {
  Batch batch{{}, count};
  for (Kind kind : kinds) {
    const auto number = [&] { return static_cast<int64_t>((*random)() % distinct) - distinct / 2; };
    switch (kind) {
      case Kind::kString:
        batch.columns.push_back(testing::Strings(
            RandomRows<std::string>(count, nulls_percent, random, [&] { return std::to_string(number()); })));
        break;
      case Kind::kDecimal:
        batch.columns.push_back(testing::Decimals(RandomRows<Int128>(
            count, nulls_percent, random, [&] { return Int128{number()} * 1'000'000'007 * 1'000'000'009; })));
        break;
      case Kind::kTimestamp:
        batch.columns.push_back(testing::Timestamps(RandomRows<int64_t>(count, nulls_percent, random, number)));
        break;
      default:
        batch.columns.push_back(testing::Int64s(RandomRows<int64_t>(count, nulls_percent, random, number)));
    }
  }
  return batch;
}

BOOST_AUTO_TEST_SUITE(order)

BOOST_AUTO_TEST_CASE(values_of_every_kind_have_an_order) {
  using testing::DecimalValue;
  using testing::FloatValue;
  using testing::IntValue;
  using testing::StringValue;
  const std::string empty, a = "a", ab = "ab", accent = "\xC3\xA9";
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // Every value is less than the next one.
  const std::vector<std::pair<Kind, std::vector<Value>>> ascending = {
      {Kind::kBool, {IntValue(0), IntValue(1)}},
      {Kind::kInt64, {IntValue(INT64_MIN), IntValue(-1), IntValue(INT64_MAX)}},
      {Kind::kTimestamp, {IntValue(INT64_MIN), IntValue(0), IntValue(INT64_MAX)}},
      {Kind::kFloat64, {FloatValue(-1), FloatValue(-0.5), FloatValue(2), FloatValue(nan)}},
      {Kind::kDecimal, {DecimalValue(-(Int128{1} << 100)), DecimalValue(0), DecimalValue(Int128{1} << 100)}},
      {Kind::kString, {StringValue(empty), StringValue(a), StringValue(ab), StringValue(accent)}},
  };
  for (const auto& [kind, values] : ascending) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = 0; j < values.size(); ++j) {
        const int order = CompareValues(kind, values[i], values[j]);
        BOOST_TEST(((order > 0) - (order < 0)) == ((i > j) - (i < j)), static_cast<int>(kind)
                                                                           << ": " << i << ", " << j);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(without_columns_rows_run_as_they_come) {
  Order order;
  BOOST_TEST(RunOrder({{}, 5}, 2, std::nullopt, Late::kFail, &order).ok());
  BOOST_TEST(order.identity);
  BOOST_TEST(order.running == 5);
  BOOST_TEST(order.keyed == 5);
}

BOOST_AUTO_TEST_CASE(small_batches_of_every_kind_are_sorted_stably) {
  const std::vector<Kind> kinds[] = {
      {Kind::kInt64},
      {Kind::kTimestamp},
      {Kind::kString},
      {Kind::kDecimal},
      {Kind::kTimestamp, Kind::kInt64},
      {Kind::kString, Kind::kDecimal, Kind::kInt64},
  };
  Random random(11);
  for (const auto& kind : kinds) {
    for (int64_t count : {0, 1, 2, 3, 10, 500}) {
      for (int nulls_percent : {0, 10, 100}) {
        for (int64_t distinct : {1, 3, 1'000}) {
          CheckOrder(RandomBatch(kind, count, distinct, nulls_percent, &random), 2);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(large_batches_are_merged_from_pieces_on_any_number_of_threads) {
  Random random(12);
  // Four pieces on four threads: a piece has at least 32768 rows.
  const Batch times = RandomBatch({Kind::kTimestamp}, 140'001, 5'000, 1, &random);
  const Batch pairs = RandomBatch({Kind::kInt64, Kind::kString}, 101'000, 300, 1, &random);
  const std::vector<BatchRow> times_expected = Sorted(times.views(), times.count);
  const std::vector<BatchRow> pairs_expected = Sorted(pairs.views(), pairs.count);
  for (int threads : {1, 2, 3, 4, 7}) CheckOrder(times, times_expected, threads);
  for (int threads : {1, 3}) CheckOrder(pairs, pairs_expected, threads);
}

BOOST_AUTO_TEST_CASE(a_batch_in_order_is_left_alone) {
  constexpr int64_t kCount = 70'000;  // three chunks
  Rows<int64_t> rows;
  for (int64_t i = 0; i < kCount; ++i) rows.push_back(i / 3);
  Batch batch{{}, kCount};
  batch.columns.push_back(testing::Int64s(rows));
  for (int threads : {1, 4}) {
    Order order;
    BOOST_TEST(RunOrder(batch, threads, std::nullopt, Late::kFail, &order).ok());
    BOOST_TEST(order.identity);
    BOOST_TEST(order.rows.empty());
  }
  // One row out of order, or null, wherever it is: also where two chunks meet.
  for (int64_t bad : {int64_t{1}, int64_t{32'767}, int64_t{32'768}, kCount - 1}) {
    Rows<int64_t> moved = rows;
    std::vector<BatchRow> others(kCount);
    std::iota(others.begin(), others.end(), 0);
    others.erase(others.begin() + bad);
    for (bool null : {false, true}) {
      moved[bad] = null ? std::nullopt : std::optional<int64_t>(-1);
      std::vector<BatchRow> expected = others;
      expected.insert(null ? expected.end() : expected.begin(), static_cast<BatchRow>(bad));
      batch.columns[0] = testing::Int64s(moved);
      for (int threads : {1, 4}) CheckOrder(batch, expected, threads);
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_with_a_broken_key_come_last_in_arrival_order) {
  Batch batch{{}, 5};
  batch.columns.push_back(testing::Int64s({{}, 3, 2, {}, 1}));
  batch.columns.push_back(testing::Strings({"a", "b", {}, "c", "d"}));
  Order order;
  BOOST_TEST(RunOrder(batch, 1, std::nullopt, Late::kFail, &order).ok());
  BOOST_TEST((RowsOf(order) == std::vector<BatchRow>{4, 1, 0, 2, 3}));
  BOOST_TEST(order.keyed == 2);
}

OrderKey KeyOf(std::vector<Value> parts) { return {std::move(parts), {}}; }

BOOST_AUTO_TEST_CASE(late_rows_are_admitted_diverted_or_fail_the_batch) {
  Batch batch{{}, 6};
  batch.columns.push_back(testing::Int64s({5, 1, {}, 4, 2, 5}));
  struct {
    int64_t last;
    std::vector<BatchRow> late, rest;
  } const kCases[] = {
      {0, {}, {1, 4, 3, 0, 5, 2}}, {1, {}, {1, 4, 3, 0, 5, 2}},  // as large as the last key: not late
      {2, {1}, {4, 3, 0, 5, 2}},   {5, {1, 4, 3}, {0, 5, 2}},   {6, {1, 4, 3, 0, 5}, {2}},  // a null key is never late
  };
  for (const auto& one : kCases) {
    const std::optional<OrderKey> last = KeyOf({testing::IntValue(one.last)});
    const auto late = static_cast<int64_t>(one.late.size());
    std::vector<BatchRow> all = one.late;
    all.insert(all.end(), one.rest.begin(), one.rest.end());

    Order admitted;
    BOOST_TEST(RunOrder(batch, 1, last, Late::kAdmit, &admitted).ok());
    BOOST_TEST((RowsOf(admitted) == all));
    BOOST_TEST(admitted.late == late);
    BOOST_TEST(admitted.diverted.empty());

    Order diverted;
    BOOST_TEST(RunOrder(batch, 1, last, Late::kDivert, &diverted).ok());
    BOOST_TEST((RowsOf(diverted) == one.rest));
    BOOST_TEST((diverted.diverted == one.late));
    BOOST_TEST(diverted.keyed == 5 - late);
    BOOST_TEST(diverted.running == 6 - late);

    Order failed;
    const Status status = RunOrder(batch, 1, last, Late::kFail, &failed);
    BOOST_TEST(status.ok() == (late == 0));
    if (late) {
      BOOST_TEST((status.code() == StatusCode::kLate));
      BOOST_TEST(status.message() == std::to_string(late));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_batch_in_order_may_be_late_as_well) {
  Batch batch{{}, 3};
  batch.columns.push_back(testing::Int64s({1, 2, 3}));
  Order order;
  BOOST_TEST(RunOrder(batch, 1, KeyOf({testing::IntValue(3)}), Late::kDivert, &order).ok());
  BOOST_TEST(!order.identity);
  BOOST_TEST((RowsOf(order) == std::vector<BatchRow>{2}));
  BOOST_TEST((order.diverted == std::vector<BatchRow>{0, 1}));
  Order all_late;
  BOOST_TEST(RunOrder(batch, 1, KeyOf({testing::IntValue(9)}), Late::kDivert, &all_late).ok());
  BOOST_TEST(all_late.running == 0);
  BOOST_TEST(all_late.keyed == 0);
  BOOST_TEST(all_late.diverted.size() == 3u);
}

BOOST_AUTO_TEST_CASE(lateness_compares_every_part_of_the_key) {
  const std::string text = "b";
  Batch batch{{}, 4};
  batch.columns.push_back(testing::Int64s({1, 2, 2, 2}));
  batch.columns.push_back(testing::Strings({"z", "a", "b", "c"}));
  Order order;
  const OrderKey last = KeyOf({testing::IntValue(2), testing::StringValue(text)});
  BOOST_TEST(RunOrder(batch, 1, last, Late::kAdmit, &order).ok());
  BOOST_TEST(order.late == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
