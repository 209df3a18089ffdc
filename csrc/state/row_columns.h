// Columns of Arrow made from rows, wherever those lie: in the slots of a table, or beside it in a snapshot.
//
// Rows are given as functions of their number, so that nothing is copied twice: `key(row)` is the key's bytes (see
// key_index.h), `cell(row)` points to a value as flat columns hold it, or is null where there is no row: a zero then.
// They are called on all threads at once, and for strings twice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

#include "base/column.h"
#include "base/thread_pool.h"
#include "base/value.h"

namespace morphspark {

inline constexpr int64_t kRowGrain = 1 << 13;  // a multiple of 8: threads never share a byte of bits

// Calls body(begin, end) over all rows: on all threads where there are many, and a pool.
template <class Body>
void EachRows(ThreadPool* pool, int64_t rows, Body body) {
  if (pool == nullptr || rows <= kRowGrain) {
    body(int64_t{0}, rows);
  } else {
    pool->For(rows, kRowGrain, body);
  }
}

// The rest of a composite key, from behind these parts on.
inline const char* SkipParts(const char* at, std::span<const Kind> parts) {
  for (Kind kind : parts) {
    if (kind == Kind::kInt64) {
      at += sizeof(int64_t);
    } else {
      uint32_t size;
      std::memcpy(&size, at, sizeof(size));
      at += sizeof(size) + size;
    }
  }
  return at;
}

// A string part of a composite key that begins here.
inline Bytes StringPart(const char* at) {
  uint32_t size;
  std::memcpy(&size, at, sizeof(size));
  return {at + sizeof(size), size};
}

template <class Text>
ColumnBuffers StringColumn(int64_t rows, Text text, ThreadPool* pool) {
  ColumnBuffers column;
  column.length = rows;
  column.offsets.resize(static_cast<uint64_t>(rows + 1) * sizeof(int32_t));
  auto* offsets = reinterpret_cast<int32_t*>(column.offsets.data());
  EachRows(pool, rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      offsets[row + 1] = static_cast<int32_t>(std::min<uint64_t>(text(row).size, UINT32_MAX));
    }
  });
  uint64_t bytes = 0;
  offsets[0] = 0;
  for (int64_t row = 1; row <= rows; ++row) {
    bytes += static_cast<uint32_t>(offsets[row]);
    if (bytes > INT32_MAX) throw std::length_error("a string column of the state holds more than 2 GiB");
    offsets[row] = static_cast<int32_t>(bytes);
  }
  column.values.resize(bytes);
  EachRows(pool, rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Bytes one = text(row);
      if (one.size) std::memcpy(column.values.data() + offsets[row], one.data, one.size);
    }
  });
  return column;
}

// `fill(row, to)` writes each value.
template <size_t Width, class Fill>
ColumnBuffers FixedColumn(int64_t rows, Fill fill, ThreadPool* pool) {
  ColumnBuffers column;
  column.length = rows;
  column.values.resize(static_cast<uint64_t>(rows) * Width);
  EachRows(pool, rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) fill(row, column.values.data() + row * static_cast<int64_t>(Width));
  });
  return column;
}

// `bit(row)` is one of two.
template <class Bit>
ColumnBuffers BitColumn(int64_t rows, Bit bit, ThreadPool* pool) {
  ColumnBuffers column;
  column.length = rows;
  column.values.assign(static_cast<uint64_t>(rows + 7) / 8, 0);
  EachRows(pool, rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (bit(row)) SetBit(column.values.data(), row);
    }
  });
  return column;
}

// A part of keys that are bytes.
template <class Key>
ColumnBuffers KeyColumn(std::span<const Kind> parts, size_t part, int64_t rows, Key key, ThreadPool* pool) {
  if (parts.size() == 1) return StringColumn(rows, key, pool);
  const std::span<const Kind> before = parts.first(part);
  if (parts[part] == Kind::kString) {
    return StringColumn(rows, [&](int64_t row) { return StringPart(SkipParts(key(row).data, before)); }, pool);
  }
  const auto fill = [&](int64_t row, uint8_t* to) { std::memcpy(to, SkipParts(key(row).data, before), 8); };
  return FixedColumn<sizeof(int64_t)>(rows, fill, pool);
}

template <class Cell>
ColumnBuffers ValueColumn(Kind kind, int64_t rows, Cell cell, ThreadPool* pool) {
  const auto word = [&](int64_t row) {
    int64_t value = 0;
    if (const uint8_t* from = cell(row)) std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (kind) {
    case Kind::kBool: {
      const auto bit = [&](int64_t row) {
        const uint8_t* from = cell(row);
        return from != nullptr && *from;
      };
      return BitColumn(rows, bit, pool);
    }
    case Kind::kString: {
      const auto text = [&](int64_t row) {
        Bytes value{"", 0};
        if (const uint8_t* from = cell(row)) std::memcpy(&value, from, sizeof(value));
        return value;
      };
      return StringColumn(rows, text, pool);
    }
    case Kind::kDecimal: {
      const auto fill = [&](int64_t row, uint8_t* to) {
        const Int128 unscaled = word(row);
        std::memcpy(to, &unscaled, sizeof(unscaled));
      };
      return FixedColumn<sizeof(Int128)>(rows, fill, pool);
    }
    default: {
      const auto fill = [&](int64_t row, uint8_t* to) {
        const int64_t value = word(row);
        std::memcpy(to, &value, sizeof(value));
      };
      return FixedColumn<sizeof(int64_t)>(rows, fill, pool);
    }
  }
}

}  // namespace morphspark
