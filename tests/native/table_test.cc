// Tables: versions, undo and epochs against a model that copies everything.
#include "state/table.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "columns.h"
#include "simulation.h"

namespace morphspark {
namespace {

using testing::BytesOf;
using testing::Column;
using testing::Contents;
using testing::KeyForm;
using testing::Random;
using testing::Row;
using testing::Rows;
using testing::Simulation;
using testing::SpecOf;
using enum testing::SimulatedColumn;

BOOST_AUTO_TEST_SUITE(table)

BOOST_AUTO_TEST_CASE(random_transactions_agree_with_a_model) {
  uint64_t seed = 100;
  for (KeyForm form : {KeyForm::kInteger, KeyForm::kString, KeyForm::kComposite}) {
    for (bool has_default : {false, true}) {
      for (int round = 0; round < 5; ++round) {
        Table table(SpecOf(form, has_default));
        Simulation simulation(&table, form, seed++);
        Random random(seed);
        for (int epoch = 0; epoch < 60; ++epoch) simulation.Epoch(random() % 3 != 0);
      }
    }
  }
}

TableSpec Integers(bool has_default = false) {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {Kind::kInt64};
  spec.has_default = has_default;
  if (has_default) spec.defaults = {testing::IntValue(0)};
  spec.default_text.resize(spec.defaults.size());
  return spec;
}

void Put(Table* table, int64_t key, int64_t value) {
  const Slot slot = table->FindOrAdd(key);
  if (table->Exists(slot))
    table->Own(slot);
  else
    table->Insert(slot);
  table->Store(slot, 0, testing::IntValue(value));
}

void PutAlone(Table* table, int64_t key, int64_t value, Stamp stamp) {
  table->Begin(stamp);
  Put(table, key, value);
}

BOOST_AUTO_TEST_CASE(undo_takes_back_one_transaction_and_no_more) {
  Table table(Integers());
  table.Begin(1);
  Put(&table, 1, 10);
  table.Begin(2);
  Put(&table, 1, 20);
  table.Begin(3);
  Put(&table, 1, 30);
  Put(&table, 1, 31);
  Put(&table, 2, 30);
  const Slot one = table.FindOrAdd(1), two = table.FindOrAdd(2);
  table.Undo();
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, one, 0).i == 20);
  BOOST_TEST(!table.Exists(two));
  BOOST_TEST(table.rows() == 1u);
  table.Undo();  // it has nothing left to undo
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, one, 0).i == 20);
  BOOST_TEST(table.Validate());
  table.CommitEpoch();
  BOOST_TEST(table.rows() == 1u);
  BOOST_TEST(table.Validate());
}

BOOST_AUTO_TEST_CASE(a_row_deleted_and_inserted_again_in_one_transaction) {
  Table table(Integers());
  table.Begin(1);
  Put(&table, 1, 10);
  table.CommitEpoch();
  const Slot slot = table.FindOrAdd(1);
  table.Begin(2);
  table.Delete(slot);
  table.Delete(slot);
  BOOST_TEST(table.rows() == 0u);
  Put(&table, 1, 20);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, slot, 0).i == 20);
  table.Undo();
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, slot, 0).i == 10);
  table.Begin(3);
  table.Delete(slot);
  table.Begin(4);
  Put(&table, 1, 30);
  table.CommitEpoch();
  BOOST_TEST(table.FindOrAdd(1) == slot);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, slot, 0).i == 30);
  BOOST_TEST(table.Validate());
}

BOOST_AUTO_TEST_CASE(a_default_row_exists_only_once_written) {
  Table table(Integers(true));
  const Slot slot = table.FindOrAdd(5);
  BOOST_TEST(table.Readable(slot));
  BOOST_TEST(!table.Exists(slot));
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, slot, 0).i == 0);
  table.Begin(1);
  table.Own(slot);
  BOOST_TEST(table.Exists(slot));
  table.Undo();
  BOOST_TEST(!table.Exists(slot));
  table.CommitEpoch();
  BOOST_TEST(table.index().size() == 0u);
  BOOST_TEST(table.Validate());
}

