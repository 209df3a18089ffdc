#include "output/gather.h"

#include <algorithm>
#include <stdexcept>

namespace morphspark {
namespace {

constexpr int64_t kGrain = 1 << 15;  // a multiple of 8: threads never share a byte of bits

class Source {
 public:
  Source(const ArrowArray& array, bool identity, std::span<const int64_t> order)
      : array_(array),
        identity_(identity),
        order_(order),
        validity_(array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0])) {}

  int64_t rows() const { return identity_ ? array_.length : static_cast<int64_t>(order_.size()); }
  // Index into the array's buffers.
  int64_t At(int64_t row) const { return array_.offset + (identity_ ? row : order_[row]); }
  bool Valid(int64_t at) const { return validity_ == nullptr || GetBit(validity_, at); }
  bool has_nulls() const { return validity_ != nullptr; }
  template <class T>
  const T* Buffer(int index) const {
    return static_cast<const T*>(array_.buffers[index]);
  }

 private:
  const ArrowArray& array_;
  bool identity_;
  std::span<const int64_t> order_;
  const uint8_t* validity_;
};

template <size_t Width>
void GatherFixed(const Source& source, ColumnBuffers* column, ThreadPool* pool) {
  const auto* from = source.Buffer<uint8_t>(1);
  column->values.resize(source.rows() * Width);
  pool->For(source.rows(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = source.At(row);
      uint8_t* to = column->values.data() + row * Width;
      if (source.Valid(at))
        std::memcpy(to, from + at * Width, Width);
      else
        std::memset(to, 0, Width);
    }
  });
}

void GatherBits(const Source& source, ColumnBuffers* column, ThreadPool* pool) {
  const auto* from = source.Buffer<uint8_t>(1);
  column->values.assign((source.rows() + 7) / 8, 0);
  pool->For(source.rows(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = source.At(row);
      if (source.Valid(at) && GetBit(from, at)) SetBit(column->values.data(), row);
    }
  });
}

template <class Offset>
void GatherVariable(const Source& source, ColumnBuffers* column, ThreadPool* pool) {
  static constexpr Offset kNone[2] = {0, 0};
  const auto* from_offsets = source.Buffer<Offset>(1) ? source.Buffer<Offset>(1) : kNone;
  const auto* from = source.Buffer<char>(2);
  column->offsets.resize((source.rows() + 1) * sizeof(Offset));
  auto* offsets = reinterpret_cast<Offset*>(column->offsets.data());
  offsets[0] = 0;
  for (int64_t row = 0; row < source.rows(); ++row) {
    const int64_t at = source.At(row);
    offsets[row + 1] = offsets[row] + (source.Valid(at) ? from_offsets[at + 1] - from_offsets[at] : 0);
    // A row can't come twice, so the sum never exceeds the input's, which fitted.
  }
  column->values.resize(offsets[source.rows()]);
  pool->For(source.rows(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Offset size = offsets[row + 1] - offsets[row];
      if (size) std::memcpy(column->values.data() + offsets[row], from + from_offsets[source.At(row)], size);
    }
  });
}

void GatherValidity(const Source& source, ColumnBuffers* column) {
  if (!source.has_nulls()) return;
  Buffer valid(source.rows());
  for (int64_t row = 0; row < source.rows(); ++row) valid[row] = source.Valid(source.At(row));
  SetValidity(valid, column);
}

// Nothing hides under the nulls of an array whose rows stay where they are.
template <class Hidden>
bool CleanUnderNulls(const Source& source, Hidden hidden) {
  if (!source.has_nulls()) return true;
  bool dirty = false;  // no early exit: nulls come at random, and a branch on them would be guessed wrong
  for (int64_t row = 0; row < source.rows(); ++row) dirty |= !source.Valid(row) & hidden(row);
  return !dirty;
}

template <class Offset>
bool CleanVariable(const Source& source) {
  const auto* offsets = source.Buffer<Offset>(1);
  if (offsets == nullptr || offsets[0] != 0) return source.rows() == 0;
  return CleanUnderNulls(source, [&](int64_t row) { return offsets[row] != offsets[row + 1]; });
}

bool CleanFixed(const Source& source, int64_t width) {
  const auto* values = source.Buffer<uint8_t>(1);
  return CleanUnderNulls(source, [&](int64_t row) {
    const uint8_t* value = values + row * width;
    return std::any_of(value, value + width, [](uint8_t byte) { return byte != 0; });
  });
}

bool NoBitsBehind(const uint8_t* bits, int64_t length) {
  return length % 8 == 0 || bits[length / 8] >> length % 8 == 0;
}

}  // namespace

bool IsCanonical(const ArrowArray& array, GatherLayout layout) {
  if (array.offset != 0) return false;
  const Source source(array, true, {});
  const auto* validity = source.Buffer<uint8_t>(0);
  if (validity != nullptr && (array.null_count == 0 || !NoBitsBehind(validity, array.length))) return false;
  if (layout.offset_bytes == 4) return CleanVariable<int32_t>(source);
  if (layout.offset_bytes == 8) return CleanVariable<int64_t>(source);
  if (layout.bits == 1) {
    const auto* bits = source.Buffer<uint8_t>(1);
    return NoBitsBehind(bits, array.length) && CleanUnderNulls(source, [&](int64_t row) { return GetBit(bits, row); });
  }
  return CleanFixed(source, layout.bits / 8);
}

ColumnBuffers Gather(const ArrowArray& array, GatherLayout layout, bool identity, std::span<const int64_t> order,
                     ThreadPool* pool) {
  const Source source(array, identity, order);
  ColumnBuffers column;
  column.length = source.rows();
  if (layout.offset_bytes == 4)
    GatherVariable<int32_t>(source, &column, pool);
  else if (layout.offset_bytes == 8)
    GatherVariable<int64_t>(source, &column, pool);
  else if (layout.bits == 1)
    GatherBits(source, &column, pool);
  else if (layout.bits == 8)
    GatherFixed<1>(source, &column, pool);
  else if (layout.bits == 16)
    GatherFixed<2>(source, &column, pool);
  else if (layout.bits == 32)
    GatherFixed<4>(source, &column, pool);
  else if (layout.bits == 64)
    GatherFixed<8>(source, &column, pool);
  else if (layout.bits == 128)
    GatherFixed<16>(source, &column, pool);
  else
    throw std::invalid_argument("gather: a width that is not known");
  GatherValidity(source, &column);
  return column;
}

}  // namespace morphspark
