// Arrow in and out: views look into buffers, exported columns own theirs.
#include "base/column.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <vector>

#include "columns.h"

namespace morphspark {
namespace {

using testing::Column;
using testing::Rows;

BOOST_AUTO_TEST_SUITE(columns)

BOOST_AUTO_TEST_CASE(a_view_reads_every_kind_and_its_nulls) {
  const Int128 large = Int128{1} << 100;
  const Column ints = testing::Int64s({1, {}, INT64_MIN});
  const Column floats = testing::Float64s({{}, 0.5, -0.0});
  const Column bools = testing::Bools({true, {}, false});
  const Column decimals = testing::Decimals({-large, large, {}});
  const Column strings = testing::Strings({"", {}, "text"});
  BOOST_TEST((testing::Int64sOf(ints.View()) == Rows<int64_t>{1, {}, INT64_MIN}));
  BOOST_TEST((testing::Float64sOf(floats.View()) == Rows<double>{{}, 0.5, -0.0}));
  BOOST_TEST((testing::Int64sOf(bools.View()) == Rows<int64_t>{1, {}, 0}));
  BOOST_TEST((testing::DecimalsOf(decimals.View()) == Rows<Int128>{-large, large, {}}));
  BOOST_TEST((testing::StringsOf(strings.View()) == Rows<std::string>{"", {}, "text"}));
  BOOST_TEST((testing::Int64sOf(testing::Nulls(2).View()) == Rows<int64_t>{{}, {}}));
}

BOOST_AUTO_TEST_CASE(a_slice_begins_where_it_should_in_every_buffer) {
  const Column ints = testing::Int64s({0, 1, {}, 3}).From(1);
  const Column bools = testing::Bools({true, true, false, {}}).From(2);
  const Column strings = testing::Strings({"a", "bc", {}, "def"}).From(1);
  BOOST_TEST((testing::Int64sOf(ints.View()) == Rows<int64_t>{1, {}, 3}));
  BOOST_TEST((testing::Int64sOf(bools.View()) == Rows<int64_t>{0, {}}));
  BOOST_TEST((testing::StringsOf(strings.View()) == Rows<std::string>{"bc", {}, "def"}));
}

BOOST_AUTO_TEST_CASE(lists_point_into_their_child) {
  Column elements = testing::Int64s({99, 1, 2, {}, 4}).From(1);
  const Column lists = testing::Lists(std::move(elements), {2, {}, 0, 2}).From(1);
  const ColumnView view = lists.View();
  BOOST_TEST(view.IsNull(0));
  BOOST_TEST(view.List(1).size == 0);
  const ListRange last = view.List(2);
  BOOST_TEST(last.start == 2);
  BOOST_TEST(last.size == 2);
  BOOST_TEST(view.child->IsNull(last.start));
  BOOST_TEST(view.child->Int64(last.start + 1) == 4);
}

BOOST_AUTO_TEST_CASE(empty_strings_have_an_address) {
  // An Arrow column whose strings are all empty may have no buffer of bytes.
  const Column strings = testing::Strings({"", ""});
  BOOST_TEST(strings.Array().buffers[2] == nullptr);
  BOOST_TEST((strings.View().String(1).data != nullptr));
  BOOST_TEST(strings.View().String(1).size == 0u);
}

BOOST_AUTO_TEST_CASE(an_empty_column_may_have_no_buffers) {
  const void* nothing[3] = {nullptr, nullptr, nullptr};
  ArrowArray array{};
  array.buffers = nothing;
  for (Kind kind : {Kind::kInt64, Kind::kString, Kind::kBool, Kind::kDecimal, Kind::kNull}) {
    array.n_buffers = kind == Kind::kString ? 3 : kind == Kind::kNull ? 0 : 2;
    ColumnView view;
    BOOST_TEST(ViewColumn(array, kind, Kind::kNull, &view).ok());
    BOOST_TEST(view.length == 0);
  }
}

BOOST_AUTO_TEST_CASE(the_wrong_buffers_are_refused) {
  const Column ints = testing::Int64s({1});
  const ArrowArray array = ints.Array();
  ColumnView view;
  BOOST_TEST(!ViewColumn(array, Kind::kString, Kind::kNull, &view).ok());
  BOOST_TEST(!ViewColumn(array, Kind::kList, Kind::kInt64, &view).ok());  // no child
}

ColumnBuffers SomeStrings() {
  ColumnBuffers column;
  column.length = 2;
  column.null_count = 1;
  column.validity.assign(1, 0b01);
  column.values.assign(5, 'x');
  column.offsets.resize(3 * sizeof(int32_t));
  const int32_t offsets[] = {0, 5, 5};
  std::memcpy(column.offsets.data(), offsets, sizeof(offsets));
  return column;
}

BOOST_AUTO_TEST_CASE(an_exported_column_owns_its_memory_until_released) {
  ArrowArray array;
  ExportColumn(SomeStrings(), &array);
  BOOST_TEST(array.length == 2);
  BOOST_TEST(array.null_count == 1);
  BOOST_TEST(array.n_buffers == 3);
  ColumnView view;
  BOOST_REQUIRE(ViewColumn(array, Kind::kString, Kind::kNull, &view).ok());
  BOOST_TEST((testing::StringsOf(view) == Rows<std::string>{"xxxxx", {}}));
  array.release(&array);  // the leak checker knows if this frees everything
  BOOST_TEST((array.release == nullptr));
}

BOOST_AUTO_TEST_CASE(columns_may_be_released_on_any_thread) {
  std::vector<ArrowArray> arrays(64);
  for (ArrowArray& array : arrays) {
    ColumnBuffers column;
    column.length = 100'000;
    column.values.assign(100'000, 1);  // large enough for the pool of buffers
    ExportColumn(std::move(column), &array);
  }
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (size_t i = first; i < arrays.size(); i += 4) arrays[i].release(&arrays[i]);
    });
  }
  for (int i = 0; i < 20; ++i) {
    Buffer taken(100'000);
    TrimBufferPool();
  }
  for (std::thread& thread : threads) thread.join();
  for (int epoch = 0; epoch < 20; ++epoch) TrimBufferPool();
  for (const ArrowArray& array : arrays) BOOST_TEST((array.release == nullptr));
}

BOOST_AUTO_TEST_CASE(an_empty_buffer_is_exported_as_an_address) {
  ArrowArray array;
  ExportColumn(ColumnBuffers(), &array);
  BOOST_TEST(array.n_buffers == 2);
  BOOST_TEST(array.buffers[0] == nullptr);
  BOOST_TEST((array.buffers[1] != nullptr));
  array.release(&array);
}

BOOST_AUTO_TEST_CASE(validity_is_dropped_where_nothing_is_null) {
  for (uint64_t length : {0, 1, 7, 8, 9, 64, 65}) {
    Buffer valid;
    valid.assign(length, 1);
    ColumnBuffers column;
    SetValidity(valid, &column);
    BOOST_TEST(column.null_count == 0);
    BOOST_TEST(column.validity.empty());
    if (length == 0) continue;
    valid[length - 1] = 0;
    SetValidity(valid, &column);
    BOOST_TEST(column.null_count == 1);
    BOOST_TEST(column.validity.size() == (length + 7) / 8);
    for (uint64_t row = 0; row < length; ++row) {
      BOOST_TEST(GetBit(column.validity.data(), static_cast<int64_t>(row)) == (row + 1 < length));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_buffer_keeps_its_bytes_when_it_grows) {
  Buffer buffer;
  for (uint64_t size = 1; size < 200'000; size = size * 3 + 1) {
    const uint64_t before = buffer.size();
    buffer.resize(size);
    for (uint64_t i = before; i < size; ++i) buffer[i] = static_cast<uint8_t>(i * 7);
    for (uint64_t i = 0; i < size; ++i) BOOST_REQUIRE_EQUAL(buffer[i], static_cast<uint8_t>(i * 7));
  }
  Buffer moved = std::move(buffer);
  BOOST_TEST(moved[1000] == static_cast<uint8_t>(7000));
  buffer = Buffer(10);
  std::swap(buffer, moved);
  BOOST_TEST(buffer[1000] == static_cast<uint8_t>(7000));
  BOOST_TEST(moved.size() == 10u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