BOOST_AUTO_TEST_CASE(slots_are_used_again_after_deletes_and_after_keys_without_rows) {
  Table table(Integers());
  Stamp stamp = 1;
  for (int64_t key = 0; key < 1'000; ++key) PutAlone(&table, key, key, stamp++);
  table.CommitEpoch();
  const uint64_t bytes = table.bytes_reserved();
  for (int64_t epoch = 1; epoch <= 50; ++epoch) {
    for (int64_t key = 0; key < 500; ++key) {
      table.FindOrAdd(1'000'000 * epoch + key);  // named, never written
    }
    table.CommitEpoch();
    for (int64_t key = 0; key < 500; ++key) {
      table.Begin(stamp++);
      table.Delete(table.FindOrAdd((epoch - 1) * 500 + key));
    }
    if (epoch % 2) table.CommitEpoch();  // else the slots are free only at the end of the epoch
    for (int64_t key = 0; key < 500; ++key) PutAlone(&table, 500 + epoch * 500 + key, key, stamp++);
    table.CommitEpoch();
    BOOST_REQUIRE_EQUAL(table.rows(), 1'000u);
    BOOST_REQUIRE(table.Validate());
  }
  // At most 1500 keys had a slot at any time.
  BOOST_TEST(table.bytes_reserved() <= 4 * bytes);
  for (Slot slot : table.LiveSlots()) BOOST_REQUIRE(slot < 1'500u);
}

BOOST_AUTO_TEST_CASE(a_rollback_gives_back_the_keys_it_added) {
  Table table(Integers());
  PutAlone(&table, 1, 1, 1);
  table.CommitEpoch();
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (int64_t key = 0; key < 1'000; ++key) PutAlone(&table, key, key, 2 + static_cast<Stamp>(key));
    table.RollbackEpoch();
    BOOST_REQUIRE(table.Validate());
    BOOST_REQUIRE_EQUAL(table.index().size(), 1u);
  }
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, table.FindOrAdd(1), 0).i == 1);
}

BOOST_AUTO_TEST_CASE(strings_that_are_overwritten_are_given_back) {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {Kind::kString, Kind::kInt64, Kind::kString};
  Table table(spec);
  Stamp stamp = 1;
  uint64_t bytes_max = 0;
  for (int epoch = 0; epoch < 200; ++epoch) {  // 20 MB pass through, 200 KB live
    const std::string text(1'000, static_cast<char>('a' + epoch % 26));
    for (int64_t key = 0; key < 100; ++key, ++stamp) {
      const Slot slot = table.FindOrAdd(key);
      table.Begin(stamp);
      if (table.Exists(slot))
        table.Own(slot);
      else
        table.Insert(slot);
      for (ColumnId column : {0u, 2u}) table.Store(slot, column, testing::StringValue(text));
      table.Store(slot, 1, testing::IntValue(key));
    }
    if (epoch % 5 == 4) {
      table.RollbackEpoch();
    } else {
      table.CommitEpoch();
    }
    bytes_max = std::max(bytes_max, table.bytes_reserved());
    for (int64_t key = 0; key < 100 && epoch % 10 == 0; ++key) {
      BOOST_REQUIRE_EQUAL(testing::Stored<Kind::kString>(table, table.FindOrAdd(key), 2).s.view(), text);
    }
  }
  BOOST_TEST(table.Validate());
  BOOST_TEST(bytes_max < 8u << 20);
}

BOOST_AUTO_TEST_CASE(a_version_log_is_reused_not_grown) {
  Table table(Integers());
  Stamp stamp = 1;
  uint64_t bytes = 0;
  for (int epoch = 0; epoch < 100; ++epoch) {
    for (int i = 0; i < 1'000; ++i) PutAlone(&table, i % 10, i, stamp++);
    table.CommitEpoch();
    if (epoch == 5) bytes = table.bytes_reserved();
  }
  BOOST_TEST(table.bytes_reserved() == bytes);
}

BOOST_AUTO_TEST_CASE(nan_is_stored_in_one_form) {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {Kind::kFloat64};
  Table table(spec);
  const Slot slot = table.FindOrAdd(1);
  table.Begin(1);
  table.Insert(slot);
  table.Store(slot, 0, testing::FloatValue(-std::numeric_limits<double>::quiet_NaN()));
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, slot, 0).i == 0x7FF8000000000000);
  table.Store(slot, 0, testing::FloatValue(-0.0));
  BOOST_TEST(std::signbit(testing::Stored<Kind::kInt64>(table, slot, 0).f));
}

// ------------------------------------------------------------------------------- loading and exporting

BOOST_AUTO_TEST_CASE(all_kinds_survive_loading_and_exporting) {
  Random random(31);
  for (int64_t count : {0, 1, 9, 1'000}) {
    Rows<int64_t> keys, numbers, times;
    Rows<std::string> texts;
    Rows<bool> flags;
    Rows<Int128> amounts;
    Rows<double> rates;
    std::map<int64_t, Row> expected;
    for (int64_t key = 0; key < count; ++key) {
      const Row row = testing::RandomRow(&random);
      expected[key * 3 - 100] = row;
      keys.push_back(key * 3 - 100);
      numbers.push_back(row.number);
      texts.push_back(row.text);
      flags.push_back(row.flag);
      amounts.push_back(row.amount);
      rates.push_back(row.rate);
      times.push_back(row.time);
    }
    const Column columns[] = {testing::Int64s(numbers),   testing::Strings(texts),  testing::Bools(flags),
                              testing::Decimals(amounts), testing::Float64s(rates), testing::Timestamps(times)};
    std::vector<ColumnView> key_views, value_views;
    const Column key_column = testing::Int64s(keys);
    key_views.push_back(key_column.View());
    for (const Column& column : columns) value_views.push_back(column.View());

    Table table(SpecOf(KeyForm::kInteger, false));
    BOOST_REQUIRE(table.Apply(key_views, value_views).ok());
    BOOST_REQUIRE(table.Validate());
    BOOST_REQUIRE(Contents(table, KeyForm::kInteger) == expected);
    table.RollbackEpoch();  // a load is part of no epoch
    BOOST_REQUIRE(Contents(table, KeyForm::kInteger) == expected);

    const std::vector<Slot> slots = table.LiveSlots();
    const auto values = [&](ColumnId column, Kind kind) {
      static ColumnBuffers buffers;
      buffers = table.ExportValues(column, slots);
      return testing::ViewOf(buffers, kind);
    };
    // Slots are given in the order of first use, so rows come back as they went in.
    BOOST_REQUIRE(testing::Int64sOf(values(kNumber, Kind::kInt64)) == numbers);
    BOOST_REQUIRE(testing::StringsOf(values(kText, Kind::kString)) == texts);
    BOOST_REQUIRE(testing::DecimalsOf(values(kAmount, Kind::kDecimal)) == amounts);
    BOOST_REQUIRE(testing::Float64sOf(values(kRate, Kind::kFloat64)) == rates);
    BOOST_REQUIRE(testing::Int64sOf(values(kTime, Kind::kTimestamp)) == times);
    const ColumnBuffers bits = table.ExportValues(kFlag, slots);
    BOOST_REQUIRE_EQUAL(bits.values.size(), static_cast<uint64_t>(count + 7) / 8);
    for (int64_t i = 0; i < count; ++i) BOOST_REQUIRE_EQUAL(GetBit(bits.values.data(), i), *flags[i]);
  }
}

BOOST_AUTO_TEST_CASE(composite_keys_survive_loading_and_exporting) {
  const std::vector<Kind> parts = {Kind::kString, Kind::kInt64, Kind::kString};
  // Parts that would be the same bytes if they were only laid end to end.
  const Column names = testing::Strings({"a", "ab", "", "", "long enough to be on the heap"});
  const Column numbers = testing::Int64s({1, 1, 0, INT64_MIN, 5});
  const Column tails = testing::Strings({"bc", "c", "", "x", std::string(100, 't')});
  const Column values = testing::Int64s({10, 20, 30, 40, 50});
  TableSpec spec;
  spec.key = parts;
  spec.columns = {Kind::kInt64};
  Table table(spec);
  const std::vector<ColumnView> key_views = testing::Views({&names, &numbers, &tails});
  BOOST_REQUIRE(table.Apply(key_views, testing::Views({&values})).ok());
  BOOST_TEST(table.rows() == 5u);
  BOOST_TEST(table.Validate());
  const std::vector<Slot> slots = table.LiveSlots();
  const ColumnBuffers first = table.ExportKey(0, slots);
  const ColumnBuffers second = table.ExportKey(1, slots);
  const ColumnBuffers third = table.ExportKey(2, slots);
  BOOST_TEST((testing::StringsOf(testing::ViewOf(first, Kind::kString)) == testing::StringsOf(key_views[0])));
  BOOST_TEST((testing::Int64sOf(testing::ViewOf(second, Kind::kInt64)) == testing::Int64sOf(key_views[1])));
  BOOST_TEST((testing::StringsOf(testing::ViewOf(third, Kind::kString)) == testing::StringsOf(key_views[2])));

  std::string key;
  AppendKeyPart(Kind::kString, testing::StringValue("ab"), &key);
  AppendKeyPart(Kind::kInt64, testing::IntValue(1), &key);
  AppendKeyPart(Kind::kString, testing::StringValue("c"), &key);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, table.FindOrAdd(BytesOf(key)), 0).i == 20);
}

