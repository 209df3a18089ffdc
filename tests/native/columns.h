// Arrow columns for tests: made from plain C++ values, and read back into them.
//
// A `Column` owns its buffers, as pyarrow would, so that the sanitizers see every read past an end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/column.h"

namespace morphspark::testing {

using Random = std::mt19937_64;

template <class T>
using Rows = std::vector<std::optional<T>>;

class Column {
 public:
  Kind kind = Kind::kNull;
  Kind element = Kind::kNull;
  int64_t length = 0;
  int64_t offset = 0;
  std::vector<uint8_t> validity;
  std::vector<uint8_t> values;
  std::vector<int32_t> offsets;
  std::unique_ptr<Column> child;

  // As pyarrow hands it over. The column must outlive it.
  ArrowArray Array() const {
    ArrowArray array{};
    array.length = length;
    array.null_count = validity.empty() ? 0 : -1;  // -1: nobody has counted
    array.offset = offset;
    buffers_.clear();
    buffers_.push_back(validity.empty() ? nullptr : validity.data());
    if (!offsets.empty()) buffers_.push_back(offsets.data());
    if (kind != Kind::kList) buffers_.push_back(values.empty() ? nullptr : values.data());
    array.n_buffers = kind == Kind::kNull ? 0 : static_cast<int64_t>(buffers_.size());
    array.buffers = buffers_.data();
    if (child) {
      child_ = child->Array();
      children_ = {&child_};
      array.n_children = 1;
      array.children = children_.data();
    }
    return array;
  }

  // What the core sees of it.
  ColumnView View() const {
    ColumnView view;
    const ArrowArray array = Array();
    const Status status = ViewColumn(array, kind, element, &view);
    if (!status.ok()) throw std::logic_error(status.message());
    return view;
  }

  // The rows from `first` on, as a slice of the same buffers.
  Column From(int64_t first) && {
    offset += first;
    length -= first;
    return std::move(*this);
  }

 private:
  // What the newest Array() points to.
  mutable std::vector<const void*> buffers_;
  mutable std::vector<ArrowArray*> children_;
  mutable ArrowArray child_{};
};

namespace internal {

template <class T>
Column Blank(Kind kind, const Rows<T>& rows) {
  Column column;
  column.kind = kind;
  column.length = static_cast<int64_t>(rows.size());
  bool nulls = false;
  for (const auto& row : rows) nulls |= !row.has_value();
  if (!nulls) return column;
  column.validity.resize((rows.size() + 7) / 8);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]) SetBit(column.validity.data(), static_cast<int64_t>(i));
  }
  return column;
}

// Null rows hold garbage, as Arrow allows.
template <class T>
Column Fixed(Kind kind, const Rows<T>& rows) {
  Column column = Blank(kind, rows);
  column.values.resize(rows.size() * sizeof(T), 0xA5);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]) std::memcpy(column.values.data() + i * sizeof(T), &*rows[i], sizeof(T));
  }
  return column;
}

}  // namespace internal

inline Column Int64s(const Rows<int64_t>& rows) { return internal::Fixed(Kind::kInt64, rows); }
inline Column Timestamps(const Rows<int64_t>& rows) { return internal::Fixed(Kind::kTimestamp, rows); }
inline Column Float64s(const Rows<double>& rows) { return internal::Fixed(Kind::kFloat64, rows); }
inline Column Decimals(const Rows<Int128>& rows) { return internal::Fixed(Kind::kDecimal, rows); }

inline Column Bools(const Rows<bool>& rows) {
  Column column = internal::Blank(Kind::kBool, rows);
  column.values.resize((rows.size() + 7) / 8);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].value_or(true)) SetBit(column.values.data(), static_cast<int64_t>(i));
  }
  return column;
}

inline Column Strings(const Rows<std::string>& rows) {
  Column column = internal::Blank(Kind::kString, rows);
  column.offsets.push_back(0);
  for (const auto& row : rows) {
    if (row) column.values.insert(column.values.end(), row->begin(), row->end());
    column.offsets.push_back(static_cast<int32_t>(column.values.size()));
  }
  return column;
}

inline Column Nulls(int64_t length) {
  Column column;
  column.length = length;
  return column;
}

// Lists of these sizes, cut from `elements` one after the other.
inline Column Lists(Column elements, const Rows<int32_t>& sizes) {
  Column column = internal::Blank(Kind::kList, sizes);
  column.element = elements.kind;
  column.offsets.push_back(0);
  for (const auto& size : sizes) column.offsets.push_back(column.offsets.back() + size.value_or(0));
  column.child = std::make_unique<Column>(std::move(elements));
  return column;
}

inline std::vector<ColumnView> Views(const std::vector<const Column*>& columns) {
  std::vector<ColumnView> views;
  for (const Column* column : columns) views.push_back(column->View());
  return views;
}

// What the core made, read as one of its own inputs.
inline ColumnView ViewOf(const ColumnBuffers& column, Kind kind) {
  ColumnView view;
  view.kind = kind;
  view.length = column.length;
  view.validity = column.null_count ? column.validity.data() : nullptr;
  view.values = column.values.data();
  view.offsets = reinterpret_cast<const int32_t*>(column.offsets.data());
  return view;
}

inline Rows<int64_t> Int64sOf(const ColumnView& view) {
  Rows<int64_t> rows;
  for (int64_t row = 0; row < view.length; ++row) {
    Value value;
    rows.push_back(view.Load(row, &value) ? std::optional(value.i) : std::nullopt);
  }
  return rows;
}

inline Rows<double> Float64sOf(const ColumnView& view) {
  Rows<double> rows;
  for (int64_t row = 0; row < view.length; ++row) {
    Value value;
    rows.push_back(view.Load(row, &value) ? std::optional(value.f) : std::nullopt);
  }
  return rows;
}

inline Rows<Int128> DecimalsOf(const ColumnView& view) {
  Rows<Int128> rows;
  for (int64_t row = 0; row < view.length; ++row) {
    Value value;
    rows.push_back(view.Load(row, &value) ? std::optional(value.d) : std::nullopt);
  }
  return rows;
}

inline Rows<std::string> StringsOf(const ColumnView& view) {
  Rows<std::string> rows;
  for (int64_t row = 0; row < view.length; ++row) {
    Value value;
    const bool there = view.Load(row, &value);
    rows.push_back(there ? std::optional(std::string(value.s.view())) : std::nullopt);
  }
  return rows;
}

inline Bytes BytesOf(const std::string& text) { return {text.data(), text.size()}; }

inline Value IntValue(int64_t i) {
  Value value;
  value.d = 0;
  value.i = i;
  return value;
}
inline Value FloatValue(double f) {
  Value value;
  value.d = 0;
  value.f = f;
  return value;
}
inline Value DecimalValue(Int128 d) {
  Value value;
  value.d = d;
  return value;
}
// The text must outlive the value.
inline Value StringValue(const std::string& text) {
  Value value;
  value.s = BytesOf(text);
  return value;
}

// A column of a table's row.
template <Kind kind, class Table>
Value Stored(const Table& table, Slot slot, ColumnId column) {
  Value value;
  table.template Read<kind>(slot, column, &value);
  return value;
}

inline std::string RandomText(Random* random, size_t size_max) {
  std::string text((*random)() % (size_max + 1), ' ');
  for (char& letter : text) letter = static_cast<char>('a' + (*random)() % 26);
  return text;
}

}  // namespace morphspark::testing
