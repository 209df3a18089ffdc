// Pass-through columns in another order: canonical Arrow, whatever came in.
#include "output/gather.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "columns.h"

namespace morphspark {
namespace {

using testing::Random;
using testing::Rows;

// A fixed-width or variable-size array made by hand: any width, garbage under nulls, any offset.
struct Input {
  GatherLayout layout;
  int64_t length = 0, offset = 0;
  std::vector<uint8_t> validity, values, offsets;
  const void* buffers[3] = {nullptr, nullptr, nullptr};

  ArrowArray Array() {
    ArrowArray array{};
    array.length = length;
    array.offset = offset;
    array.null_count = validity.empty() ? 0 : -1;
    int count = 0;
    buffers[count++] = validity.empty() ? nullptr : validity.data();
    if (layout.offset_bytes) buffers[count++] = offsets.empty() ? nullptr : offsets.data();
    buffers[count++] = values.empty() ? nullptr : values.data();
    array.n_buffers = count;
    array.buffers = buffers;
    return array;
  }
  bool Valid(int64_t row) const { return validity.empty() || GetBit(validity.data(), offset + row); }
  int64_t OffsetAt(int64_t at) const {
    int64_t value = 0;
    std::memcpy(&value, offsets.data() + at * layout.offset_bytes, layout.offset_bytes);
    return value;
  }
  // The bytes of a row that is not null; a bit as one byte.
  std::string At(int64_t row) const {
    const int64_t at = offset + row;
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    if (layout.offset_bytes) return std::string(bytes + OffsetAt(at), bytes + OffsetAt(at + 1));
    if (layout.bits == 1) return std::string(1, GetBit(values.data(), at) ? '\1' : '\0');
    return std::string(bytes + at * layout.bits / 8, layout.bits / 8);
  }
};

Input RandomInput(GatherLayout layout, int64_t length, bool nulls, int64_t offset, Random* random) {
  Input input;
  input.layout = layout;
  input.length = length;
  input.offset = offset;
  const int64_t total = length + offset;
  if (nulls) {
    for (int64_t i = 0; i < (total + 7) / 8; ++i) input.validity.push_back(static_cast<uint8_t>((*random)()));
  }
  int64_t bytes = layout.bits == 1 ? (total + 7) / 8 : total * layout.bits / 8;
  if (layout.offset_bytes) {
    input.offsets.resize((total + 1) * layout.offset_bytes);
    bytes = 0;
    for (int64_t row = 0; row < total; ++row) {
      bytes += static_cast<int64_t>((*random)() % 4);
      std::memcpy(input.offsets.data() + (row + 1) * layout.offset_bytes, &bytes, layout.offset_bytes);
    }
  }
  for (int64_t i = 0; i < bytes; ++i) input.values.push_back(static_cast<uint8_t>((*random)()));
  return input;
}

// The result read back, and the rules of canonical form checked on the way.
Rows<std::string> ReadCanonical(const ColumnBuffers& column, GatherLayout layout) {
  Input result;
  result.layout = layout;
  result.length = column.length;
  result.validity.assign(column.validity.data(), column.validity.data() + column.validity.size());
  result.values.assign(column.values.data(), column.values.data() + column.values.size());
  result.offsets.assign(column.offsets.data(), column.offsets.data() + column.offsets.size());
  BOOST_REQUIRE_EQUAL(column.validity.empty(), column.null_count == 0);
  Rows<std::string> rows;
  int64_t nulls = 0;
  for (int64_t row = 0; row < column.length; ++row) {
    const std::string bytes = result.At(row);
    const bool valid = result.Valid(row);
    nulls += !valid;
    if (!valid) {  // nothing hides under a null
      BOOST_REQUIRE(std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; }));
      if (layout.offset_bytes) BOOST_REQUIRE(bytes.empty());
    }
    rows.push_back(valid ? std::optional(bytes) : std::nullopt);
  }
  BOOST_REQUIRE_EQUAL(nulls, column.null_count);
  ArrowArray array = result.Array();
  array.null_count = column.null_count;
  BOOST_REQUIRE(IsCanonical(array, layout));
  return rows;
}

const std::vector<GatherLayout> kLayouts = {{1, 0}, {8, 0}, {16, 0}, {32, 0}, {64, 0}, {128, 0}, {0, 4}, {0, 8}};

BOOST_AUTO_TEST_SUITE(gather)