BOOST_AUTO_TEST_CASE(rows_that_can_not_be_applied_change_nothing) {
  TableSpec spec;
  spec.key = {Kind::kString};
  spec.columns = {Kind::kInt64, Kind::kDecimal};
  Table table(spec);
  const Column keys = testing::Strings({"a", "b"}), numbers = testing::Int64s({1, 2});
  const Column amounts = testing::Decimals({Int128{10}, Int128{INT64_MIN}});
  const Column deleted = testing::Bools({false, true});
  const ColumnView bits = deleted.View();
  const auto refused = [&](std::vector<const Column*> key, std::vector<const Column*> values, const ColumnView* gone) {
    const Status status = table.Apply(testing::Views(key), testing::Views(values), gone);
    BOOST_TEST((status.code() == StatusCode::kInvalid));
    BOOST_TEST(table.rows() == 0u);
    BOOST_TEST(table.Validate());
  };
  const Column null_keys = testing::Strings({"a", {}}), null_numbers = testing::Int64s({{}, 2});
  const Column null_bits = testing::Bools({true, {}}), short_numbers = testing::Int64s({1});
  const Column large = testing::Decimals({Int128{1}, Int128{INT64_MAX} + 1}), nothing = testing::Nulls(2);
  const ColumnView null_deleted = null_bits.View(), number_deleted = numbers.View();
  refused({&null_keys}, {&numbers, &amounts}, nullptr);
  refused({&keys}, {&null_numbers, &amounts}, nullptr);
  refused({&keys}, {&nothing, &amounts}, nullptr);
  refused({&keys}, {&short_numbers, &amounts}, nullptr);
  refused({&keys}, {&amounts, &numbers}, nullptr);
  refused({&keys}, {&numbers}, nullptr);
  refused({}, {&numbers, &amounts}, nullptr);
  refused({&keys}, {&numbers, &large}, nullptr);
  refused({&keys}, {&numbers, &amounts}, &null_deleted);
  refused({&keys}, {&numbers, &amounts}, &number_deleted);
  BOOST_TEST(table.Apply(testing::Views({&keys}), testing::Views({&numbers, &amounts}), &bits).ok());
  BOOST_TEST(table.rows() == 1u);
  BOOST_TEST(table.slots() == 1u);  // a row that is not there gets none to be deleted
  BOOST_TEST(table.Validate());
}

