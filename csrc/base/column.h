// Arrow columns as the core reads them, and new ones as it hands them out.
//
// In: `ColumnView` looks into buffers that the caller keeps alive for the whole epoch. Nothing is copied.
// Out: `ColumnBuffers` owns its memory; `ExportColumn` moves it into an ArrowArray whose release callback frees it.
#pragma once

#include <cstdint>
#include <memory>

#include "arrow/c/abi.h"
#include "base/buffer.h"
#include "base/status.h"
#include "base/value.h"

namespace morphspark {

inline bool GetBit(const uint8_t* bits, int64_t index) { return bits[index >> 3] >> (index & 7) & 1; }
inline void SetBit(uint8_t* bits, int64_t index) { bits[index >> 3] |= static_cast<uint8_t>(1u << (index & 7)); }

// A column of canonical Arrow type: bool, int64, float64, utf8, timestamp[us], decimal128, null, or list of those.
struct ColumnView {
  Kind kind = Kind::kNull;
  int64_t length = 0;
  int64_t offset = 0;                 // of the first value in every buffer
  const uint8_t* validity = nullptr;  // null: no value is null
  const uint8_t* values = nullptr;    // fixed-width values, bits, or string bytes
  const int32_t* offsets = nullptr;   // strings and lists
  std::unique_ptr<ColumnView> child;  // elements of a list

  bool IsNull(int64_t row) const {
    return kind == Kind::kNull || (validity != nullptr && !GetBit(validity, offset + row));
  }
  int64_t Int64(int64_t row) const { return reinterpret_cast<const int64_t*>(values)[offset + row]; }
  double Float64(int64_t row) const { return reinterpret_cast<const double*>(values)[offset + row]; }
  bool Bool(int64_t row) const { return GetBit(values, offset + row); }
  Int128 Decimal(int64_t row) const {
    Int128 value;
    std::memcpy(&value, values + 16 * (offset + row), 16);  // Arrow aligns to 8 bytes only
    return value;
  }
  Bytes String(int64_t row) const {
    const int32_t begin = offsets[offset + row];
    return {reinterpret_cast<const char*>(values) + begin, static_cast<uint64_t>(offsets[offset + row + 1] - begin)};
  }
  ListRange List(int64_t row) const {
    const int64_t begin = offsets[offset + row];
    return {begin, offsets[offset + row + 1] - begin};
  }
  // Puts a value into a register; false if it is null.
  bool Load(int64_t row, Value* out) const {
    if (IsNull(row)) return false;
    switch (kind) {
      case Kind::kNull:
        return false;
      case Kind::kBool:
        out->i = Bool(row);
        return true;
      case Kind::kInt64:
      case Kind::kTimestamp:
        out->i = Int64(row);
        return true;
      case Kind::kFloat64:
        out->f = Float64(row);
        return true;
      case Kind::kString:
        out->s = String(row);
        return true;
      case Kind::kDecimal:
        out->d = Decimal(row);
        return true;
      case Kind::kList:
        out->list = List(row);
        return true;
    }
    return false;
  }
};

// Fills `view` from an imported array whose type the caller has checked; `element` is the kind inside a list.
Status ViewColumn(const ArrowArray& array, Kind kind, Kind element, ColumnView* view);

// A column under construction: buffers in Arrow's layout.
struct ColumnBuffers {
  int64_t length = 0;
  int64_t null_count = 0;
  Buffer validity;  // bits; empty where null_count is 0
  Buffer values;
  Buffer offsets;  // int32 or int64, empty unless variable-size
};

// Moves the buffers into `out`, in canonical form.
void ExportColumn(ColumnBuffers column, ArrowArray* out);

// Packs one byte per row (1: a value, 0: null) into bits, and counts; drops the bits where no row is null.
void SetValidity(const Buffer& valid, ColumnBuffers* column);

}  // namespace morphspark