BOOST_AUTO_TEST_CASE(every_layout_in_a_random_order) {
  Random random(21);
  ThreadPool pool(3);
  for (const GatherLayout& layout : kLayouts) {
    for (int64_t length : {0, 1, 7, 8, 9, 1'000}) {
      for (bool nulls : {false, true}) {
        for (int64_t offset : {0, 3}) {
          Input input = RandomInput(layout, length, nulls, offset, &random);
          std::vector<int64_t> rows(length);
          std::iota(rows.begin(), rows.end(), 0);
          std::shuffle(rows.begin(), rows.end(), random);
          rows.resize(length - length / 4);  // some rows may be left out
          Rows<std::string> expected;
          for (int64_t row : rows) expected.push_back(input.Valid(row) ? std::optional(input.At(row)) : std::nullopt);
          const ColumnBuffers column = Gather(input.Array(), layout, false, rows, &pool);
          BOOST_REQUIRE(ReadCanonical(column, layout) == expected);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(identity_keeps_the_order_and_cleans_up) {
  Random random(22);
  ThreadPool pool(2);
  for (const GatherLayout& layout : kLayouts) {
    Input input = RandomInput(layout, 500, true, 5, &random);
    const ColumnBuffers column = Gather(input.Array(), layout, true, {}, &pool);
    const Rows<std::string> rows = ReadCanonical(column, layout);
    for (int64_t row = 0; row < 500; ++row) {
      BOOST_REQUIRE_EQUAL(rows[row].has_value(), input.Valid(row));
      if (rows[row]) BOOST_REQUIRE(*rows[row] == input.At(row));
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_do_not_share_bytes_of_bits) {
  Random random(23);
  constexpr int64_t kLength = 150'001;  // several chunks
  Input input = RandomInput({1, 0}, kLength, true, 1, &random);
  std::vector<int64_t> rows(kLength);
  for (int64_t row = 0; row < kLength; ++row) rows[row] = kLength - 1 - row;
  ThreadPool one(1), many(4);
  const ColumnBuffers expected = Gather(input.Array(), {1, 0}, false, rows, &one);
  const ColumnBuffers column = Gather(input.Array(), {1, 0}, false, rows, &many);
  BOOST_REQUIRE_EQUAL(column.values.size(), expected.values.size());
  BOOST_TEST(std::memcmp(column.values.data(), expected.values.data(), column.values.size()) == 0);
  BOOST_TEST(column.null_count == expected.null_count);
}

BOOST_AUTO_TEST_CASE(an_empty_array_may_have_no_buffers) {
  ThreadPool pool(1);
  for (const GatherLayout& layout : kLayouts) {
    Input input;
    input.layout = layout;
    const ColumnBuffers column = Gather(input.Array(), layout, true, {}, &pool);
    BOOST_TEST(column.length == 0);
    BOOST_TEST(column.null_count == 0);
    BOOST_TEST(column.offsets.size() == static_cast<uint64_t>(layout.offset_bytes));
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_canonical_is_seen) {
  struct {
    const char* what;
    bool canonical;
    Input input;
  } cases[] = {
      {"plain", true, {{64, 0}, 2, 0, {}, std::vector<uint8_t>(16, 7), {}}},
      {"sliced", false, {{64, 0}, 1, 1, {}, std::vector<uint8_t>(16, 7), {}}},
      {"zero under a null", true, {{8, 0}, 2, 0, {0b01}, {5, 0}, {}}},
      {"garbage under a null", false, {{8, 0}, 2, 0, {0b01}, {5, 9}, {}}},
      {"validity bits behind the end", false, {{8, 0}, 2, 0, {0b101}, {5, 0}, {}}},
      {"bits", true, {{1, 0}, 3, 0, {}, {0b101}, {}}},
      {"bits behind the end", false, {{1, 0}, 3, 0, {}, {0b1101}, {}}},
      {"bit under a null", false, {{1, 0}, 3, 0, {0b011}, {0b100}, {}}},
      {"strings", true, {{0, 4}, 1, 0, {}, {'a'}, {0, 0, 0, 0, 1, 0, 0, 0}}},
      {"strings that begin later", false, {{0, 4}, 1, 0, {}, {'a', 'b'}, {1, 0, 0, 0, 2, 0, 0, 0}}},
      {"string under a null", false, {{0, 4}, 1, 0, {0b0}, {'a'}, {0, 0, 0, 0, 1, 0, 0, 0}}},
      {"nothing under a null", true, {{0, 4}, 1, 0, {0b0}, {}, {0, 0, 0, 0, 0, 0, 0, 0}}},
  };
  for (auto& one : cases) {
    BOOST_TEST(IsCanonical(one.input.Array(), one.input.layout) == one.canonical, one.what);
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_width_is_refused) {
  ThreadPool pool(1);
  Input input;
  BOOST_CHECK_THROW(Gather(input.Array(), {24, 0}, true, {}, &pool), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