// More rows than one thread takes at once, in columns that begin somewhere in their buffers.
BOOST_AUTO_TEST_CASE(many_rows_are_applied_and_exported_on_all_threads) {
  ThreadPool pool(3);
  const int64_t count = 30'000, first = 13;
  Rows<std::string> names, texts;
  Rows<int64_t> numbers;
  Rows<bool> flags, deleted;
  for (int64_t row = 0; row < count + first; ++row) {
    names.push_back(std::string(static_cast<size_t>(row % 30), 'n') + std::to_string(row * 7 % 20'011));
    texts.push_back(std::to_string(row));
    numbers.push_back(row);
    flags.push_back(row % 3 == 0);
    deleted.push_back(row % 5 == 0);
  }
  TableSpec spec;
  spec.key = {Kind::kString};
  spec.columns = {Kind::kString, Kind::kInt64, Kind::kBool};
  Table table(spec);
  std::map<std::string, int64_t> expected;
  for (int64_t row = first; row < count + first; ++row) {
    if (*deleted[row])
      expected.erase(*names[row]);
    else
      expected[*names[row]] = row;
  }
  const Column keys = testing::Strings(names).From(first), gone = testing::Bools(deleted).From(first);
  const Column columns[] = {testing::Strings(texts).From(first), testing::Int64s(numbers).From(first),
                            testing::Bools(flags).From(first)};
  const std::vector<ColumnView> values = testing::Views({&columns[0], &columns[1], &columns[2]});
  const ColumnView bits = gone.View();
  for (int times = 0; times < 2; ++times) {
    BOOST_REQUIRE(table.Apply(testing::Views({&keys}), values, &bits, &pool).ok());
    BOOST_REQUIRE(table.Validate());
    const std::vector<Slot> slots = table.LiveSlots();
    BOOST_REQUIRE_EQUAL(slots.size(), expected.size());
    const ColumnBuffers found[] = {table.ExportKey(0, slots, &pool), table.ExportValues(0, slots, &pool),
                                   table.ExportValues(1, slots, &pool), table.ExportValues(2, slots, &pool)};
    for (int64_t i = 0; i < static_cast<int64_t>(slots.size()); ++i) {
      const std::string key(testing::ViewOf(found[0], Kind::kString).String(i).view());
      const int64_t row = expected.at(key);
      BOOST_REQUIRE_EQUAL(testing::ViewOf(found[1], Kind::kString).String(i).view(), *texts[row]);
      BOOST_REQUIRE_EQUAL(testing::ViewOf(found[2], Kind::kInt64).Int64(i), row);
      BOOST_REQUIRE_EQUAL(testing::ViewOf(found[3], Kind::kBool).Bool(i), *flags[row]);
    }
  }
}

BOOST_AUTO_TEST_CASE(of_two_rows_with_one_key_the_last_is_loaded) {
  const Column keys = testing::Int64s({1, 2, 1});
  const Column values = testing::Int64s({10, 20, 30});
  Table table(Integers());
  BOOST_REQUIRE(table.Apply(testing::Views({&keys}), testing::Views({&values})).ok());
  BOOST_TEST(table.rows() == 2u);
  BOOST_TEST(testing::Stored<Kind::kInt64>(table, table.FindOrAdd(1), 0).i == 30);
  BOOST_TEST(table.Validate());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
