// The versions of a table's rows that outlive their epoch: what windows read and triggers look at.
//
//   rows        a list per row, the oldest version first; times only grow. A deletion hides the list so far
//   entries     what the running epoch appended and hid, in order: what a rollback takes back and a delta writes down
//   by age      rows that have a visible version, linked in the order of their newest one
//   deadlines   for each session over the table a heap of (when, row), one entry per open session; an entry whose
//               session has gone on since is put off when it comes up
//   partials    of rows whose windows are long: aggregates that need not be computed anew (partials.h)
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
// Thread safety: any number of readers while nobody appends. What readers change, partial aggregates and where windows
// began lately, has locks of its own.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/arena.h"
#include "base/ids.h"
#include "base/prefetch.h"
#include "state/partials.h"
#include "state/row_image.h"

namespace morphspark {

// The visible versions of one row.
struct VersionList {
  const uint8_t* first = nullptr;
  uint32_t count = 0;
  uint32_t stride = 0;

  const uint8_t* at(uint32_t index) const { return first + uint64_t{index} * stride; }
  static int64_t Time(const uint8_t* version) {
    int64_t time;
    std::memcpy(&time, version, sizeof(time));
    return time;
  }
  static Stamp Sequence(const uint8_t* version) {
    Stamp sequence;
    std::memcpy(&sequence, version + 8, sizeof(sequence));
    return sequence;
  }
  static int64_t First(const uint8_t* version, size_t session) {
    int64_t first;
    std::memcpy(&first, version + 16 + 8 * session, sizeof(first));
    return first;
  }
  // How many versions are older than this time.
  uint32_t Before(int64_t time) const {
    return Partition([&](const uint8_t* version) { return Time(version) < time; });
  }
  // How many come first for which the test holds; it holds for none behind them.
  template <class Test>
  uint32_t Partition(Test test) const {
    uint32_t low = 0, high = count;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (test(at(middle)))
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

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
    return {row.bytes.data() + uint64_t{row.visible} * stride_, Count(row) - row.visible, stride_};
  }
  // Which of a row's visible versions have a time in [start, end).
  struct Range {
    uint32_t begin, end;
  };
  Range Between(Slot slot, int64_t start, int64_t end);
  // Three steps that ask for what reading a window needs, to be taken over many rows in turn.
  void PrefetchRow(Slot slot) const {
    if (slot < rows_.size()) Prefetch(&rows_[slot]);
  }
  void PrefetchPartials(Slot slot) const {
    if (slot < rows_.size() && rows_[slot].partials) Prefetch(rows_[slot].partials.get());
  }
  void PrefetchSums(Slot slot) const {
    if (slot >= rows_.size() || !rows_[slot].partials) return;
    const auto* sums = reinterpret_cast<const uint8_t*>(rows_[slot].partials->sums.data());
    Prefetch(sums);
    Prefetch(sums + 64);
  }

  // Aggregates over a range of a row's visible versions, which is not empty. They cost what has changed since.
  void AddSum(Slot slot, const PartialOf& of, Range range, Int128* whole, ExactSum* exact);
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

  // Windows that start after `after` and not after `until` begin with this version.
  struct Beginning {
    uint64_t number = 0;
    int64_t after = 0, until = 0;  // the time of the version before it, and its own
  };
  struct Row {
    std::vector<uint8_t> bytes;
    uint32_t gone = 0;     // versions at the front that are dropped, and not yet moved away
    uint32_t visible = 0;  // versions before it are hidden, or gone
    uint64_t first = 0;    // number of the version at the front
    int64_t newest = 0;    // time of the last version
    Beginning began;       // where a window began lately
    std::unique_ptr<RowPartials> partials;
  };
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

  uint32_t Count(const Row& row) const { return static_cast<uint32_t>(row.bytes.size() / stride_); }
  NumberedVersions Numbered(const Row& row) const {
    return {row.bytes.data(), row.first, row.first + row.gone, stride_};
  }
  uint64_t NumberOf(const Row& row, uint32_t visible) const { return row.first + row.visible + visible; }
  // Calls use(partial) under the row's lock: the one that serves these windows, moved to the range.
  template <class Moving, class Use>
  void WithMoving(Slot slot, std::vector<Moving> RowPartials::* which, const PartialOf& of, Range range, Use use);
  RowPartials& PartialsOf(Row& row);
  Beginning FindBeginning(const Row& row, const VersionList& list, int64_t start) const;
  int64_t DeadlineOf(size_t session, const uint8_t* last) const;
  void Trim(Slot slot, int64_t now);
  void DropPartials(Row* row, uint32_t gone);
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
  std::vector<Entry> entries_;
  std::vector<Slot> older_, newer_;  // by slot: neighbours by age; kNoSlot at the ends
  Slot oldest_ = kNoSlot, newest_ = kNoSlot;
  std::vector<Heap> deadlines_;  // by session
  bool settled_ = true;          // by age and deadlines are as the rows say
  Stamp last_sequence_ = 0;
  uint64_t versions_ = 0;
  uint64_t string_bytes_ = 0;           // of versions that are there
  std::array<SpinLock, kLocks> locks_;  // of the partials of rows, by slot
  Arena strings_;
};

}  // namespace morphspark
