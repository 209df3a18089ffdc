// Random transactions on a table and on a model that copies everything, compared at every turn: what the table holds,
// and what it says it changed.
#pragma once

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "columns.h"
#include "state/table.h"

namespace morphspark::testing {

// One column of each kind that a table stores.
struct Row {
  int64_t number = 0;
  std::string text;
  bool flag = false;
  int64_t amount = 0;  // decimal, unscaled
  double rate = 0;
  int64_t time = 0;

  auto operator<=>(const Row&) const = default;
};
enum SimulatedColumn : ColumnId { kNumber, kText, kFlag, kAmount, kRate, kTime, kColumns };

// A key is a number, and looks like this: the number, a text that is too long to lie in the index, or a short text and
// the number.
enum class KeyForm { kInteger, kString, kComposite };

using Model = std::map<int64_t, Row>;

inline const Row kDefault = {7, "default text, longer than any small buffer", true, -5, 0.5, 9};
inline const std::string kKeyText = "key of more than 20 bytes: ";

inline Value ValueOf(const Row& row, ColumnId column) {
  switch (column) {
    case kNumber:
      return IntValue(row.number);
    case kText:
      return StringValue(row.text);
    case kFlag:
      return IntValue(row.flag);
    case kAmount:
      return DecimalValue(row.amount);
    case kRate:
      return FloatValue(row.rate);
    default:
      return IntValue(row.time);
  }
}

inline void SetColumn(Row* row, ColumnId column, const Row& from) {
  switch (column) {
    case kNumber:
      row->number = from.number;
      break;
    case kText:
      row->text = from.text;
      break;
    case kFlag:
      row->flag = from.flag;
      break;
    case kAmount:
      row->amount = from.amount;
      break;
    case kRate:
      row->rate = from.rate;
      break;
    default:
      row->time = from.time;
  }
}

inline Row ReadRow(const Table& table, Slot slot) {
  return {Stored<Kind::kInt64>(table, slot, kNumber).i,
          std::string(Stored<Kind::kString>(table, slot, kText).s.view()),
          Stored<Kind::kBool>(table, slot, kFlag).i != 0,
          static_cast<int64_t>(Stored<Kind::kDecimal>(table, slot, kAmount).d),
          Stored<Kind::kInt64>(table, slot, kRate).f,  // floats are read as words
          Stored<Kind::kInt64>(table, slot, kTime).i};
}

inline Row RandomRow(Random* random, size_t text_max = 40) {
  const auto number = static_cast<int64_t>((*random)());
  return {number, RandomText(random, text_max), number % 2 == 0, number / 3, number / 7.0, number / 5};
}

inline TableSpec SpecOf(KeyForm form, bool has_default) {
  TableSpec spec;
  if (form == KeyForm::kComposite) {
    spec.key = {Kind::kString, Kind::kInt64};
  } else {
    spec.key = {form == KeyForm::kInteger ? Kind::kInt64 : Kind::kString};
  }
  spec.columns = {Kind::kInt64, Kind::kString, Kind::kBool, Kind::kDecimal, Kind::kFloat64, Kind::kTimestamp};
  spec.has_default = has_default;
  if (!has_default) return spec;
  spec.default_text.resize(kColumns);
  spec.default_text[kText] = kDefault.text;
  for (ColumnId column = 0; column < kColumns; ++column) spec.defaults.push_back(ValueOf(kDefault, column));
  return spec;
}

inline Slot FindOrAdd(Table* table, KeyForm form, int64_t number) {
  if (form == KeyForm::kInteger) return table->FindOrAdd(number);
  std::string key;
  if (form == KeyForm::kString) {
    key = kKeyText + std::to_string(number);
  } else {
    AppendKeyPart(Kind::kString, StringValue(std::to_string(number % 7)), &key);
    AppendKeyPart(Kind::kInt64, IntValue(number), &key);
  }
  return table->FindOrAdd(BytesOf(key));
}

// Rows in columns (key parts, then values) by key. None may come twice.
inline Model ModelOf(const std::vector<ColumnBuffers>& columns, KeyForm form) {
  const TableSpec spec = SpecOf(form, false);
  std::vector<ColumnView> views;
  for (size_t i = 0; i < spec.key.size() + kColumns; ++i) {
    views.push_back(ViewOf(columns[i], i < spec.key.size() ? spec.key[i] : spec.columns[i - spec.key.size()]));
  }
  Model model;
  for (int64_t row = 0; row < columns[0].length; ++row) {
    const auto value = [&](ColumnId column) {
      Value read{};
      BOOST_REQUIRE(views[spec.key.size() + column].Load(row, &read));
      return read;
    };
    int64_t key;
    if (form == KeyForm::kInteger) {
      key = views[0].Int64(row);
    } else if (form == KeyForm::kString) {
      key = std::stoll(std::string(views[0].String(row).view().substr(kKeyText.size())));
    } else {
      key = views[1].Int64(row);
      BOOST_REQUIRE_EQUAL(views[0].String(row).view(), std::to_string(key % 7));
    }
    const Row found = {value(kNumber).i,    std::string(value(kText).s.view()),
                       value(kFlag).i != 0, static_cast<int64_t>(value(kAmount).d),
                       value(kRate).f,      value(kTime).i};
    BOOST_REQUIRE(model.emplace(key, found).second);
  }
  return model;
}

inline std::vector<ColumnBuffers> Export(const Table& table, const std::vector<Slot>& slots) {
  std::vector<ColumnBuffers> columns;
  for (size_t part = 0; part < table.spec().key.size(); ++part) columns.push_back(table.ExportKey(part, slots));
  for (ColumnId column = 0; column < kColumns; ++column) columns.push_back(table.ExportValues(column, slots));
  return columns;
}

// All rows of a table by key.
inline Model Contents(const Table& table, KeyForm form) { return ModelOf(Export(table, table.LiveSlots()), form); }

class Simulation {
 public:
  // The table is empty, and its own.
  Simulation(Table* table, KeyForm form, uint64_t seed)
      : table_(*table), form_(form), mirror_(SpecOf(form, false)), random_(seed) {}

