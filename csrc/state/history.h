// The versions of a table's rows that outlive their epoch: what windows read and triggers look at.
//
//   rows        a list per row, the oldest version first; times only grow. A deletion hides the list so far
//   entries     what the running epoch appended and hid, in order: what a rollback takes back and a delta writes down
//   by age      rows that have a visible version, linked in the order of their newest one
//   deadlines   for each session over the table a heap of (when, row), one entry per open session; an entry whose
//               session has gone on since is put off when it comes up
//   sums, partials   of rows whose windows are long: aggregates that need not be computed anew (standing_sums.h,
//               partials.h)
//
// A version in memory: its time, the number of its transaction, the beginning of each session it belongs to, then the
// row's columns packed as in the table's version log; strings lie in an arena of the history's own.
//
// After the commit a row that the epoch touched loses what no window can reach, and rows that nobody writes any more
// are found at the old end of `by age`. While a snapshot is open nothing is collected.
//
// Invariants, between epochs:
//   1. Nothing is hidden, and a row that does not exist has no version.
//   2. A row is linked by age if and only if it has a version.
//
// Thread safety: any number of readers while nobody appends. Of what readers change, sums belong to one worker each;
// other partial aggregates, and where windows began lately, have locks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/arena.h"
#include "base/ids.h"
#include "base/padded.h"
#include "base/prefetch.h"
#include "state/partials.h"
#include "state/row_image.h"
#include "state/standing_sums.h"
#include "state/version_list.h"

namespace morphspark {

// A lock for something short.
class SpinLock {
 public:
  void lock() {
    // acquire: sees what the last holder did before its release in unlock().
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }  // partner: the acquire in lock()

 private:
  std::atomic_flag flag_;
};

class History {
 public:
  explicit History(const TableSpec& spec);

  VersionList Versions(Slot slot) const {
    if (slot >= rows_.size()) return {};
    const Row& row = rows_[slot];
    return {row.bytes.data() + uint64_t{row.visible} * stride_, row.count - row.visible, stride_};
  }
  // Which of a row's visible versions have a time in [start, end).
  struct Range {
    uint32_t begin, end;
  };
  Range Between(Slot slot, int64_t start, int64_t end);
  // Two steps that ask for what reading a window needs, to be taken over many rows in turn, when their sums have been
  // asked for. `sums` may be null.
  [[gnu::always_inline]] void PrefetchRow(Slot slot) const {
    if (slot < rows_.size()) Prefetch(&rows_[slot]);
  }
  // Of what a batch has left.
  [[gnu::always_inline]] void PrefetchNewer(Slot slot, const StandingSums* sums, const VersionList& newer) const {
    uint64_t at = 0;
    if (const StandingSum* const sum = slot < rows_.size() && sums != nullptr ? sums->Find(slot) : nullptr) {
      const Row& row = rows_[slot];
      const uint64_t split = row.first + row.count;
      at = sum->end() < split ? 0 : std::min<uint64_t>(sum->end() - split, newer.count);
    }
    Prefetch(newer.first + at * stride_);
  }
  [[gnu::always_inline]] void PrefetchVersions(Slot slot, const StandingSums* sums) const {
    const VersionList list = Versions(slot);
    if (list.count == 0) return;
    if (list.count < kSumMin || sums == nullptr) {
      constexpr size_t kLine = 64, kLinesMost = 6;
      const size_t bytes = std::min(size_t{list.count} * stride_, kLine * kLinesMost);
      for (size_t behind = 1; behind < bytes; behind += kLine) Prefetch(list.at(list.count) - behind);
      Prefetch(list.at(list.count) - bytes);
    } else if (const StandingSum* const sum = sums->Find(slot)) {
      const Row& row = rows_[slot];  // what leaves the window next
      if (sum->begin() >= row.first) Prefetch(row.bytes.data() + (sum->begin() - row.first) * stride_);
    }
  }

