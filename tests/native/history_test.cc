// Versions that outlive their epoch: what windows and triggers see of them, whatever was rolled back or collected.
#include "state/history.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "base/exact_sum.h"

namespace morphspark {
namespace {

TableSpec Spec(int64_t span, int64_t rows, std::vector<int64_t> gaps = {}, int64_t limit = 0) {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {Kind::kFloat64, Kind::kString};
  spec.keeps_versions = true;
  spec.history = {span, rows, std::move(gaps), limit};
  return spec;
}

class Rows {
 public:
  explicit Rows(const TableSpec& spec) : history(spec) {}

  void Put(Slot slot, int64_t time, double value) {
    const std::string text = "text of " + std::to_string(value);
    uint8_t* const columns = history.Append(slot, time, ++sequence);
    const Bytes bytes{text.data(), text.size()};
    std::memcpy(columns, &value, sizeof(value));
    std::memcpy(columns + sizeof(value), &bytes, sizeof(bytes));
    history.KeepStrings(columns);
  }
  std::vector<double> Values(Slot slot) const {
    std::vector<double> values;
    const VersionList list = history.Versions(slot);
    for (uint32_t i = 0; i < list.count; ++i) {
      double value;
      std::memcpy(&value, list.at(i) + history.offset(0), sizeof(value));
      values.push_back(value);
    }
    return values;
  }

  History history;
  Stamp sequence = 0;
};

using Doubles = std::vector<double>;

}  // namespace

BOOST_AUTO_TEST_SUITE(history)

BOOST_AUTO_TEST_CASE(a_rollback_takes_back_what_was_appended_and_hidden) {
  Rows rows(Spec(100, 0));
  rows.Put(0, 1, 1.0);
  rows.Put(0, 2, 2.0);
  rows.history.Commit(2, true);
  rows.Put(0, 3, 3.0);
  rows.history.Hide(0);
  rows.Put(0, 3, 4.0);
  BOOST_TEST((rows.Values(0) == Doubles{4.0}));
  rows.history.Rollback();
  BOOST_TEST((rows.Values(0) == Doubles{1.0, 2.0}));
  BOOST_TEST(rows.history.Validate());
  std::vector<Slot> found;
  rows.history.Candidates(0, 3, &found);
  BOOST_TEST((found == std::vector<Slot>{0}));
}

BOOST_AUTO_TEST_CASE(what_no_window_reaches_is_collected) {
  Rows by_time(Spec(10, 0)), by_count(Spec(0, 2));
  for (int64_t time : {1, 5, 11, 12}) {
    by_time.Put(0, time, static_cast<double>(time));
    by_count.Put(0, time, static_cast<double>(time));
  }
  by_time.Put(1, 12, 1.0);
  by_time.history.Commit(15, true);
  by_count.history.Commit(15, true);
  BOOST_TEST((by_time.Values(0) == Doubles{5.0, 11.0, 12.0}));
  BOOST_TEST((by_count.Values(0) == Doubles{11.0, 12.0}));
  by_time.Put(1, 40, 2.0);  // nobody writes row 0 any more
  by_time.history.Commit(40, true);
  BOOST_TEST(by_time.Values(0).empty());
  BOOST_TEST((by_time.Values(1) == Doubles{2.0}));
  BOOST_TEST(by_time.history.bytes() > 0u);
  BOOST_TEST((by_time.history.Validate() && by_count.history.Validate()));
}

BOOST_AUTO_TEST_CASE(a_session_is_put_off_until_nothing_comes) {
  Rows rows(Spec(50, 0, {5}, 12));
  std::vector<Slot> due;
  std::vector<int64_t> firsts;
  int64_t deadline = 0;
  rows.Put(7, 1, 1.0);
  rows.Put(7, 4, 2.0);
  BOOST_TEST((rows.history.NextDeadline(0, 0, &deadline) && deadline == 9));
  rows.Put(7, 9, 3.0);  // exactly there: a new one
  BOOST_TEST((rows.history.NextDeadline(0, 4, &deadline) && deadline == 9));
  rows.history.Due(0, 9, &due, &firsts);
  BOOST_TEST((due == std::vector<Slot>{7} && firsts == std::vector<int64_t>{1}));
  for (int64_t time : {13, 17, 20}) rows.Put(7, time, 1.0);
  BOOST_TEST((rows.history.NextDeadline(0, 9, &deadline) && deadline == 21));  // as long as a session may be
  rows.history.Commit(20, true);
  rows.Put(7, 21, 1.0);
  rows.history.Rollback();
  BOOST_TEST((rows.history.NextDeadline(0, 20, &deadline) && deadline == 21));
}

BOOST_AUTO_TEST_CASE(partial_aggregates_are_those_of_the_versions) {
  std::mt19937_64 random(1);
  Rows rows(Spec(4000, 0));
  int64_t now = 0;
  for (int step = 0; step < 6000; ++step) {
    now += static_cast<int64_t>(random() % 3);
    const double values[] = {0.1, 1e308, -1e308, 1e-300, static_cast<double>(random() % 100), INFINITY, -INFINITY, NAN};
    rows.Put(0, now, values[random() % (step % 500 < 20 ? 8 : 5)]);
    if (random() % 50 == 0) rows.history.Commit(now, true);
    if (random() % 100 == 0) rows.history.Rollback();
    if (random() % 2000 == 0) rows.history.Hide(0);
    const int64_t size = random() % 4 ? 100 : 3000, jitter = static_cast<int64_t>(random() % 5);
    const VersionList list = rows.history.Versions(0);
    const History::Range range = rows.history.Between(0, now - size - jitter, now - jitter);
    BOOST_TEST((range.begin == list.Before(now - size - jitter) && range.end == list.Before(now - jitter)));
    if (range.begin == range.end || random() % 4) continue;
    const Doubles all = rows.Values(0), in(all.begin() + range.begin, all.begin() + range.end);
    const PartialOf column{rows.history.offset(0), Kind::kFloat64}, moving{column.offset, column.kind, 0, size};
    ExactSum sum;
    Total by_time, by_range;
    for (double value : in) sum.Add(value);
    StandingSums* const sums = rows.history.SumsOf(moving, 0);
    BOOST_TEST(rows.history.AddSum(sums, 0, {}, now - size - jitter, now - jitter, &by_time) == in.size());
    rows.history.AddSum(sums, 0, range, &by_range);
    for (const Total* kept : {&by_time, &by_range}) {
      const double rounded = kept->exact.Round();
      BOOST_TEST((rounded == sum.Round() || (rounded != rounded && sum.Round() != sum.Round())));
    }
    for (bool largest : {false, true}) {
      size_t best = 0;
      for (size_t i = 1; i < in.size(); ++i) {
        const int order = CompareFloat(in[i], in[best]);
        if (largest ? order > 0 : order < 0) best = i;
      }
      BOOST_TEST(rows.history.Extreme(0, column, largest, range) == list.at(range.begin + static_cast<uint32_t>(best)));
    }
    std::set<uint64_t> words;
    for (double value : in) words.insert(std::bit_cast<uint64_t>(value));
    std::vector<uint64_t> others{*words.begin(), 12345}, listed;
    BOOST_TEST(rows.history.Distinct(0, moving, range, &others) == static_cast<int64_t>(words.size()));
    rows.history.AddDistinct(0, moving, range, &listed);
    BOOST_TEST((others == std::vector<uint64_t>{12345} && std::set(listed.begin(), listed.end()) == words));
  }
  BOOST_TEST(rows.history.Validate());
}

class LongRow : public Rows {
 public:
  static constexpr int64_t kSpan = 1'000, kVersions = 60;  // at 0, 10, 20, …
  static_assert(kVersions >= History::kSumMin);

