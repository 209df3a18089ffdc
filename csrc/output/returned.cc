#include "output/returned.h"

#include <stdexcept>

namespace morphspark {
namespace {

size_t Width(Kind kind) {
  switch (kind) {
    case Kind::kNull:
    case Kind::kString:
      return 0;
    case Kind::kBool:
      return 1;
    case Kind::kDecimal:
      return sizeof(Int128);
    default:
      return sizeof(int64_t);
  }
}

}  // namespace

ReturnedValues::ReturnedValues(Kind kind, int64_t positions, int workers) : kind_(kind), arenas_(workers) {
  set_.assign(positions, 0);
  values_.assign(positions * Width(kind), 0);
  if (kind == Kind::kString) strings_.resize(positions, Bytes{"", 0});
}

void ReturnedValues::Grow(int64_t positions) {
  const uint64_t before = set_.size(), bytes = values_.size();
  set_.resize(positions);
  std::memset(set_.data() + before, 0, set_.size() - before);
  values_.resize(positions * Width(kind_));
  if (values_.size() > bytes) std::memset(values_.data() + bytes, 0, values_.size() - bytes);
  if (kind_ == Kind::kString) strings_.resize(positions, Bytes{"", 0});
}

void ReturnedValues::Keep(std::span<const int64_t> positions) {
  const size_t width = Width(kind_);
  for (size_t i = 0; i < positions.size(); ++i) {
    set_[i] = set_[positions[i]];
    if (width > 0) std::memmove(values_.data() + i * width, values_.data() + positions[i] * width, width);
    if (kind_ == Kind::kString) strings_[i] = strings_[positions[i]];
  }
  set_.resize(positions.size());
  values_.resize(positions.size() * width);
  if (kind_ == Kind::kString) strings_.resize(positions.size());
}

void ReturnedValues::Set(int64_t position, const Value& value, int worker) {
  set_[position] = 1;
  switch (kind_) {
    case Kind::kNull:
      set_[position] = 0;
      return;
    case Kind::kBool:
      values_[position] = static_cast<uint8_t>(value.i);
      return;
    case Kind::kString:
      strings_[position] = arenas_[worker].Copy(value.s);
      return;
    case Kind::kDecimal:
      std::memcpy(values_.data() + position * sizeof(Int128), &value.d, sizeof(Int128));
      return;
    case Kind::kFloat64: {
      const double canonical = CanonicalNan(value.f);
      std::memcpy(values_.data() + position * sizeof(double), &canonical, sizeof(double));
      return;
    }
    default:
      std::memcpy(values_.data() + position * sizeof(int64_t), &value.i, sizeof(int64_t));
  }
}

void ReturnedValues::Clear(int64_t position) {
  if (!set_[position]) return;
  set_[position] = 0;
  const size_t width = Width(kind_);
  std::memset(values_.data() + position * width, 0, width);
  if (kind_ == Kind::kString) strings_[position] = Bytes{"", 0};
}

ColumnBuffers ReturnedValues::Finish() && {
  ColumnBuffers column;
  column.length = static_cast<int64_t>(set_.size());
  SetValidity(set_, &column);
  if (kind_ == Kind::kBool)
    FinishBits(0, &column);
  else if (kind_ == Kind::kString)
    FinishStrings(0, &column);
  else
    column.values = std::move(values_);
  return column;
}

ColumnBuffers ReturnedValues::Column(int64_t begin, int64_t end) const {
  ColumnBuffers column;
  column.length = end - begin;
  Buffer set(column.length);
  if (column.length > 0) std::memcpy(set.data(), set_.data() + begin, column.length);
  SetValidity(set, &column);
  const size_t width = Width(kind_);
  if (kind_ == Kind::kBool) {
    FinishBits(begin, &column);
  } else if (kind_ == Kind::kString) {
    FinishStrings(begin, &column);
  } else if (column.length * width > 0) {
    column.values.resize(column.length * width);
    std::memcpy(column.values.data(), values_.data() + begin * width, column.length * width);
  }
  return column;
}

void ReturnedValues::FinishBits(int64_t begin, ColumnBuffers* column) const {
  column->values.assign((column->length + 7) / 8, 0);
  for (int64_t row = 0; row < column->length; ++row) {
    if (values_[begin + row]) SetBit(column->values.data(), row);
  }
}

void ReturnedValues::FinishStrings(int64_t begin, ColumnBuffers* column) const {
  const Bytes* const strings = strings_.data() + begin;
  column->offsets.resize((column->length + 1) * sizeof(int32_t));
  auto* offsets = reinterpret_cast<int32_t*>(column->offsets.data());
  offsets[0] = 0;
  uint64_t bytes = 0;
  for (int64_t row = 0; row < column->length; ++row) {
    bytes += strings[row].size;
    if (bytes > INT32_MAX) throw std::length_error("a returned string column would hold more than 2 GiB");
    offsets[row + 1] = static_cast<int32_t>(bytes);
  }
  column->values.resize(bytes);
  for (int64_t row = 0; row < column->length; ++row) {
    if (strings[row].size) std::memcpy(column->values.data() + offsets[row], strings[row].data, strings[row].size);
  }
}

}  // namespace morphspark