  static constexpr uint32_t kSumMin = 48;  // shorter lists are added up faster than their sum is found
  // The worker's sums of such windows, to be asked for with every window. Null: there are too many sorts of windows, as
  // calls bring their own.
  StandingSums* SumsOf(const PartialOf& of, int worker);
  // Adds up the row's visible versions with a time in [start, end), and what a running batch has left of the row, which
  // is kept when it ends well; returns how many there are. Costs what has changed since the sum was asked for last.
  uint32_t AddSum(StandingSums* sums, Slot slot, const VersionList& newer, int64_t start, int64_t end, Total* total);
  // The batch has failed: nothing of it is kept.
  void ForgetSums() {
    for (const auto& one : sums_) one->Forget();
  }
  // The same for a range that is not empty.
  void AddSum(StandingSums* sums, Slot slot, Range range, Total* total);
  // Aggregates over a range of a row's visible versions, which is not empty. They cost what has changed since.
  // The first version with the smallest or largest value.
  const uint8_t* Extreme(Slot slot, const PartialOf& of, bool largest, Range range);
  // How many distinct values there are; takes them away from `others`. Not of strings.
  int64_t Distinct(Slot slot, const PartialOf& of, Range range, std::vector<uint64_t>* others);
  // The distinct values.
  void AddDistinct(Slot slot, const PartialOf& of, Range range, std::vector<uint64_t>* words);

  uint32_t offset(ColumnId column) const { return offsets_[column]; }
  uint32_t stride() const { return stride_; }
  size_t sessions() const { return spec_.gaps.size(); }
  Stamp last_sequence() const { return last_sequence_; }

  // -- in an epoch

  // Appends a version; the caller fills in the columns, packed, and then calls `KeepStrings`.
  uint8_t* Append(Slot slot, int64_t time, Stamp sequence);
  void KeepStrings(uint8_t* columns);
  // Two steps that ask for what appending to a row needs.
  [[gnu::always_inline]] void PrefetchList(Slot slot) const {
    if (slot >= rows_.size()) return;
    Prefetch(&rows_[slot]);
    Prefetch(&older_[slot]);
    Prefetch(&newer_[slot]);
  }
  [[gnu::always_inline]] void PrefetchEnd(Slot slot) const {
    if (slot < rows_.size()) PrefetchToWrite(rows_[slot].bytes.data() + rows_[slot].bytes.size());
  }
  void Hide(Slot slot);

  // What the epoch did, in order. `version` is null for a deletion.
  template <class Visit>
  void EachEntry(Visit visit) const {
    for (const Entry& one : entries_) {
      visit(one.slot,
            one.version == kHidden ? nullptr : rows_[one.slot].bytes.data() + uint64_t{one.version} * stride_);
    }
  }
  // The versions that rows touched by the epoch had before it.
  std::unordered_map<Slot, VersionList> BeforeEpoch() const;

  void Commit(int64_t now, bool collect);
  void Rollback();

  // -- recovery: part of no epoch

  // As Append: time, sequence and beginnings of sessions as they were.
  uint8_t* Restore(Slot slot, std::span<const int64_t> head);
  void Forget(Slot slot);

  // -- triggers

  // The time of the newest version of any row; false: there is none.
  bool Newest(int64_t* time);
  // Rows with a version in [start, end), in no order.
  void Candidates(int64_t start, int64_t end, std::vector<Slot>* slots);
  // The earliest deadline of a session after `clock`; false: there is none.
  bool NextDeadline(size_t session, int64_t clock, int64_t* deadline);
  // Rows whose session has this deadline, in no order, and when it began.
  void Due(size_t session, int64_t deadline, std::vector<Slot>* slots, std::vector<int64_t>* firsts);

  // How long a session takes that has only one version.
  int64_t ShortestSession(size_t session) const {
    return spec_.limit ? std::min(spec_.gaps[session], spec_.limit) : spec_.gaps[session];
  }

  uint64_t bytes() const { return versions_ * stride_ + string_bytes_; }
  bool Validate() const;

 private:
  static constexpr uint32_t kHidden = 0xFFFFFFFFu;
  static constexpr size_t kLocks = 64;
  static constexpr size_t kSumsMost = 48;

