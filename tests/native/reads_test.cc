// Reads from other threads while epochs run: every one finds the state of one commit, and never an older one than the
// read before it. A snapshot is read beside, and its chunks are taken over by another thread, as a writer of files
// does.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>

#include "ledger.h"
#include "state/table_door.h"

namespace morphspark {
namespace {

using testing::LedgerBatch;
using testing::LedgerCode;
using testing::LedgerEvent;
using testing::LedgerState;
using testing::LedgerTables;
using testing::Random;

void AddRows(TableId table, const std::vector<ColumnBuffers>& columns, LedgerState* state) {
  const auto numbers = [&](size_t column) { return testing::Int64sOf(testing::ViewOf(columns[column], Kind::kInt64)); };
  const auto texts = [&](size_t column) { return testing::StringsOf(testing::ViewOf(columns[column], Kind::kString)); };
  if (table == testing::kAccountTable) {
    const auto keys = numbers(0), balances = numbers(1);
    for (size_t row = 0; row < keys.size(); ++row) state->accounts[*keys[row]] = *balances[row];
  } else {
    const auto names = texts(0), notes = texts(1);
    const auto counts = numbers(2);
    for (size_t row = 0; row < names.size(); ++row) state->notes[*names[row]] = {*notes[row], *counts[row]};
  }
}

LedgerState Read(Engine* engine) {
  const TableId tables[] = {testing::kAccountTable, testing::kNoteTable};
  std::vector<std::vector<ColumnBuffers>> columns;
  LedgerState state;
  if (!engine->ReadCommitted(tables, &columns).ok()) return state;
  for (TableId table : tables) AddRows(table, columns[table], &state);
  return state;
}

// What was committed, or is about to be; known before it can be seen.
class Truth {
 public:
  void Add(LedgerState state) {
    const std::lock_guard lock(mutex_);
    states_.push_back(std::move(state));
  }
  // The first from `from` on that is equal; -1: none.
  int64_t Find(const LedgerState& state, int64_t from) const {
    const std::lock_guard lock(mutex_);
    for (auto at = static_cast<size_t>(from); at < states_.size(); ++at) {
      if (states_[at] == state) return static_cast<int64_t>(at);
    }
    return -1;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<LedgerState> states_;
};

// Compares snapshots in a thread of its own.
class ChunkTaker {
 public:
  ~ChunkTaker() { Join(); }
  // A chunk; without rows: the end of the snapshot, which was `expected`.
  void Take(SnapshotChunk chunk, LedgerState expected = {}) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(std::move(chunk), std::move(expected));
  }
  void Join() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int good = 0, bad = 0;  // after Join

 private:
  void Work() {
    for (;;) {
      std::pair<SnapshotChunk, LedgerState> one;
      {
        const std::lock_guard lock(mutex_);
        if (waiting_.empty() && over_) return;
        if (waiting_.empty()) continue;
        one = std::move(waiting_.front());
        waiting_.pop_front();
      }
      if (one.first.rows > 0) {
        AddRows(one.first.table, one.first.columns, &found_);
      } else {
        ++(found_ == one.second ? good : bad);
        found_ = {};
      }
    }
  }

