// Snapshots: whatever epochs do after one began, it is the state of that moment.
#include "state/snapshot.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "columns.h"
#include "engine.h"
#include "ledger.h"
#include "shortage.h"
#include "simulation.h"

namespace morphspark {
namespace {

using testing::KeyForm;
using testing::Model;
using testing::Random;
using testing::Simulation;

constexpr KeyForm kForms[] = {KeyForm::kInteger, KeyForm::kString, KeyForm::kComposite};

// Three tables whose epochs end together, and a snapshot of them now and then.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (KeyForm form : kForms) {
      tables_.push_back(std::make_unique<Table>(testing::SpecOf(form, seed % 2)));
      simulations_.push_back(std::make_unique<Simulation>(tables_.back().get(), form, random_()));
    }
  }

  void Epoch() {
    const bool commit = random_() % 3 != 0;
    for (const auto& simulation : simulations_) simulation->Epoch(commit);
    BOOST_REQUIRE(!snapshot_ || snapshot_->Validate());
  }

  void Begin() {
    snapshot_ = std::make_unique<Snapshot>(tables_);
    expected_.clear();
    for (const auto& simulation : simulations_) expected_.push_back(simulation->model());
    found_.assign(tables_.size(), {});
  }

  bool open() const { return snapshot_ != nullptr; }

  // Reads a chunk; when there is none left, compares all of them.
  void Read(int64_t rows_max) {
    SnapshotChunk chunk;
    BOOST_REQUIRE(snapshot_->Read(rows_max, nullptr, &chunk).ok());
    BOOST_REQUIRE(snapshot_->Validate());
    BOOST_REQUIRE(chunk.rows <= rows_max);
    if (chunk.rows == 0) {
      BOOST_REQUIRE(found_ == expected_);
      snapshot_.reset();
      return;
    }
    Model rows = testing::ModelOf(chunk.columns, kForms[chunk.table]);
    BOOST_REQUIRE_EQUAL(rows.size(), static_cast<size_t>(chunk.rows));
    found_[chunk.table].merge(rows);
    BOOST_REQUIRE(rows.empty());  // no row twice
  }

 private:
  Random random_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Simulation>> simulations_;
  std::unique_ptr<Snapshot> snapshot_;  // after the tables: it goes first
  std::vector<Model> expected_, found_;
};

BOOST_AUTO_TEST_SUITE(snapshot)

BOOST_AUTO_TEST_CASE(random_epochs_leave_a_snapshot_as_it_was) {
  int read = 0;
  for (uint64_t seed = 500; seed < 512; ++seed) {
    World world(seed);
    Random random(seed);
    for (int epoch = 0; epoch < 80; ++epoch) {
      world.Epoch();
      if (!world.open() && random() % 3 == 0) world.Begin();
      // Mostly slowly, so that many epochs pass.
      for (uint64_t chunks = random() % 4; chunks > 0 && world.open(); --chunks) {
        world.Read(static_cast<int64_t>(1 + random() % (random() % 4 ? 8 : 200)));
        read += !world.open();
      }
    }
  }
  BOOST_TEST_MESSAGE(read << " snapshots");
  BOOST_TEST(read > 50);
}

TableSpec Texts() {
  TableSpec spec;
  spec.key = {Kind::kString};
  spec.columns = {Kind::kString};
  return spec;
}

void Put(Table* table, const std::string& key, const std::string& text) {
  const Slot slot = table->FindOrAdd(testing::BytesOf(key));
  table->Begin(1);
  if (table->Exists(slot))
    table->Own(slot);
  else
    table->Insert(slot);
  table->Store(slot, 0, testing::StringValue(text));
}

void Drop(Table* table, const std::string& key) {
  table->Begin(1);
  table->Delete(table->FindOrAdd(testing::BytesOf(key)));
}

using Texted = std::map<std::string, std::string>;

Texted ReadAll(Snapshot* snapshot, int64_t rows_max) {
  Texted found;
  for (;;) {
    SnapshotChunk chunk;
    BOOST_REQUIRE(snapshot->Read(rows_max, nullptr, &chunk).ok());
    if (chunk.rows == 0) return found;
    const auto keys = testing::StringsOf(testing::ViewOf(chunk.columns[0], Kind::kString));
    const auto texts = testing::StringsOf(testing::ViewOf(chunk.columns[1], Kind::kString));
    for (size_t row = 0; row < keys.size(); ++row) BOOST_REQUIRE(found.emplace(*keys[row], *texts[row]).second);
  }
}

std::vector<std::unique_ptr<Table>> OneTable() {
  std::vector<std::unique_ptr<Table>> tables;
  tables.push_back(std::make_unique<Table>(Texts()));
  return tables;
}

