#include "state/key_index.h"

#include <array>
#include <new>
#include <random>

#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash.h"

namespace morphspark {
namespace {

constexpr uint64_t kFirstEntries = 64;
constexpr uint64_t kHeapCompactBytes = 1 << 20;

// Random bytes of this process, so that nobody outside can choose keys that collide.
struct Secret {
  std::array<uint32_t, 48> words;  // 192 bytes: XXH3's secret
  uint64_t first, last;            // for keys that fit two words

  Secret() {
    std::random_device random;
    const auto word = [&] { return uint64_t{random()} << 32 | random(); };
    for (uint32_t& one : words) one = random();
    first = word();
    last = word();
  }
};

const Secret kSecret;

uint64_t LoadWord(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Both halves of a 128-bit product: every bit of the operands reaches every bit of it. Once more by a constant, because
// of one product with an unlucky secret, keys that count up come close together: in one process of a hundred a probe
// went three times as far, in the worst of 2,000 seventy times.
uint32_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  const uint64_t folded = static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  return static_cast<uint32_t>(folded * 0x9E3779B97F4A7C15u >> 32);
}

[[gnu::noinline]] uint32_t HashOtherSizes(Bytes key) {
  const uint64_t hash = XXH3_64bits_withSecret(key.data, key.size, kSecret.words.data(), sizeof(kSecret.words));
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

KeyIndex::KeyIndex(bool integer_keys)
    : integer_keys_(integer_keys), entries_(kFirstEntries, Entry{0, kNoSlot}), mask_(kFirstEntries - 1) {}

uint32_t KeyIndex::Hash(int64_t key) { return Mix(static_cast<uint64_t>(key) ^ kSecret.first, kSecret.last | 1); }

[[gnu::always_inline]] inline uint32_t KeyIndex::Hash(Bytes key) {
  if (key.size < 8 || key.size > 16) return HashOtherSizes(key);
  // Most keys: two words that may overlap.
  const uint64_t last = LoadWord(key.data + key.size - 8) + key.size;
  return Mix(LoadWord(key.data) ^ kSecret.first, last ^ kSecret.last);
}

uint32_t KeyIndex::HashOf(Slot slot) const {
  return integer_keys_ ? Hash(integers_[slot]) : Hash(strings_[slot].bytes());
}

template <class Key>
Slot KeyIndex::Probe(const Key& key, uint32_t hash) const {
  for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
    const Entry entry = entries_[at];
    if (entry.slot == kNoSlot) return kNoSlot;
    if (entry.hash == hash && Equal(entry.slot, key)) return entry.slot;
  }
}

// Three passes over a block, so that the misses of all its keys overlap: hash and ask for the entries; walk to the
// first entry with this hash, which is nearly always in the same cache line, and ask for its key; compare.
template <class Key>
void KeyIndex::FindBlockOf(const Key* keys, int count, Slot* slots) const {
  uint32_t hashes[kBlock];
  const Entry* const entries = entries_.data();
  for (int i = 0; i < count; ++i) {
    hashes[i] = Hash(keys[i]);
    Prefetch(&entries[hashes[i] & mask_]);
  }
  for (int i = 0; i < count; ++i) {
    uint64_t at = hashes[i] & mask_;
    while (entries[at].slot != kNoSlot && entries[at].hash != hashes[i]) at = (at + 1) & mask_;
    slots[i] = entries[at].slot;
    if (slots[i] != kNoSlot) PrefetchKey(slots[i]);
  }
  for (int i = 0; i < count; ++i) {
    if (slots[i] != kNoSlot && !Equal(slots[i], keys[i])) slots[i] = Probe(keys[i], hashes[i]);
  }
}

void KeyIndex::FindBlock(const int64_t* keys, int count, Slot* slots) const { FindBlockOf(keys, count, slots); }
void KeyIndex::FindBlock(const Bytes* keys, int count, Slot* slots) const { FindBlockOf(keys, count, slots); }
Slot KeyIndex::Find(int64_t key) const { return Probe(key, Hash(key)); }
Slot KeyIndex::Find(Bytes key) const { return Probe(key, Hash(key)); }

void KeyIndex::Insert(int64_t key, Slot slot) {
  GrowIfNeeded();
  if (slot >= integers_.size()) integers_.resize(slot + 1);
  integers_[slot] = key;
  Place(Hash(key), slot);
}

void KeyIndex::Insert(Bytes key, Slot slot) {
  GrowIfNeeded();
  if (slot >= strings_.size()) strings_.resize(slot + 1);
  StoredKey& stored = strings_[slot];
  if (key.size <= StoredKey::kInline) {
    std::memcpy(stored.data, key.data, key.size);
  } else {
    const char* pointer = heap_.Copy(key).data;
    std::memcpy(stored.data, &pointer, sizeof(pointer));
    heap_live_ += key.size;
  }
  stored.size = static_cast<uint32_t>(key.size);  // last: if there is no memory for the bytes, there is no key
  Place(Hash(key), slot);
}

void KeyIndex::Place(uint32_t hash, Slot slot) {
  uint64_t at = hash & mask_;
  while (entries_[at].slot != kNoSlot) at = (at + 1) & mask_;
  entries_[at] = {hash, slot};
  ++size_;
}

// Takes an entry out and moves later ones of its run back, so that no probe meets a hole before its key.
void KeyIndex::Erase(Slot slot) {
  uint64_t hole = HashOf(slot) & mask_;
  while (entries_[hole].slot != slot) hole = (hole + 1) & mask_;
  for (uint64_t at = (hole + 1) & mask_; entries_[at].slot != kNoSlot; at = (at + 1) & mask_) {
    const uint64_t home = entries_[at].hash & mask_;
    if (((at - home) & mask_) >= ((at - hole) & mask_)) {
      entries_[hole] = entries_[at];
      hole = at;
    }
  }
  entries_[hole].slot = kNoSlot;
  --size_;
  if (integer_keys_) return;
  if (strings_[slot].size > StoredKey::kInline) heap_live_ -= strings_[slot].size;
  strings_[slot] = StoredKey();
  if (heap_.used() > kHeapCompactBytes && heap_.used() > 2 * heap_live_) CompactHeap();
}

void KeyIndex::CompactHeap() {
  Arena fresh;
  try {
    fresh.Reserve(heap_live_);
  } catch (const std::bad_alloc&) {
    return;  // another time
  }
  for (StoredKey& stored : strings_) {
    if (stored.size <= StoredKey::kInline) continue;
    const char* pointer = fresh.Copy(stored.bytes()).data;
    std::memcpy(stored.data, &pointer, sizeof(pointer));
  }
  heap_ = std::move(fresh);
}

void KeyIndex::GrowIfNeeded() {
  if (2 * (size_ + 1) <= entries_.size()) return;
  std::vector<Entry> old(entries_.size() * 2, Entry{0, kNoSlot});
  old.swap(entries_);
  mask_ = entries_.size() - 1;
  size_ = 0;
  for (const Entry& entry : old) {
    if (entry.slot != kNoSlot) Place(entry.hash, entry.slot);
  }
}

uint64_t KeyIndex::bytes_per_key() const {
  return 2 * sizeof(Entry) + (integer_keys_ ? sizeof(int64_t) : sizeof(StoredKey));
}

uint64_t KeyIndex::bytes_reserved() const {
  return entries_.capacity() * sizeof(Entry) + integers_.capacity() * sizeof(int64_t) +
         strings_.capacity() * sizeof(StoredKey) + heap_.reserved();
}

bool KeyIndex::Validate() const {
  uint64_t found = 0;
  for (const Entry& entry : entries_) {
    if (entry.slot == kNoSlot) continue;
    ++found;
    const Slot slot = integer_keys_ ? Find(integers_[entry.slot]) : Find(strings_[entry.slot].bytes());
    if (slot != entry.slot) return false;
  }
  return found == size_ && 2 * size_ <= entries_.size() + 2;
}

}  // namespace morphspark