  void Epoch(bool commit) {
    const Model before = model_;
    const Stamp first = next_stamp_;
    const int transactions = static_cast<int>(random_() % 20);
    keys_ = random_() % 8 ? 60 : 400;
    text_max_ = random_() % 4 ? 40 : 3'000;
    for (int i = 0; i < transactions; ++i) Transaction(next_stamp_++);
    BOOST_REQUIRE(table_.Validate());
    BOOST_REQUIRE(Contents(table_, form_) == model_);
    CheckChanges(before, commit);
    if (commit) {
      table_.CommitEpoch();
    } else {
      table_.RollbackEpoch();
      model_ = before;
      next_stamp_ = first;  // as the engine: stamps of an epoch that never was are used again
    }
    BOOST_REQUIRE(table_.Validate());
    BOOST_REQUIRE(Contents(table_, form_) == model_);
    BOOST_REQUIRE_EQUAL(table_.rows(), model_.size());
    BOOST_REQUIRE_EQUAL(table_.index().size(), model_.size());  // keys without a row are gone
    BOOST_REQUIRE(table_.ChangedSlots().empty());
  }

  const Model& model() const { return model_; }

 private:
  void Transaction(Stamp stamp) {
    const Model before = model_;
    const int operations = static_cast<int>(random_() % 6);
    table_.Begin(stamp);
    for (int i = 0; i < operations; ++i) Operation();
    if (random_() % 3 == 0) {
      table_.Undo();
      model_ = before;
      BOOST_REQUIRE(Contents(table_, form_) == model_);
    }
  }

  void Operation() {
    const auto key = static_cast<int64_t>(random_() % keys_);
    const Slot slot = FindOrAdd(&table_, form_, key);
    const bool exists = model_.contains(key);
    BOOST_REQUIRE_EQUAL(table_.Exists(slot), exists);
    BOOST_REQUIRE_EQUAL(table_.Readable(slot), exists || table_.spec().has_default);
    const Row row = RandomRow(&random_, text_max_);
    switch (random_() % 4) {
      case 0:
        if (exists) break;
        table_.Insert(slot);
        for (ColumnId column = 0; column < kColumns; ++column) table_.Store(slot, column, ValueOf(row, column));
        model_[key] = row;
        break;
      case 1:
        table_.Delete(slot);
        model_.erase(key);
        break;
      default: {
        if (!table_.Readable(slot)) break;
        const auto column = static_cast<ColumnId>(random_() % kColumns);
        table_.Own(slot);
        table_.Store(slot, column, ValueOf(row, column));
        SetColumn(&model_.try_emplace(key, kDefault).first->second, column, row);
      }
    }
    if (table_.Readable(slot)) {
      BOOST_REQUIRE((ReadRow(table_, slot) == (model_.contains(key) ? model_[key] : kDefault)));
    }
  }

  // What changed makes of the rows before those after: in a model, and in a table that lives from changes alone.
  void CheckChanges(Model before, bool apply) {
    const std::vector<Slot> slots = table_.ChangedSlots();
    const std::vector<ColumnBuffers> columns = Export(table_, slots);
    const ColumnBuffers deleted = table_.ExportDeleted(slots);
    for (size_t row = 0; row < slots.size(); ++row) {
      BOOST_REQUIRE_EQUAL(GetBit(deleted.values.data(), static_cast<int64_t>(row)), !table_.Exists(slots[row]));
    }
    for (const auto& [key, row] : ModelOf(columns, form_)) {
      if (model_.contains(key)) {
        before[key] = row;
      } else {
        BOOST_REQUIRE((row == Row{}));           // zeros under a deleted row
        BOOST_REQUIRE(before.erase(key) == 1u);  // and it was there
      }
    }
    BOOST_REQUIRE(before == model_);
    if (!apply) return;
    const TableSpec& spec = table_.spec();
    std::vector<ColumnView> keys, values;
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool is_key = i < spec.key.size();
      const Kind kind = is_key ? spec.key[i] : spec.columns[i - spec.key.size()];
      (is_key ? keys : values).push_back(ViewOf(columns[i], kind));
    }
    const ColumnView bits = ViewOf(deleted, Kind::kBool);
    for (int times = 0; times < 2; ++times) {
      BOOST_REQUIRE(mirror_.Apply(keys, values, &bits).ok());
      BOOST_REQUIRE(mirror_.Validate());
      BOOST_REQUIRE(Contents(mirror_, form_) == model_);
    }
  }

  Table& table_;
  const KeyForm form_;
  Table mirror_;
  Model model_;
  Random random_;
  uint64_t keys_ = 60;
  size_t text_max_ = 40;
  Stamp next_stamp_ = 1;
};

}  // namespace morphspark::testing
