// What operations on rows mean, for both machines, wherever the rows are: which failure comes first, and what happens
// if there is none. Every function says how it fails, or kFine; nothing has changed if it fails. The usual ones are
// always inlined: a call would cost as much as they do.
#pragma once

#include "program/arithmetic.h"

namespace morphspark {

inline Failure CheckKey(RowHandle row) {
  if (row < kOutsideKey) [[likely]]
    return kFine;
  return row == kNullKey ? kKeyFailure : kOutsideFailure;
}

template <Kind kind, class Rows>
[[gnu::always_inline]] inline Failure ReadColumn(const Rows& rows, TableId table, RowHandle row, ColumnId column,
                                                 Value* out) {
  if (row >= kOutsideKey) [[unlikely]]
    return CheckKey(row);
  if (!rows.Readable(table, row)) [[unlikely]]
    return kMissing;
  rows.template Read<kind>(table, row, column, out);
  return kFine;
}

template <Kind kind, class Rows>
[[gnu::always_inline]] inline Failure WriteColumn(Rows& rows, TableId table, RowHandle row, ColumnId column,
                                                  const Value& value, bool null) {
  if (row >= kOutsideKey) [[unlikely]]
    return CheckKey(row);
  if (null) [[unlikely]]
    return kNull1;
  if (!rows.Readable(table, row)) [[unlikely]]
    return kMissing;
  rows.template Write<kind>(table, row, column, value);
  return kFine;
}

// row.column += by, or -=.
enum class Change { kIncrease, kDecrease };
template <Kind kind, Change change, class Rows>
[[gnu::always_inline]] inline Failure UpdateColumn(Rows& rows, TableId table, RowHandle row, ColumnId column,
                                                   const Value& by, bool null) {
  static_assert(kind == Kind::kInt64 || kind == Kind::kFloat64);
  if (row >= kOutsideKey) [[unlikely]]
    return CheckKey(row);
  if (!rows.Readable(table, row)) [[unlikely]]
    return kMissing;
  if (null) [[unlikely]]
    return kNull1;
  const auto changed = [&by](Value* value) {
    if constexpr (kind == Kind::kFloat64) {
      value->f = change == Change::kIncrease ? value->f + by.f : value->f - by.f;
      return true;
    } else if constexpr (change == Change::kIncrease) {
      return Add(value->i, by.i, &value->i) == kFine;
    } else {
      return Sub(value->i, by.i, &value->i) == kFine;
    }
  };
  return rows.template Update<kind>(table, row, column, changed) ? kFine : kOverflow;
}

template <class Rows>
Failure InsertRow(Rows& rows, TableId table, RowHandle row) {
  if (row >= kOutsideKey) [[unlikely]]
    return CheckKey(row);
  if (rows.Exists(table, row)) return kExistsFailure;
  rows.Insert(table, row);
  return kFine;
}

template <class Rows>
Failure DeleteRow(Rows& rows, TableId table, RowHandle row) {
  if (row >= kOutsideKey) [[unlikely]]
    return CheckKey(row);
  rows.Delete(table, row);
  return kFine;
}

}  // namespace morphspark
