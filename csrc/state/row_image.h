// What a table is declared as, and a row of it in one piece: how versions of a running batch are held.
//
// An image is a number of 8-byte words, a column after the other: two words for a string (pointer and size), one for
// everything else, in the form in which flat columns hold it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/value.h"

namespace morphspark {

// Which versions of a table's rows outlive their epoch; see history.h.
struct HistorySpec {
  int64_t span = 0;           // those at most so much older than now; 0: none for their age
  int64_t rows = 0;           // and the last so many of each row
  std::vector<int64_t> gaps;  // of each session over the table
  int64_t limit = 0;          // a session is closed when it is so long; 0: never
};

struct TableSpec {
  std::vector<Kind> key;  // kInt64 or kString each
  std::vector<Kind> columns;
  bool has_default = false;
  std::vector<Value> defaults;            // one per column
  std::vector<std::string> default_text;  // what string defaults point to
  bool keeps_versions = false;
  HistorySpec history;
};

// Bytes of a cell in a flat column.
constexpr uint32_t StoredWidth(Kind kind) {
  if (kind == Kind::kBool) return 1;
  return kind == Kind::kString ? sizeof(Bytes) : 8;
}

class RowImage {
 public:
  explicit RowImage(const TableSpec& spec) {
    for (Kind kind : spec.columns) {
      offsets_.push_back(words_);
      words_ += kind == Kind::kString ? 2 : 1;
    }
  }

  uint32_t words() const { return words_; }
  uint32_t offset(ColumnId column) const { return offsets_[column]; }

  template <Kind kind>
  void Read(const uint64_t* image, ColumnId column, Value* out) const {
    const uint64_t* cell = image + offsets_[column];
    if constexpr (kind == Kind::kString) {
      std::memcpy(&out->s, cell, sizeof(Bytes));
    } else if constexpr (kind == Kind::kDecimal) {
      out->d = static_cast<int64_t>(*cell);
    } else {
      out->i = static_cast<int64_t>(*cell);
    }
  }

  // The caller sees to it that a string outlives the image.
  template <Kind kind>
  void Write(uint64_t* image, ColumnId column, const Value& value) const {
    uint64_t* cell = image + offsets_[column];
    if constexpr (kind == Kind::kString) {
      std::memcpy(cell, &value.s, sizeof(Bytes));
    } else if constexpr (kind == Kind::kDecimal) {
      *cell = static_cast<uint64_t>(value.d);
    } else if constexpr (kind == Kind::kFloat64) {
      *cell = std::bit_cast<uint64_t>(CanonicalNan(value.f));
    } else {
      *cell = static_cast<uint64_t>(value.i);
    }
  }
  void Write(uint64_t* image, ColumnId column, Kind kind, const Value& value) const {
    switch (kind) {
      case Kind::kString:
        return Write<Kind::kString>(image, column, value);
      case Kind::kDecimal:
        return Write<Kind::kDecimal>(image, column, value);
      case Kind::kFloat64:
        return Write<Kind::kFloat64>(image, column, value);
      default:
        return Write<Kind::kInt64>(image, column, value);
    }
  }

 private:
  std::vector<uint32_t> offsets_;
  uint32_t words_ = 0;
};

}  // namespace morphspark