  // Windows that start after `after` and not after `until` begin with this version.
  struct Beginning {
    uint64_t number = 0;
    int64_t after = 0, until = 0;  // the time of the version before it, and its own
  };
  struct alignas(64) Row {  // a cache line: most are far away
    std::vector<uint8_t> bytes;
    uint32_t count = 0;    // of versions in `bytes`: to divide takes as long as to read a sum
    uint32_t gone = 0;     // versions at the front that are dropped, and not yet moved away
    uint32_t visible = 0;  // versions before it are hidden, or gone
    uint64_t first = 0;    // number of the version at the front
    int64_t newest = 0;    // time of the last version
    std::unique_ptr<RowPartials> partials;
  };
  static_assert(sizeof(Row) == 64);
  struct Entry {
    Slot slot;
    uint32_t version;  // index of the appended one; kHidden
    uint32_t visible;  // of a deletion: what was visible before
    uint32_t count;    // of a deletion: versions that were there
  };
  struct Deadline {
    int64_t when;
    Slot slot;
    bool operator>(const Deadline& other) const { return when > other.when; }
  };
  using Heap = std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>>;

  NumberedVersions Numbered(const Row& row) const {
    return {row.bytes.data(), row.first, row.first + row.gone, stride_};
  }
  uint64_t NumberOf(const Row& row, uint32_t visible) const { return row.first + row.visible + visible; }
  // Calls use(partial) under the row's lock: the one that serves these windows, moved to the range.
  template <class Moving, class Use>
  void WithMoving(Slot slot, std::vector<Moving> RowPartials::* which, const PartialOf& of, Range range, Use use);
  RowPartials& PartialsOf(Row& row);
  // The beginning is not far from version number `near`, mostly.
  Beginning FindBeginning(const Row& row, const VersionList& list, int64_t start, uint64_t near) const;
  Beginning FindBeginning(const Row& row, const VersionList& list, const VersionList& newer, int64_t start,
                          uint64_t near) const;
  template <class Visit>
  void EachSum(Slot slot, Visit visit);
  int64_t DeadlineOf(size_t session, const uint8_t* last) const;
  void Trim(Slot slot, int64_t now);
  [[gnu::always_inline]] void PrefetchOldest(Slot slot) const {
    if (slot < rows_.size()) Prefetch(rows_[slot].bytes.data() + uint64_t{rows_[slot].visible} * stride_);
  }
  void DropPartials(Slot slot, uint32_t gone);
  void MoveAway(Row* row);
  void Link(Slot slot);
  void Unlink(Slot slot);
  void Settle();
  void CountDropped(const uint8_t* version);
  void CompactStringsIfNeeded();
  template <class Visit>
  void EachText(uint8_t* columns, Visit visit) const;

  const HistorySpec spec_;
  uint32_t stride_, head_bytes_;
  std::vector<uint32_t> offsets_;  // of each column in a version
  std::vector<uint32_t> texts_;    // offsets of string columns behind the head
  std::vector<Row> rows_;          // by slot
  std::vector<Beginning> began_;   // by slot: where a window began lately; not that of a sum
  std::vector<Entry> entries_;
  std::vector<Slot> older_, newer_;  // by slot: neighbours by age; kNoSlot at the ends
  Slot oldest_ = kNoSlot, newest_ = kNoSlot;
  std::vector<Heap> deadlines_;  // by session
  bool settled_ = true;          // by age and deadlines are as the rows say
  Stamp last_sequence_ = 0;
  uint64_t versions_ = 0;
  uint64_t string_bytes_ = 0;                   // of versions that are there
  std::array<Padded<SpinLock>, kLocks> locks_;  // of the partials of rows, by slot
  std::mutex new_sums_;
  std::vector<std::unique_ptr<StandingSums>> sums_;
  // By worker, modulo their number: each knows the next.
  std::array<std::atomic<StandingSums*>, 16> first_sums_ = {};
  Arena strings_;
};

}  // namespace morphspark
