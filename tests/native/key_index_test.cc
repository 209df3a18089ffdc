// Keys → slots, against std::unordered_map.
#include "state/key_index.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "columns.h"

namespace morphspark {
namespace {

using testing::BytesOf;
using testing::Random;

int64_t AsKey(int64_t key) { return key; }
Bytes AsKey(const std::string& key) { return BytesOf(key); }

// An index and its model, which take the same operations. Slots are given as a table gives them:
// freed ones first.
template <class Key>
class Pair {
 public:
  explicit Pair(bool integers) : index_(integers) {}

  void Insert(const Key& key) {
    Slot slot = next_;
    if (free_.empty()) {
      ++next_;
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    index_.Insert(AsKey(key), slot);
    model_[key] = slot;
  }

  void Erase(const Key& key) {
    const auto found = model_.find(key);
    index_.Erase(found->second);
    free_.push_back(found->second);
    model_.erase(found);
  }

  void Toggle(const Key& key) { model_.contains(key) ? Erase(key) : Insert(key); }

  // What both say about a key is the same.
  bool Agrees(const Key& key) const {
    const auto found = model_.find(key);
    return index_.Find(AsKey(key)) == (found == model_.end() ? kNoSlot : found->second);
  }

  void Check() const {
    BOOST_REQUIRE_EQUAL(index_.size(), model_.size());
    BOOST_REQUIRE(index_.Validate());
    for (const auto& [key, slot] : model_) BOOST_REQUIRE(Agrees(key));
  }

  const KeyIndex& index() const { return index_; }
  const std::unordered_map<Key, Slot>& model() const { return model_; }

 private:
  KeyIndex index_;
  std::unordered_map<Key, Slot> model_;
  std::vector<Slot> free_;
  Slot next_ = 0;
};

// FindBlock of these keys, in blocks of `size`.
template <class Key>
std::vector<Slot> FindAll(const KeyIndex& index, const std::vector<Key>& keys, int size) {
  std::vector<Slot> slots(keys.size());
  for (size_t at = 0; at < keys.size(); at += size) {
    const int count = static_cast<int>(std::min<size_t>(size, keys.size() - at));
    index.FindBlock(keys.data() + at, count, slots.data() + at);
  }
  return slots;
}

BOOST_AUTO_TEST_SUITE(key_index)

BOOST_AUTO_TEST_CASE(an_empty_index_finds_nothing) {
  const KeyIndex integers(true), strings(false);
  BOOST_TEST(integers.Find(0) == kNoSlot);
  BOOST_TEST(strings.Find(Bytes{"", 0}) == kNoSlot);
  BOOST_TEST(integers.size() == 0u);
  BOOST_TEST(integers.Validate());
  BOOST_TEST(strings.Validate());
}

BOOST_AUTO_TEST_CASE(extreme_integers_are_keys_like_others) {
  Pair<int64_t> pair(true);
  for (int64_t key : {INT64_MIN, INT64_MIN + 1, int64_t{-1}, int64_t{0}, int64_t{1}, INT64_MAX}) {
    pair.Insert(key);
  }
  pair.Check();
  BOOST_TEST(pair.index().IntegerKey(pair.index().Find(INT64_MIN)) == INT64_MIN);
}

BOOST_AUTO_TEST_CASE(dense_keys_grow_and_shrink) {
  Pair<int64_t> pair(true);
  constexpr int64_t kKeys = 50'000;
  for (int64_t key = 0; key < kKeys; ++key) pair.Insert(key);
  pair.Check();
  for (int64_t key = 0; key < kKeys; key += 2) pair.Erase(key);
  pair.Check();
  for (int64_t key = 0; key < kKeys; key += 2) BOOST_REQUIRE(pair.Agrees(key));
  for (int64_t key = 1; key < kKeys; key += 2) pair.Erase(key);
  pair.Check();
  BOOST_TEST(pair.index().size() == 0u);
}

BOOST_AUTO_TEST_CASE(random_integer_operations_agree_with_a_map) {
  Random random(1);
  Pair<int64_t> pair(true);
  for (int step = 0; step < 100'000; ++step) {
    const auto key = static_cast<int64_t>(random() % 3'000) * 1'000'003 - 1'000'000;
    BOOST_REQUIRE(pair.Agrees(key));
    pair.Toggle(key);
    if (step % 20'000 == 0) pair.Check();
  }
  pair.Check();
}

// Sizes around 8 and 16 bytes, which are compared as words, around the 20 that are stored in place,
// and far above.
std::string KeyOfNumber(uint64_t number) {
  static constexpr size_t kSizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 20, 21, 40, 300};
  const size_t size = kSizes[number % std::size(kSizes)];
  std::string key(size, static_cast<char>(number / std::size(kSizes)));
  for (size_t i = 0; i < std::min<size_t>(size, 8); ++i) key[i] = static_cast<char>(number >> 8 * i);
  return key;
}

BOOST_AUTO_TEST_CASE(random_string_operations_agree_with_a_map) {
  Random random(2);
  Pair<std::string> pair(false);
  for (int step = 0; step < 100'000; ++step) {
    const std::string key = KeyOfNumber(random() % 3'000);
    BOOST_REQUIRE(pair.Agrees(key));
    pair.Toggle(key);
    if (step % 20'000 == 0) pair.Check();
  }
  pair.Check();
}

BOOST_AUTO_TEST_CASE(keys_that_share_a_prefix_or_hold_zeros_differ) {
  Pair<std::string> pair(false);
  const std::string zeros(30, '\0');
  for (size_t size = 0; size <= zeros.size(); ++size) pair.Insert(zeros.substr(0, size));
  pair.Check();
  for (size_t size = 0; size <= zeros.size(); ++size) {
    const Bytes stored = pair.index().BytesKey(pair.index().Find(Bytes{zeros.data(), size}));
    BOOST_TEST(stored.view() == std::string_view(zeros.data(), size));
  }
}

BOOST_AUTO_TEST_CASE(a_megabyte_is_a_key) {
  Pair<std::string> pair(false);
  std::string key(1 << 20, 'k');
  pair.Insert(key);
  key.back() = 'x';
  BOOST_TEST(pair.Agrees(key));
  pair.Insert(key);
  pair.Check();
  pair.Erase(key);
  pair.Check();
}

BOOST_AUTO_TEST_CASE(the_heap_of_long_keys_stays_bounded) {
  Pair<std::string> pair(false);
  const auto key = [](int number) { return std::string(1'000, 'p') + std::to_string(number); };
  for (int number = 0; number < 500; ++number) pair.Insert(key(number));
  uint64_t bytes_max = 0;
  for (int number = 0; number < 20'000; ++number) {  // 20 MB pass through, half a MB lives
    pair.Erase(key(number));
    pair.Insert(key(number + 500));
    bytes_max = std::max(bytes_max, pair.index().bytes_reserved());
    if (number % 4'000 == 0) pair.Check();
  }
  pair.Check();
  BOOST_TEST(bytes_max < 6u << 20);
}

template <class Key, class Make>
void CheckBlocks(bool integers, Make make) {
  Pair<Key> pair(integers);
  std::vector<Key> owned;
  for (uint64_t number = 0; number < 3'000; ++number) owned.push_back(make(number));
  for (const Key& key : owned) {
    if (!pair.model().contains(key) && pair.model().size() < 1'000) pair.Insert(key);
  }
  std::vector<decltype(AsKey(owned[0]))> keys;
  for (const Key& key : owned) keys.push_back(AsKey(key));
  std::vector<Slot> expected;
  for (const auto& key : keys) expected.push_back(pair.index().Find(key));
  for (int size : {1, 2, 7, 31, KeyIndex::kBlock}) {
    BOOST_TEST((FindAll(pair.index(), keys, size) == expected), "blocks of " << size);
  }
  std::vector<std::vector<Slot>> found(4);
  std::vector<std::thread> threads;
  for (auto& slots : found) {
    threads.emplace_back([&] { slots = FindAll(pair.index(), keys, KeyIndex::kBlock); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& slots : found) BOOST_TEST((slots == expected));
}

BOOST_AUTO_TEST_CASE(blocks_of_integers_find_what_single_lookups_find_on_many_threads) {
  CheckBlocks<int64_t>(true, [](uint64_t number) { return static_cast<int64_t>(number * number); });
}

BOOST_AUTO_TEST_CASE(blocks_of_strings_find_what_single_lookups_find_on_many_threads) {
  CheckBlocks<std::string>(false, KeyOfNumber);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
