// Keys → slots: an open-addressing hash table per table of state.
//
// A key is an int64, or bytes: a string, or the parts of a composite key laid end to end (int64: 8 bytes; string: its
// length in 4 bytes, then its bytes). Entries are 8 bytes (32 bits of the hash, the slot), probed linearly, at most
// half full. Keys live by slot, short ones in place, so a lookup costs two cache misses, and a block of lookups
// overlaps them by prefetching.
//
// The hash is keyed with random bytes of this process, so that nobody can choose keys that collide. Slots are given
// in the order of first use; the hash never shows in results.
//
// Thread safety: `Find…` may run on many threads while nobody inserts or erases.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "base/ids.h"
#include "base/prefetch.h"
#include "base/value.h"

namespace morphspark {

class KeyIndex {
 public:
  static constexpr int kBlock = 32;  // lookups that go together: enough to hide memory, few enough for L1

  explicit KeyIndex(bool integer_keys);

  bool integer_keys() const { return integer_keys_; }

  // The slots of up to kBlock keys; kNoSlot where a key is absent.
  void FindBlock(const int64_t* keys, int count, Slot* slots) const;
  void FindBlock(const Bytes* keys, int count, Slot* slots) const;

  Slot Find(int64_t key) const;
  Slot Find(Bytes key) const;

  // Adds an absent key under a slot that no key has.
  void Insert(int64_t key, Slot slot);
  void Insert(Bytes key, Slot slot);

  void Erase(Slot slot);

  int64_t IntegerKey(Slot slot) const { return integers_[slot]; }
  Bytes BytesKey(Slot slot) const { return strings_[slot].bytes(); }
  // Two steps that ask for a key which is read soon; the second is for long keys, and looks at what the first asked
  // for.
  [[gnu::always_inline]] void PrefetchKey(Slot slot) const {
    if (integer_keys_) {
      Prefetch(integers_.data() + slot);
    } else {
      Prefetch(strings_.data() + slot);
    }
  }
  [[gnu::always_inline]] void PrefetchLongKey(Slot slot) const {
    if (LongKeyBytes(slot) != 0) Prefetch(strings_[slot].bytes().data);
  }

  uint64_t size() const { return size_; }
  // What a key takes: every one this much, and a long one its own bytes beside.
  uint64_t bytes_per_key() const;
  uint64_t long_key_bytes() const { return heap_live_; }  // of all keys that are not in place
  uint64_t LongKeyBytes(Slot slot) const {
    return integer_keys_ || strings_[slot].size <= StoredKey::kInline ? 0 : strings_[slot].size;
  }
  uint64_t bytes_reserved() const;
  // Every key finds its own slot; for tests.
  bool Validate() const;

 private:
  // A key of at most 20 bytes in place; a longer one by pointer.
  struct StoredKey {
    static constexpr uint32_t kInline = 20;
    uint32_t size = 0;
    char data[kInline] = {};

    Bytes bytes() const {
      if (size <= kInline) return {data, size};
      const char* pointer;
      std::memcpy(&pointer, data, sizeof(pointer));
      return {pointer, size};
    }
  };
  struct Entry {
    uint32_t hash;
    Slot slot;  // kNoSlot: empty
  };

  static uint32_t Hash(int64_t key);
  static uint32_t Hash(Bytes key);
  bool Equal(Slot slot, int64_t key) const { return integers_[slot] == key; }
  bool Equal(Slot slot, Bytes key) const {
    const StoredKey& stored = strings_[slot];
    return stored.size == key.size && EqualBytes(stored.bytes().data, key.data, key.size);
  }
  uint32_t HashOf(Slot slot) const;

  template <class Key>
  Slot Probe(const Key& key, uint32_t hash) const;
  template <class Key>
  void FindBlockOf(const Key* keys, int count, Slot* slots) const;
  void Place(uint32_t hash, Slot slot);
  void GrowIfNeeded();
  void CompactHeap();

  const bool integer_keys_;
  std::vector<Entry> entries_;
  uint64_t mask_;
  uint64_t size_ = 0;
  std::vector<int64_t> integers_;   // by slot
  std::vector<StoredKey> strings_;  // by slot
  Arena heap_;                      // keys longer than StoredKey::kInline
  uint64_t heap_live_ = 0;
};

}  // namespace morphspark
