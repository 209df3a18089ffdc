// Windows under every strategy against plain C++: on threads, and in interleavings drawn from seeds. Rows are few, so
// their lists are long enough for sums that stand.
#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "assembler.h"
#include "columns.h"
#include "engine.h"
#include "shortage.h"
#include "strategies.h"

namespace morphspark {
namespace {

using testing::Random;
using testing::Rows;

constexpr int64_t kSpan = 400;

struct Event {
  int64_t ts;
  std::string kind;  // put, look (it writes nothing), fold (reads and writes)
  int64_t key, number;
};

std::vector<TableSpec> Tables() {
  TableSpec table;
  table.key = {Kind::kInt64};
  table.columns = {Kind::kInt64};
  table.has_default = true;
  table.defaults = {testing::IntValue(0)};
  table.default_text = {""};
  table.keeps_versions = true;
  table.history.span = kSpan;
  return {table};
}

Code Program() {
  enum : uint32_t { kTs, kKind, kKey, kNumber };
  testing::Assembler assembler;
  assembler.Column(Kind::kTimestamp);
  assembler.Column(Kind::kString);
  assembler.Column(Kind::kInt64);
  assembler.Column(Kind::kInt64);
  assembler.order_columns = {kTs};
  const uint32_t out = assembler.Returned(Kind::kInt64);
  const SiteId site = assembler.NewSite(0, {kKey});
  const Register row = assembler.NewRegister(), number = assembler.NewRegister(), sum = assembler.NewRegister();
  for (const char* kind : {"put", "look", "fold"}) {
    testing::TransactionText& one = assembler.NewTransaction();
    one.on = {{kKind, 0, {{Match::kString, testing::OfString(kind)}}}};
    one.Row(row, site);
    const std::string name = kind;
    if (name != "put") {
      one.windows = {{WindowAggregate::kSum, WindowBy::kTime, kSpan, 0, Kind::kInt64, 0}};
      one.Add(Op::kWindow, sum, row, 0, {.aux = 0});
      one.Add(Op::kEmit, 0, sum, out);
    }
    if (name != "look") {
      one.loads = {{number, kNumber}};
      one.Add(Op::kIncreaseI, 0, row, number, {.aux = 0});
    }
    one.Add(Op::kStop);
  }
  return testing::Assemble(assembler, Tables());
}

class Model {
 public:
  std::optional<int64_t> Apply(const Event& event) {
    auto& versions = versions_[event.key];
    std::optional<int64_t> sum;
    if (event.kind != "put") {
      sum = 0;
      for (const auto& [ts, value] : versions) {
        if (ts >= event.ts - kSpan && ts < event.ts) *sum += value;
      }
    }
    if (event.kind != "look") versions.emplace_back(event.ts, values_[event.key] += event.number);
    return sum;
  }

 private:
  std::map<int64_t, int64_t> values_;
  std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>> versions_;
};

std::vector<Event> RandomEvents(Random* random, int count, int64_t* now) {
  std::vector<Event> events;
  const char* const kinds[] = {"put", "put", "put", "look", "look", (*random)() % 2 ? "fold" : "put"};
  for (int i = 0; i < count; ++i) {
    *now += static_cast<int64_t>((*random)() % 3);
    events.push_back(
        {*now, kinds[(*random)() % 6], static_cast<int64_t>((*random)() % 3), static_cast<int64_t>((*random)() % 100)});
  }
  return events;
}

// Events as the columns that the program reads.
class Batch {
 public:
  explicit Batch(const std::vector<Event>& events) : rows_(static_cast<int64_t>(events.size())) {
    Rows<int64_t> ts, key, number;
    Rows<std::string> kind;
    for (const Event& one : events) {
      ts.push_back(one.ts);
      kind.push_back(one.kind);
      key.push_back(one.key);
      number.push_back(one.number);
    }
    columns_.push_back(testing::Timestamps(ts));
    columns_.push_back(testing::Strings(kind));
    columns_.push_back(testing::Int64s(key));
    columns_.push_back(testing::Int64s(number));
    for (const testing::Column& column : columns_) views_.push_back(column.View());
  }
  EpochInput Input(EpochInput like) const {
    like.columns = views_;
    like.rows = rows_;
    return like;
  }

