// Keys that transactions compute: Ctrl-C while they are foreseen and repaired, and how long the way along a row is that
// everybody uses.
//
//   rows[int64]  {v: int64}   default {0}
//
//   ahead:  rows[slow(e.k)].v += 1
//   own:    rows[e.k].v = e.b; rows[rows[e.k].v].v += 1; slow(e.b)      (its key is what it has written: never
//   foreseen) use:    rows[e.b].v += 1 peek:   return rows[e.b].v
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <ctime>
#include <map>
#include <thread>
#include <vector>

#include "assembler.h"
#include "bench/work.h"
#include "cancelling.h"
#include "engine.h"
#include "functions.h"
#include "strategies.h"

namespace morphspark {
namespace {

using testing::Column;
using testing::Host;
using testing::Name;
using testing::Rows;

enum Type : int64_t { kAhead, kOwn, kUse, kPeek };

struct Event {
  Type type;
  int64_t k, b;
};

std::vector<TableSpec> Tables() {
  TableSpec spec;
  spec.key = {Kind::kInt64};
  spec.columns = {Kind::kInt64};
  spec.has_default = true;
  spec.defaults = {Value{.i = 0}};
  spec.default_text.resize(1);
  return {spec};
}

// Gives back its argument, after as many milliseconds as the host says in `rows`.
bool Slowly(void* context, UserCall* call) {
  auto* host = static_cast<Host*>(context);
  ++host->calls;
  if (host->rows > 0) std::this_thread::sleep_for(std::chrono::milliseconds(host->rows.load()));
  for (uint32_t row = 0; row < call->rows; ++row) call->result_low[row] = call->low[row];
  return true;
}

// With a host there is only `ahead`, as functions allow no foresight where keys depend on rows. Without one the machine
// works for so many rounds instead.
Code KeysCode(Host* host, uint32_t rounds = 0) {
  testing::Assembler assembler;
  enum : uint32_t { kType, kK, kB };
  for (int i = 0; i < 3; ++i) assembler.Column(Kind::kInt64);
  const Register one = assembler.Constant(testing::OfInt(1));
  UserFunction function{{Kind::kInt64}, {Kind::kInt64}};
  function.host = Slowly;
  function.context = host;
  const uint16_t slowly = host == nullptr ? 0 : assembler.Function(function);
  const auto call = [&](testing::TransactionText* of, Register result, Register given) {
    if (host != nullptr)
      of->Add(Op::kCall, result, given, 1, {.c = 1, .aux = slowly});
    else
      of->Add(Op::kWork, result, given, 0, {.c = rounds, .aux = static_cast<uint16_t>(WorkKind::kBranchy)});
  };
  const SiteId of_k = assembler.NewSite(0, {kK}), of_b = assembler.NewSite(0, {kB});
  const Register k = assembler.NewRegister(), b = assembler.NewRegister(), row = assembler.NewRegister(),
                 key = assembler.NewRegister(), named = assembler.NewRegister(), ignored = assembler.NewRegister();
  const uint32_t seen = assembler.Returned(Kind::kInt64);
  const auto add = [&](Type type) -> testing::TransactionText& {
    testing::TransactionText& added = assembler.NewTransaction();
    added.on = {{kType, 0, {{Match::kInt, testing::OfInt(type)}}}};
    added.loads = {{k, kK}, {b, kB}};
    return added;
  };
  testing::TransactionText& ahead = add(kAhead);
  ahead.Add(Op::kNeed, 0, k);
  call(&ahead, key, k);
  ahead.Add(Op::kRowOfKey, named, key, 1, {.c = 1});
  ahead.Add(Op::kIncreaseI, 0, named, one, {.c = 0});
  ahead.Add(Op::kStop);
  if (host != nullptr) return testing::Assemble(assembler, Tables());
  testing::TransactionText& own = add(kOwn);
  own.Row(row, of_k);
  own.Add(Op::kNeed, 0, b);
  own.Add(Op::kWriteI, 0, row, b, {.c = 0});
  own.Add(Op::kReadI, key, row, 0, {.c = 0});
  own.Add(Op::kRowOfKey, named, key, 1, {.c = 1});
  own.Add(Op::kIncreaseI, 0, named, one, {.c = 0});
  call(&own, ignored, b);
  own.Add(Op::kStop);
  testing::TransactionText& use = add(kUse);
  use.Row(row, of_b);
  use.Add(Op::kIncreaseI, 0, row, one, {.c = 0});
  use.Add(Op::kStop);
  testing::TransactionText& peek = add(kPeek);
  peek.Row(row, of_b);
  peek.Add(Op::kReadI, key, row, 0, {.c = 0});
  peek.Add(Op::kEmit, 0, key, seen);
  peek.Add(Op::kStop);
  return testing::Assemble(assembler, Tables());
}

class Batch {
 public:
  explicit Batch(const std::vector<Event>& events) : rows_(static_cast<int64_t>(events.size())) {
    Rows<int64_t> numbers[3];
    for (const Event& one : events) {
      numbers[0].push_back(one.type);
      numbers[1].push_back(one.k);
      numbers[2].push_back(one.b);
    }
    for (const auto& some : numbers) columns_.push_back(testing::Int64s(some));
    for (const Column& column : columns_) views_.push_back(column.View());
  }