  std::mutex mutex_;
  std::deque<std::pair<SnapshotChunk, LedgerState>> waiting_;
  std::atomic<bool> over_{false};
  LedgerState found_;
  std::thread thread_{[this] { Work(); }};
};

BOOST_AUTO_TEST_SUITE(reads)

BOOST_AUTO_TEST_CASE(readers_and_a_snapshot_beside_running_epochs) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 2);
  LedgerState model;
  Truth truth;
  truth.Add(model);
  std::atomic<int> running{0};  // the epoch that executes; 0: none
  std::atomic<int> beside{0};   // reads that began and ended in one
  std::atomic<bool> over{false}, wrong{false};
  const auto read = [&] {
    int64_t last = 0;
    while (!over) {
      const int epoch = running;
      const int64_t found = truth.Find(Read(&engine), last);
      if (epoch != 0 && epoch == running) ++beside;
      if (found < 0) wrong = true;
      last = std::max<int64_t>(found, 0);
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);

  const Strategy strategies[] = {
      {},
      {.scheme = Scheme::kExplore, .exploration = Exploration::kNs, .unit = Unit::kTransaction},
      {.scheme = Scheme::kExplore, .exploration = Exploration::kBfs, .unit = Unit::kChain},
      {.scheme = Scheme::kExplore, .exploration = Exploration::kBfs, .unit = Unit::kStratum},
  };
  ChunkTaker taker;
  LedgerState image;
  bool open = false;
  Random random(7);
  for (int epoch = 1; epoch <= 60; ++epoch) {
    if (!open) {
      BOOST_REQUIRE(engine.BeginSnapshot().ok());
      image = model;
      open = true;
    } else {
      SnapshotChunk chunk;
      BOOST_REQUIRE(engine.ReadSnapshot(40, &chunk).ok());
      open = chunk.rows > 0;
      taker.Take(std::move(chunk), open ? LedgerState() : image);
      if (!open) engine.EndSnapshot();
    }
    std::vector<LedgerEvent> events;
    for (int i = 0; i < 1'000; ++i) events.push_back(testing::RandomEvent(&random, i, 100, 60));
    const LedgerBatch batch(events);
    EpochInput input = batch.Input(code);
    input.strategy = strategies[epoch % 4];
    input.punctuation = epoch % 3 == 0 ? 100 : 0;
    EpochResult result;
    running = epoch;
    BOOST_REQUIRE(engine.Execute(input, &result).ok());
    running = 0;
    if (epoch % 5 == 0) {
      engine.Rollback();
      continue;
    }
    for (const LedgerEvent& event : events) testing::Apply(event, &model);
    truth.Add(model);
    engine.Commit();
    BOOST_REQUIRE(engine.Validate());
    BOOST_REQUIRE((Read(&engine) == model));
  }
  over = true;
  for (std::thread& reader : readers) reader.join();
  taker.Join();
  BOOST_TEST(!wrong);
  BOOST_TEST(taker.bad == 0);
  BOOST_TEST(taker.good > 2);
  BOOST_TEST_MESSAGE(beside << " reads beside a running epoch");
  BOOST_TEST(beside > 0);
}

BOOST_AUTO_TEST_CASE(an_executed_epoch_is_not_seen_before_its_commit) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  Random random(3);
  LedgerState before;
  for (int epoch = 0; epoch < 20; ++epoch) {
    std::vector<LedgerEvent> events;
    for (int i = 0; i < 60; ++i) events.push_back(testing::RandomEvent(&random, i, 20, 30));
    const LedgerBatch batch(events);
    EpochResult result;
    BOOST_REQUIRE(engine.Execute(batch.Input(code), &result).ok());
    const LedgerState after = testing::StateOf(engine);
    BOOST_REQUIRE((Read(&engine) == before));
    if (epoch % 3 == 0) {
      engine.Rollback();
      BOOST_REQUIRE((Read(&engine) == before));
    } else {
      engine.Commit();
      BOOST_REQUIRE((Read(&engine) == after));
      before = after;
    }
  }
  std::vector<std::vector<ColumnBuffers>> columns;
  const TableId none[] = {99};
  BOOST_TEST((engine.ReadCommitted(none, &columns).code() == StatusCode::kInvalid));
}

BOOST_AUTO_TEST_CASE(neither_side_of_the_door_starves) {
  TableDoor door;
  int64_t value = 0;  // changed behind the door only
  std::atomic<bool> over{false}, wrong{false};
  std::atomic<int64_t> reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (int64_t last = 0; !over; ++reads) {
        const TableDoor::Reading reading(&door);
        if (value < last) wrong = true;
        last = value;
      }
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (reads < 500 && std::chrono::steady_clock::now() < deadline) {
    const TableDoor::Writing writing(&door);
    for (int i = 0; i < 50; ++i) {
      ++value;
      if (door.wanted()) door.LetIn();
    }
    const TableDoor::Pause pause(&door);
  }
  over = true;
  for (std::thread& reader : readers) reader.join();
  BOOST_TEST(!wrong);
  BOOST_TEST(reads >= 500);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