  LongRow() : Rows(Spec(kSpan, 0)), sums(history.SumsOf({history.offset(0), Kind::kFloat64, 0, kSpan}, 0)) {
    for (int64_t i = 0; i < kVersions; ++i) Put(0, 10 * i, 1.0);
    history.Commit(10 * kVersions, true);
  }
  uint32_t Count(int64_t end) {
    Total total;
    return history.AddSum(sums, 0, {}, end - kSpan, end, &total);
  }
  bool Stands(int64_t end) const { return sums->Find(0)->Stands(end - kSpan, end); }

  StandingSums* const sums;
};

BOOST_AUTO_TEST_CASE(a_sum_stands_between_the_versions_at_its_ends) {
  LongRow row;
  BOOST_TEST(row.Count(405) == 41);
  for (int64_t end : {399, 400}) BOOST_TEST(!row.Stands(end));
  for (int64_t end : {401, 405, 410}) BOOST_TEST(row.Stands(end));
  BOOST_TEST(!row.Stands(411));
  // Behind the last version nothing is known.
  BOOST_TEST(row.Count(700) == LongRow::kVersions);
  BOOST_TEST(!row.Stands(700));
  row.Put(0, 700, 1.0);
  BOOST_TEST(row.Count(700) == LongRow::kVersions);
  BOOST_TEST(row.Stands(700));
  // What is taken back, or deleted, takes it along.
  row.history.Rollback();
  BOOST_TEST(!row.Stands(700));
  BOOST_TEST(row.Count(405) == 41);
  row.history.Hide(0);
  BOOST_TEST(!row.Stands(405));
  BOOST_TEST(row.Count(405) == 0);
}

// It may lie in a block of sums with one that is there; the address sanitizer tells if more than that is looked at.
BOOST_AUTO_TEST_CASE(a_row_that_is_new_can_be_asked_for) {
  LongRow row;
  BOOST_TEST(row.Count(405) == 41);
  const uint8_t version[64] = {};
  for (Slot slot : {Slot{0}, Slot{1}, Slot{15}, Slot{16}, kNoSlot}) {
    row.history.PrefetchRow(slot);
    row.history.PrefetchVersions(slot, row.sums);
    row.history.PrefetchNewer(slot, row.sums, {version, 1, row.history.stride()});
  }
  BOOST_TEST(row.history.Validate());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace morphspark