  EpochInput Input(const Code& code) const {
    return {&code, views_, rows_, Late::kAdmit, std::nullopt, std::nullopt, 1 << 20, nullptr};
  }

 private:
  std::vector<Column> columns_;
  std::vector<ColumnView> views_;
  int64_t rows_;
};

std::map<int64_t, int64_t> RowsOf(const Engine& engine) {
  std::map<int64_t, int64_t> rows;
  const Table& table = engine.table(0);
  for (Slot slot : table.LiveSlots())
    rows[table.index().IntegerKey(slot)] = testing::Stored<Kind::kInt64>(table, slot, 0).i;
  return rows;
}

const std::vector<Strategy> kStrategies = {
    {Scheme::kExplore, Exploration::kNs, Unit::kTransaction},
    {Scheme::kExplore, Exploration::kBfs, Unit::kStratum},
    {Scheme::kExplore, Exploration::kDfs, Unit::kOperation},
    {.scheme = Scheme::kLock},
};

constexpr int64_t kSlowEvents = 240;

Batch SlowBatch(Type type) {
  std::vector<Event> events;
  for (int64_t i = 0; i < kSlowEvents; ++i) events.push_back({type, i, 1'000});
  return Batch(events);
}

// How many functions had been called in the end, where Ctrl-C came after so many.
int64_t CalledUntil(int64_t calls, const Strategy& strategy) {
  Host host;
  host.rows = 1;
  const Code code = KeysCode(&host);
  const Batch batch = SlowBatch(kAhead);
  EpochInput input = batch.Input(code);
  input.strategy = strategy;
  input.poll = [&] { return host.calls > calls; };
  testing::Cancel(Tables(), input);
  return host.calls;
}

BOOST_AUTO_TEST_SUITE(computed_keys)

BOOST_AUTO_TEST_CASE(looking_ahead_is_cancelled) {
  for (const Strategy& strategy : kStrategies) BOOST_TEST(CalledUntil(5, strategy) < kSlowEvents, Name(strategy));
}

// All are redone one after the other, which takes longer than the first time: most of the batch is its repair.
BOOST_AUTO_TEST_CASE(a_repair_is_cancelled) {
  const Batch batch = SlowBatch(kOwn);
  const Code code = KeysCode(nullptr, 100'000);
  for (const Strategy& strategy : kStrategies) {
    EpochInput input = batch.Input(code);
    input.strategy = strategy;
    testing::CancelWhileRedone(Tables(), input);
  }
}

BOOST_AUTO_TEST_CASE(in_order_dear_transactions_are_cancelled_soon) {
  BOOST_TEST(CalledUntil(5, Strategy()) < kSlowEvents / 2);
}

// Every second transaction comes late to one row that all others use: each looks at a few of its uses, not at all of
// them.
BOOST_AUTO_TEST_CASE(a_hot_row_is_followed_once) {
  const Code code = KeysCode(nullptr);
  constexpr int64_t kHot = -1;
  for (const Type other : {kUse, kPeek}) {
    for (const int64_t count : {500, 2'000, 8'000}) {
      std::vector<Event> events;
      for (int64_t i = 0; i < count; ++i) events.push_back({i % 2 ? other : kOwn, i, kHot});
      const Batch batch(events);
      EpochInput input = batch.Input(code);
      Engine serial(Tables(), 1);
      EpochResult expected;
      BOOST_REQUIRE(serial.Execute(input, &expected).ok());
      for (const Strategy& strategy : kStrategies) {
        input.strategy = strategy;
        Engine engine(Tables(), 2);
        EpochResult result;
        BOOST_REQUIRE(engine.Execute(input, &result).ok());
        BOOST_TEST((RowsOf(engine) == RowsOf(serial)), Name(strategy));
        BOOST_TEST((testing::Int64sOf(testing::ViewOf(result.returned[0], Kind::kInt64)) ==
                    testing::Int64sOf(testing::ViewOf(expected.returned[0], Kind::kInt64))),
                   Name(strategy));
        const BatchReport& report = result.batches.at(0);
        BOOST_TEST(report.redone >= count / 2);
        BOOST_TEST(report.followed <= report.accesses, Name(strategy) << " " << count);
        engine.Commit();
        BOOST_TEST(engine.Validate());
      }
    }
  }
}

// One works, and three have nothing to do: they sleep.
BOOST_AUTO_TEST_CASE(who_waits_needs_no_processor) {
  Host host;
  host.rows = 20;
  const Code code = KeysCode(&host);
  const Batch batch(std::vector<Event>(10, {kAhead, 7, 0}));  // a chain over one row
  EpochInput input = batch.Input(code);
  for (const Strategy& strategy : {kStrategies[0], kStrategies[1], kStrategies[3]}) {
    input.strategy = strategy;
    Engine engine(Tables(), 4);
    EpochResult result;
    const std::clock_t before = std::clock();
    BOOST_REQUIRE(engine.Execute(input, &result).ok());
    const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    BOOST_TEST(seconds < 0.1, Name(strategy) << " " << seconds);  // of 0.2 seconds on the clock for each of four
    engine.Commit();
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
