// Keys of columns, found in blocks: what an epoch's sites and applied rows have in common.
//
// Where keys come from has one shape: `Load(index, place, key)` gives the key at an index, or false if it is null.
// `place` is its place in the block, for keys that need memory of their own.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/column.h"
#include "base/prefetch.h"
#include "state/key_index.h"
#include "state/table.h"

namespace morphspark {

struct IntegerKeys {
  using Key = int64_t;
  const ColumnView& column;
  bool Load(int64_t index, int, int64_t* key) const {
    if (column.IsNull(index)) return false;
    *key = column.Int64(index);
    return true;
  }
};

struct StringKeys {
  using Key = Bytes;
  static constexpr uint64_t kBytesAhead = 1024;
  const ColumnView& column;
  bool Load(int64_t index, int, Bytes* key) const {
    if (column.IsNull(index)) return false;
    *key = column.String(index);
    Prefetch(key->data + kBytesAhead);  // read in order, but the processor stops at every page
    return true;
  }
};

// `part(number, index, value)` gives a part of the key at an index, or false if it is null.
template <class Part>
struct CompositeKeys {
  using Key = Bytes;
  std::span<const Kind> kinds;
  Part part;
  mutable std::array<std::string, KeyIndex::kBlock> buffers = {};
  bool Load(int64_t index, int place, Bytes* key) const {
    std::string& buffer = buffers[place];
    buffer.clear();
    for (size_t number = 0; number < kinds.size(); ++number) {
      Value value;
      if (!part(number, index, &value)) return false;
      AppendKeyPart(kinds[number], value, &buffer);
    }
    *key = {buffer.data(), buffer.size()};
    return true;
  }
};
template <class Part>
CompositeKeys(std::span<const Kind>, Part) -> CompositeKeys<Part>;

// Collects keys until a block is full, then finds them together.
template <class Keys>
class BlockFinder {
 public:
  BlockFinder(const KeyIndex& index, const Keys& keys, Slot* slots) : index_(index), keys_(keys), slots_(slots) {}

  void Add(int64_t at) {
    if (!keys_.Load(at, count_, &block_[count_])) {
      slots_[at] = kNullKey;
      return;
    }
    where_[count_] = at;
    if (++count_ == KeyIndex::kBlock) Flush();
  }
  // Finds what is left; true if any key of all was absent.
  bool Finish() {
    Flush();
    return absent_;
  }

 private:
  void Flush() {
    Slot found[KeyIndex::kBlock];
    index_.FindBlock(block_, count_, found);
    for (int i = 0; i < count_; ++i) {
      slots_[where_[i]] = found[i];
      absent_ |= found[i] == kNoSlot;
    }
    count_ = 0;
  }

  const KeyIndex& index_;
  const Keys& keys_;
  Slot* const slots_;
  int count_ = 0;
  bool absent_ = false;
  int64_t where_[KeyIndex::kBlock];
  typename Keys::Key block_[KeyIndex::kBlock];
};

}  // namespace morphspark
