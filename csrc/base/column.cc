#include "base/column.h"

namespace morphspark {

Status ViewColumn(const ArrowArray& array, Kind kind, Kind element, ColumnView* view) {
  view->kind = kind;
  view->length = array.length;
  view->offset = array.offset;
  if (kind == Kind::kNull) return Status::Ok();
  const bool variable = kind == Kind::kString || kind == Kind::kList;
  const int64_t expected = kind == Kind::kString ? 3 : 2;
  if (array.n_buffers != expected) return Status::Invalid("an Arrow column has not the buffers of its type");
  view->validity = array.null_count == 0 ? nullptr : static_cast<const uint8_t*>(array.buffers[0]);
  if (variable) view->offsets = static_cast<const int32_t*>(array.buffers[1]);
  if (kind != Kind::kList) view->values = static_cast<const uint8_t*>(array.buffers[expected - 1]);
  // An empty array may have no offsets at all, and one of empty strings no bytes; a string has an address all the same.
  static constexpr int32_t kEmptyOffsets[1] = {0};
  static constexpr uint8_t kEmptyBytes[1] = {0};
  if (variable && view->offsets == nullptr) view->offsets = kEmptyOffsets;
  if (kind == Kind::kString && view->values == nullptr) view->values = kEmptyBytes;
  if (kind != Kind::kList) return Status::Ok();
  if (array.n_children != 1) return Status::Invalid("an Arrow list column has no child");
  view->child = std::make_unique<ColumnView>();
  return ViewColumn(*array.children[0], element, Kind::kNull, view->child.get());
}

namespace {

struct Exported {
  ColumnBuffers column;
  const void* buffers[3] = {nullptr, nullptr, nullptr};
};

void Release(ArrowArray* array) {
  delete static_cast<Exported*>(array->private_data);
  array->release = nullptr;
}

}  // namespace

void ExportColumn(ColumnBuffers column, ArrowArray* out) {
  static constexpr uint8_t kNothing[8] = {};
  auto exported = std::make_unique<Exported>();
  exported->column = std::move(column);
  ColumnBuffers& own = exported->column;
  const auto address = [](const Buffer& bytes) -> const void* { return bytes.empty() ? kNothing : bytes.data(); };
  int buffers = 0;
  exported->buffers[buffers++] = own.null_count ? own.validity.data() : nullptr;
  if (!own.offsets.empty()) exported->buffers[buffers++] = own.offsets.data();
  exported->buffers[buffers++] = address(own.values);
  *out = ArrowArray{};
  out->length = own.length;
  out->null_count = own.null_count;
  out->n_buffers = buffers;
  out->buffers = exported->buffers;
  out->release = &Release;
  out->private_data = exported.release();
}

void SetValidity(const Buffer& valid, ColumnBuffers* column) {
  const auto length = static_cast<int64_t>(valid.size());
  int64_t set = 0;
  for (int64_t row = 0; row < length; ++row) set += valid[row];
  column->null_count = length - set;
  if (column->null_count == 0) return;
  column->validity.resize((length + 7) / 8);
  int64_t row = 0;
  for (; row + 8 <= length; row += 8) {
    uint64_t bytes;  // eight bytes of 0 or 1: the multiplication moves each to its own bit of the top byte
    std::memcpy(&bytes, valid.data() + row, sizeof(bytes));
    column->validity[row / 8] = static_cast<uint8_t>(bytes * 0x0102040810204080u >> 56);
  }
  if (row < length) column->validity[row / 8] = 0;
  for (; row < length; ++row) {
    if (valid[row]) SetBit(column->validity.data(), row);
  }
}

}  // namespace morphspark