 private:
  std::vector<testing::Column> columns_;
  std::vector<ColumnView> views_;
  int64_t rows_;
};

Rows<int64_t> Sums(const EpochResult& result) {
  return testing::Int64sOf(testing::ViewOf(result.returned[0], Kind::kInt64));
}

Rows<int64_t> Expected(const std::vector<Event>& events, Model* model) {
  Rows<int64_t> expected;
  for (const Event& one : events) expected.push_back(model->Apply(one));
  return expected;
}

// Runs an epoch, or runs it and takes it back.
void Run(Engine* engine, const std::vector<Event>& events, bool keep, Model* model, const EpochInput& input,
         const std::string& what) {
  const Batch batch(events);
  EpochResult result;
  const Status status = engine->Execute(batch.Input(input), &result);
  BOOST_REQUIRE_MESSAGE(status.ok(), what + ": " + status.message());
  Model after = *model;
  BOOST_REQUIRE_MESSAGE(Sums(result) == Expected(events, &after), what);
  if (keep) {
    engine->Commit();
    *model = std::move(after);
  } else {
    engine->Rollback();
  }
  BOOST_REQUIRE_MESSAGE(engine->Validate(), what);
}

void Story(uint64_t seed, Engine* engine, const EpochInput& input, const std::string& what) {
  Random random(seed);
  Model model;
  int64_t now = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    int64_t then = now;
    if (epoch % 2) Run(engine, RandomEvents(&random, 120, &then), false, &model, input, what);
    Run(engine, RandomEvents(&random, 250, &now), true, &model, input, what);
  }
}

BOOST_AUTO_TEST_SUITE(windows)

BOOST_AUTO_TEST_CASE(all_strategies_agree_on_threads) {
  const Code code = Program();
  for (const Strategy& strategy : testing::AllStrategies()) {
    for (int threads : {2, 4}) {
      Engine engine(Tables(), threads);
      EpochInput input{&code, {}, 0, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
      input.strategy = strategy;
      input.lanes_min = 2;
      input.punctuation = threads == 4 ? 70 : 0;
      Story(5, &engine, input, testing::Name(strategy) + " on " + std::to_string(threads));
    }
  }
}

BOOST_AUTO_TEST_CASE(all_strategies_agree_in_interleavings_from_seeds) {
  const Code code = Program();
  const std::vector<Strategy> all = testing::AllStrategies();
  for (int seed = 0; seed < testing::Seeds(); ++seed) {
    Engine engine(Tables(), 1);
    EpochInput input{&code, {}, 0, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
    input.strategy = all[seed % all.size()];
    input.interleaving = seed;
    input.interleaved_workers = 2 + seed % 3;
    input.lanes_min = 1;
    Story(seed, &engine, input, testing::Name(all[seed % all.size()]) + ", seed " + std::to_string(seed));
  }
}

BOOST_AUTO_TEST_CASE(an_epoch_without_memory_changes_nothing) {
  const Code code = Program();
  Random random(9);
  int64_t now = 0;
  const std::vector<Event> first = RandomEvents(&random, 250, &now);
  std::vector<Event> second = RandomEvents(&random, 120, &now);
  for (size_t i = 0; i < second.size(); i += 2) second[i].key += static_cast<int64_t>(10 * i);  // everything must grow
  const Batch batch(second);
  for (const Strategy& strategy :
       {Strategy{}, Strategy{Scheme::kExplore, Exploration::kNs, Unit::kTransaction, Abort::kEager}}) {
    EpochInput input{&code, {}, 0, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
    input.strategy = strategy;
    bool short_of_memory = true;
    for (int64_t allowed = 0; short_of_memory; ++allowed) {
      Engine engine(Tables(), 1);
      Model model;
      Run(&engine, first, true, &model, input, "before");
      {
        EpochResult result;
        const testing::Shortage shortage(allowed);
        const Status status = engine.Execute(batch.Input(input), &result);
        short_of_memory = shortage.happened();
        if (!short_of_memory) BOOST_REQUIRE(status.ok());
      }
      if (!short_of_memory) engine.Rollback();
      BOOST_REQUIRE(engine.Validate());
      Run(&engine, second, true, &model, input, "after " + std::to_string(allowed) + " allocations");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