BOOST_AUTO_TEST_CASE(a_slot_that_another_key_got) {
  const auto tables = OneTable();
  Table* table = tables[0].get();
  Put(table, "a", "1");
  Put(table, "b", "2");
  table->CommitEpoch();
  const Slot slot = table->FindOrAdd(testing::BytesOf("a"));
  Snapshot snapshot(tables);
  Drop(table, "a");
  table->CommitEpoch();
  Put(table, "c", "3");
  BOOST_TEST(table->FindOrAdd(testing::BytesOf("c")) == slot);
  table->CommitEpoch();
  Put(table, "a", "4");  // elsewhere
  table->CommitEpoch();
  BOOST_TEST(snapshot.Validate());
  BOOST_TEST((ReadAll(&snapshot, 1) == Texted{{"a", "1"}, {"b", "2"}}));
  BOOST_TEST(snapshot.Validate());
}

BOOST_AUTO_TEST_CASE(a_free_slot_that_a_key_got) {
  const auto tables = OneTable();
  Table* table = tables[0].get();
  Put(table, "a", "1");
  Put(table, "b", "2");
  table->CommitEpoch();
  Drop(table, "a");
  table->CommitEpoch();
  Snapshot snapshot(tables);
  Put(table, "c", "3");
  table->RollbackEpoch();
  Put(table, "d", "4");
  table->CommitEpoch();
  BOOST_TEST((ReadAll(&snapshot, 10) == Texted{{"b", "2"}}));
}

