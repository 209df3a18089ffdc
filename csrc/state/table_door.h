// The door to an engine's tables: one writer changes them behind a closed door, readers from other threads look at them
// while it is open, or when the writer lets them in between two changes.
//
//        writer     ─ Close ━━━━━━━━━━━━━━ LetIn ━━━━━━━━━━━━━━ Open ─────────▶
//        readers                 ⋯⋯⋯⋯⋯⋯ reading                 reading
//
// The writer asks `wanted` every few transactions, which is one load, and opens the door by itself where it changes
// nothing for long: while a planned batch explores, while a function of the user's runs, between execution and commit.
// So a reader waits for a few transactions, never for a batch. Readers come in together, and those that come later
// wait for the next time: neither side can starve the other.
//
// Whoever is in finds rows as the epoch made them so far, and beside them the version log, which knows each row as it
// was before (table.h): the committed state is always there.
//
// Thread safety: one writer at a time, which nests nothing; any number of readers. A null door is always open.
#pragma once

#include <atomic>
#include <cassert>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace morphspark {

class TableDoor {
 public:
  // Relaxed, with the addition in Enter: only a hint; who then comes in or goes on is settled under the mutex.
  bool wanted() const { return waiting_.load(std::memory_order_relaxed) != 0; }

  // The writer, with the door closed: lets in whoever waits, and waits until they have left.
  void LetIn() {
    std::unique_lock lock(mutex_);
    assert(closed_);
    Admit();
    left_.wait(lock, [this] { return reading_ == 0; });
  }

  // The door is closed while this lives.
  class Writing {
   public:
    explicit Writing(TableDoor* door) : door_(door) {
      if (door_) door_->Close();
    }
    ~Writing() {
      if (door_) door_->Open();
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    TableDoor* const door_;
  };

  // The writer changes nothing while this lives: a door that it had closed is open.
  class Pause {
   public:
    explicit Pause(TableDoor* door) : door_(door) {
      if (door_) door_->Open();
    }
    ~Pause() {
      if (door_) door_->Close();
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    TableDoor* const door_;
  };

  // A reader is in while this lives.
  class Reading {
   public:
    explicit Reading(TableDoor* door) : door_(door) { door_->Enter(); }
    ~Reading() { door_->Leave(); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    TableDoor* const door_;
  };

 private:
  void Close() {
    std::unique_lock lock(mutex_);
    assert(!closed_);
    closed_ = true;  // from here on readers wait
    left_.wait(lock, [this] { return reading_ == 0; });
  }

  void Open() {
    std::lock_guard lock(mutex_);
    assert(closed_ && reading_ == 0);
    closed_ = false;
    Admit();
  }

  // Those that wait are in; they only have to wake up. Relaxed, as in Enter: the mutex orders all but `wanted`.
  void Admit() {
    if (!wanted()) return;
    reading_ += waiting_.load(std::memory_order_relaxed);
    waiting_.store(0, std::memory_order_relaxed);
    ++admissions_;
    entered_.notify_all();
  }

  void Enter() {
    std::unique_lock lock(mutex_);
    if (!closed_) {
      ++reading_;
      return;
    }
    waiting_.fetch_add(1, std::memory_order_relaxed);  // with the load in wanted, which is only a hint
    entered_.wait(lock, [this, before = admissions_] { return admissions_ != before; });
  }

  void Leave() {
    std::lock_guard lock(mutex_);
    assert(reading_ > 0);
    if (--reading_ == 0) left_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable entered_;   // readers wait to be let in
  std::condition_variable left_;      // the writer waits for the last of them
  std::atomic<uint32_t> waiting_{0};  // changed under mutex_; the writer looks without it
  // Guarded by mutex_:
  uint32_t reading_ = 0;
  uint64_t admissions_ = 0;
  bool closed_ = false;
};

}  // namespace morphspark
