// Finds a transaction's access to a row, where it has too many to go through them each time: long lists of keys.
//
// Thread safety: one thread.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace morphspark {

class AccessIndex {
 public:
  // So many are found as fast by going through them.
  static constexpr uint64_t kFew = 16;

  // Nothing is known; there will be about so many.
  void Clear(uint64_t accesses) {
    places_.assign(std::bit_ceil(2 * accesses + 2), Place());
    count_ = 0;
  }
  void Add(TableId table, Slot slot, Access access) {
    if (2 * ++count_ > places_.size()) Widen();
    *Find(table, slot, &places_) = {access, table, slot};
  }
  // kBase: it has none.
  Access Find(TableId table, Slot slot) const { return Find(table, slot, &places_)->access; }

  uint64_t bytes() const { return places_.capacity() * sizeof(Place); }

 private:
  struct Place {
    Access access = kBase;  // kBase: free
    TableId table = 0;
    Slot slot = 0;
  };

  // Where the row is, or may be put.
  static auto Find(TableId table, Slot slot, auto* places) -> decltype(places->data()) {
    const uint64_t mask = places->size() - 1;
    const uint64_t hash = (slot + (uint64_t{table} << 32)) * 0x9E3779B97F4A7C15u;
    for (uint64_t at = hash >> 32 & mask;; at = (at + 1) & mask) {
      auto* const place = places->data() + at;
      if (place->access == kBase || (place->slot == slot && place->table == table)) return place;
    }
  }

  void Widen() {
    std::vector<Place> wider(2 * places_.size());
    for (const Place& one : places_) {
      if (one.access != kBase) *Find(one.table, one.slot, &wider) = one;
    }
    places_ = std::move(wider);
  }

  std::vector<Place> places_;  // a power of two of them, at most half of them taken
  uint64_t count_ = 0;
};

}  // namespace morphspark