BOOST_AUTO_TEST_CASE(both_heaps_are_compacted_and_the_table_grows) {
  const auto tables = OneTable();
  Table* table = tables[0].get();
  Texted expected;
  const std::string long_name(5'000, 'k');
  for (int i = 0; i < 300; ++i) {
    const std::string key = (i % 3 ? "short " : long_name) + std::to_string(i);
    Put(table, key, std::string(i % 50 * 20, 't'));
    expected[key] = std::string(i % 50 * 20, 't');
  }
  table->CommitEpoch();
  Snapshot snapshot(tables);
  const uint64_t before = table->bytes_reserved();
  for (const auto& [key, text] : expected) {
    if (key < "s") Drop(table, key);  // the long ones: most of the key heap
  }
  table->CommitEpoch();
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (int i = 0; i < 2'000; ++i) Put(table, "new " + std::to_string(i), std::string(100, 'x'));
    if (epoch % 3 == 2)
      table->RollbackEpoch();
    else
      table->CommitEpoch();
  }
  BOOST_TEST(table->bytes_reserved() < before + (4u << 20));
  BOOST_TEST(table->slots() > 2'000u);
  BOOST_TEST(snapshot.Validate());
  BOOST_TEST((ReadAll(&snapshot, 7) == expected));
  BOOST_TEST(table->Validate());
}

BOOST_AUTO_TEST_CASE(rows_that_are_applied_count_as_changed) {
  const auto tables = OneTable();
  Table* table = tables[0].get();
  Put(table, "a", "1");
  Put(table, "b", "2");
  Put(table, "c", "3");
  table->CommitEpoch();
  Snapshot snapshot(tables);
  const testing::Column keys = testing::Strings({"a", "d", "c", "c"}), texts = testing::Strings({"", "9", "8", "7"});
  const testing::Column deleted = testing::Bools({true, false, false, false});
  const ColumnView bits = deleted.View();
  BOOST_TEST(table->Apply(testing::Views({&keys}), testing::Views({&texts}), &bits).ok());
  BOOST_TEST(table->Validate());
  BOOST_TEST((ReadAll(&snapshot, 2) == Texted{{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  Snapshot after(tables);
  BOOST_TEST((ReadAll(&after, 2) == Texted{{"b", "2"}, {"c", "7"}, {"d", "9"}}));
}

BOOST_AUTO_TEST_CASE(a_chunk_of_long_strings_has_few_rows) {
  const auto tables = OneTable();
  Table* table = tables[0].get();
  for (int i = 0; i < 40; ++i) Put(table, std::to_string(i), std::string(1 << 20, 'x'));
  table->CommitEpoch();
  for (bool saved : {false, true}) {
    Snapshot snapshot(tables);
    for (int i = 0; i < 40 && saved; ++i) Put(table, std::to_string(i), "");
    table->CommitEpoch();
    SnapshotChunk first, second, last;
    BOOST_REQUIRE(snapshot.Read(1'000, nullptr, &first).ok() && snapshot.Read(1'000, nullptr, &second).ok());
    BOOST_REQUIRE(snapshot.Read(1'000, nullptr, &last).ok());
    BOOST_TEST(first.rows == 32);
    BOOST_TEST(second.rows == 8);
    BOOST_TEST(last.rows == 0);
  }
}

// ------------------------------------------------------------------------------------------------- the engine

using testing::LedgerBatch;
using testing::LedgerCode;
using testing::LedgerEvent;
using testing::LedgerTables;

LedgerBatch Batch(uint64_t seed) {
  Random random(seed);
  std::vector<LedgerEvent> events;
  for (int i = 0; i < 300; ++i) events.push_back(testing::RandomEvent(&random, i, 100, 60));
  return LedgerBatch(events);
}

uint64_t RowsLeft(Engine* engine) {
  uint64_t rows = 0;
  for (SnapshotChunk chunk;; rows += static_cast<uint64_t>(chunk.rows)) {
    BOOST_REQUIRE(engine->ReadSnapshot(7, &chunk).ok());
    if (chunk.rows == 0) return rows;
  }
}

BOOST_AUTO_TEST_CASE(calls_at_the_wrong_time_are_refused) {
  const Code code = LedgerCode();
  Engine engine(LedgerTables(), 1);
  const auto refused = [](const Status& status) { return status.code() == StatusCode::kInvalid; };
  SnapshotChunk chunk;
  std::vector<ColumnBuffers> columns;
  BOOST_TEST(refused(engine.ReadSnapshot(1, &chunk)));
  BOOST_TEST(refused(engine.Changes(0, &columns)));
  BOOST_REQUIRE(engine.BeginSnapshot().ok());
  BOOST_TEST(refused(engine.BeginSnapshot()));
  BOOST_TEST(refused(engine.ReadSnapshot(0, &chunk)));
  const LedgerBatch batch = Batch(1);
  EpochResult result;
  BOOST_REQUIRE(engine.Execute(batch.Input(code), &result).ok());
  BOOST_TEST(refused(engine.ReadSnapshot(1, &chunk)));
  BOOST_TEST(refused(engine.Apply(0, {}, {})));
  BOOST_TEST(refused(engine.Changes(99, &columns)));
  BOOST_TEST(engine.Changes(0, &columns).ok());
  BOOST_TEST(columns.size() == 3u);
  engine.EndSnapshot();
  engine.EndSnapshot();
  BOOST_TEST(refused(engine.BeginSnapshot()));
  engine.Rollback();
  BOOST_TEST(engine.BeginSnapshot().ok());
  BOOST_TEST(RowsLeft(&engine) == 0u);
}

BOOST_AUTO_TEST_CASE(without_memory_the_snapshot_is_lost_and_the_epoch_is_not) {
  const Code code = LedgerCode();
  const LedgerBatch first = Batch(2), second = Batch(3);
  int lost = 0, kept = 0;
  for (int64_t allowed = 0; allowed < 6; ++allowed) {
    Engine engine(LedgerTables(), 1);
    EpochResult one, two;
    BOOST_REQUIRE(engine.Execute(first.Input(code), &one).ok());
    engine.Commit();
    const uint64_t rows = engine.state_rows();
    BOOST_REQUIRE(engine.BeginSnapshot().ok());
    BOOST_REQUIRE(engine.Execute(second.Input(code), &two).ok());
    const testing::LedgerState after = testing::StateOf(engine);
    {
      const testing::Shortage shortage(allowed);
      engine.Commit();
    }
    BOOST_REQUIRE(engine.Validate());
    BOOST_REQUIRE(testing::StateOf(engine) == after);
    SnapshotChunk chunk;
    const Status status = engine.ReadSnapshot(1, &chunk);
    if (status.ok()) {
      ++kept;
      BOOST_REQUIRE_EQUAL(RowsLeft(&engine) + 1, rows);
    } else {
      ++lost;
      BOOST_REQUIRE((status.code() == StatusCode::kOutOfMemory));
    }
    engine.EndSnapshot();
    BOOST_REQUIRE(engine.BeginSnapshot().ok());
    BOOST_REQUIRE_EQUAL(RowsLeft(&engine), engine.state_rows());
  }
  BOOST_TEST(lost > 0);
  BOOST_TEST(kept > 0);
}

BOOST_AUTO_TEST_CASE(calls_without_memory_can_be_made_again) {
  const Code code = LedgerCode();
  const LedgerBatch batch = Batch(4), later = Batch(5);
  for (int64_t allowed = 0;; ++allowed) {
    Engine engine(LedgerTables(), 1);
    EpochResult result, ignored;
    BOOST_REQUIRE(engine.Execute(batch.Input(code), &result).ok());
    engine.Commit();
    const uint64_t rows = engine.state_rows();
    uint64_t read = 0;
    bool short_of_memory;
    {
      const testing::Shortage shortage(allowed);
      const Status begun = engine.BeginSnapshot();
      BOOST_REQUIRE((begun.ok() || engine.BeginSnapshot().ok()));
      for (SnapshotChunk chunk;;) {
        const Status status = engine.ReadSnapshot(10, &chunk);
        if (!status.ok()) {
          BOOST_REQUIRE((status.code() == StatusCode::kOutOfMemory));
          continue;
        }
        if (chunk.rows == 0) break;
        read += static_cast<uint64_t>(chunk.rows);
      }
      engine.EndSnapshot();
      short_of_memory = shortage.happened();
    }
    BOOST_REQUIRE_EQUAL(read, rows);
    BOOST_REQUIRE(engine.Validate());
    if (!short_of_memory) return;
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
