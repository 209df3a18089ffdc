// Planning a batch: which transaction each event runs, and which slots its keys have.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "assembler.h"
#include "ledger.h"
#include "plan/classify.h"
#include "plan/operation_graph.h"
#include "plan/resolve.h"

namespace morphspark {
namespace {

using testing::Assembler;
using testing::Column;
using testing::Literal;
using testing::OfBool;
using testing::OfDecimal;
using testing::OfFloat;
using testing::OfInt;
using testing::OfNull;
using testing::OfString;
using testing::OnColumn;
using testing::Random;
using testing::Rows;
using testing::TransactionText;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---------------------------------------------------------------------------------------------- classify

// A program that does nothing; each transaction has these conditions.
Code Conditions(const std::vector<const Column*>& columns, const std::vector<std::vector<OnColumn>>& transactions) {
  Assembler assembler;
  for (const Column* column : columns) assembler.Column(column->kind, column->element);
  for (const auto& on : transactions) {
    TransactionText& text = assembler.NewTransaction();
    text.on = on;
    text.Add(Op::kStop);
  }
  return testing::Assemble(assembler, {});
}

std::vector<int> Classes(const std::vector<const Column*>& columns,
                         const std::vector<std::vector<OnColumn>>& transactions, int threads = 1) {
  const Code code = Conditions(columns, transactions);
  ThreadPool pool(threads);
  std::vector<TransactionId> found;
  Classify(code, testing::Views(columns), columns[0]->length, &pool, &found);
  std::vector<int> classes;
  for (TransactionId id : found) classes.push_back(id == kUnmatched ? -1 : id);
  return classes;
}

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(every_kind_of_value_is_compared_as_it_should) {
  const Int128 large = Int128{1} << 90;
  const Column ints = testing::Int64s({5, {}, INT64_MAX, -1});
  const Column floats = testing::Float64s({-kNan, {}, 0.0, 1.5});
  const Column bools = testing::Bools({true, {}, false, true});
  const Column decimals = testing::Decimals({150, {}, large, 25});
  const Column strings = testing::Strings({"", {}, "pay", "payment"});
  struct {
    const Column* column;
    Match match;
    Literal value;
    int32_t scale;
    std::vector<int> expected;
  } const kCases[] = {
      {&ints, Match::kInt, OfInt(5), 0, {0, -1, -1, -1}},
      {&ints, Match::kInt, OfInt(INT64_MAX), 0, {-1, -1, 0, -1}},
      {&ints, Match::kIntAsFloat, OfFloat(-1.0), 0, {-1, -1, -1, 0}},
      {&ints, Match::kIntAsFloat, OfFloat(0x1p63), 0, {-1, -1, 0, -1}},
      {&floats, Match::kFloat, OfFloat(kNan), 0, {0, -1, -1, -1}},  // NaN equals NaN
      {&floats, Match::kFloat, OfFloat(-0.0), 0, {-1, -1, 0, -1}},
      {&floats, Match::kFloat, OfFloat(1.5), 0, {-1, -1, -1, 0}},
      {&bools, Match::kBool, OfBool(true), 0, {0, -1, -1, 0}},
      {&bools, Match::kBool, OfBool(false), 0, {-1, -1, 0, -1}},
      {&decimals, Match::kDecimal, OfDecimal(large), 2, {-1, -1, 0, -1}},
      {&decimals, Match::kDecimalAsFloat, OfFloat(1.5), 2, {0, -1, -1, -1}},
      {&decimals, Match::kDecimalAsFloat, OfFloat(0.25), 2, {-1, -1, -1, 0}},
      {&strings, Match::kString, OfString(""), 0, {0, -1, -1, -1}},
      {&strings, Match::kString, OfString("pay"), 0, {-1, -1, 0, -1}},
      {&strings, Match::kString, OfString("payments"), 0, {-1, -1, -1, -1}},
  };
  for (const auto& one : kCases) {
    const std::vector<int> classes = Classes({one.column}, {{{0, one.scale, {{one.match, one.value}}}}});
    BOOST_TEST(classes == one.expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(the_first_transaction_that_matches_wins) {
  const Column kinds = testing::Strings({"a", "b", "c", {}, "a"});
  const Column numbers = testing::Int64s({1, 1, 2, 1, 2});
  const OnColumn is_a = {0, 0, {{Match::kString, OfString("a")}}};
  const OnColumn is_a_or_b = {0, 0, {{Match::kString, OfString("a")}, {Match::kString, OfString("b")}}};
  const OnColumn is_one = {1, 0, {{Match::kInt, OfInt(1)}}};
  const auto classes = [&](const std::vector<std::vector<OnColumn>>& transactions) {
    return Classes({&kinds, &numbers}, transactions);
  };
  BOOST_TEST((classes({{is_a}, {is_a_or_b}}) == std::vector<int>{0, 1, -1, -1, 0}));
  BOOST_TEST((classes({{is_a_or_b}, {is_a}}) == std::vector<int>{0, 0, -1, -1, 0}));
  BOOST_TEST((classes({{is_a, is_one}, {is_one}, {}}) == std::vector<int>{0, 1, 2, 1, 2}));
  BOOST_TEST((classes({{}, {is_a}}) == std::vector<int>{0, 0, 0, 0, 0}));
  BOOST_TEST((classes({{{0, 0, {}}}}) == std::vector<int>{-1, -1, -1, -1, -1}));  // no value is accepted
  BOOST_TEST((classes({}) == std::vector<int>{-1, -1, -1, -1, -1}));
}

// Strings of up to 16 bytes are compared as two words: every pair of sizes, also at the buffer's end and in a slice.
BOOST_AUTO_TEST_CASE(strings_of_every_size_are_told_apart) {
  Random random(71);
  for (size_t wanted_size = 0; wanted_size <= 20; ++wanted_size) {
    const std::string wanted(wanted_size, 'k');
    Rows<std::string> rows;
    for (int i = 0; i < 300; ++i) {
      std::string text(random() % 3 ? wanted_size : random() % 22, 'k');
      if (!text.empty() && random() % 3 == 0) text[random() % text.size()] = 'x';
      rows.push_back(random() % 10 ? std::optional(text) : std::nullopt);
    }
    const int64_t first = static_cast<int64_t>(random() % 3);
    const Column column = testing::Strings(rows).From(first);
    std::vector<int> expected;
    for (size_t i = first; i < rows.size(); ++i) expected.push_back(rows[i] == wanted ? 0 : -1);
    BOOST_REQUIRE(Classes({&column}, {{{0, 0, {{Match::kString, OfString(wanted)}}}}}) == expected);
  }
}

BOOST_AUTO_TEST_CASE(threads_do_not_change_the_classes) {
  Random random(72);
  Rows<std::string> kinds;
  for (int i = 0; i < 50'000; ++i) kinds.push_back(std::string(1, static_cast<char>('a' + random() % 4)));
  const Column column = testing::Strings(kinds);
  std::vector<std::vector<OnColumn>> transactions;
  for (const char* kind : {"c", "a", "b"}) transactions.push_back({{0, 0, {{Match::kString, OfString(kind)}}}});
  const std::vector<int> expected = Classes({&column}, transactions);
  BOOST_TEST((Classes({&column}, transactions, 4) == expected));
  BOOST_TEST(expected[0] == (*kinds[0] == "c" ? 0 : *kinds[0] == "a" ? 1 : *kinds[0] == "b" ? 2 : -1));
}

// ----------------------------------------------------------------------------------------------- resolve

TableSpec Keyed(std::vector<Kind> key) {
  TableSpec spec;
  spec.key = std::move(key);
  spec.columns = {Kind::kInt64};
  return spec;
}

// A table, and the slots that one site gives to the rows of a batch.
class Resolved {
 public:
  Resolved(std::vector<Kind> key, const std::vector<const Column*>& columns, std::vector<uint32_t> parts,
           bool of_element, const std::vector<Literal>& constants = {})
      : columns_(columns) {
    Assembler assembler;
    for (const Column* column : columns) assembler.Column(column->kind, column->element);
    for (const Literal& constant : constants) assembler.Constant(constant);
    const SiteId site = assembler.NewSite(0, std::move(parts), of_element);
    for (bool uses : {true, false}) {
      TransactionText& text = assembler.NewTransaction();
      if (uses) text.sites = {site};
      text.Add(Op::kStop);
    }
    const TableSpec spec = Keyed(std::move(key));
    code_ = testing::Assemble(assembler, {spec});
    tables_.push_back(std::make_unique<Table>(spec));
  }

  std::vector<Slot> Run(std::vector<TransactionId> transactions, int threads = 1) {
    transactions.resize(columns_[0]->length, 0);
    ThreadPool pool(threads);
    std::vector<std::vector<Slot>> slots;
    ResolveKeys(code_, testing::Views(columns_), transactions, tables_, &pool, &slots);
    BOOST_REQUIRE(tables_[0]->Validate());
    return slots[0];
  }
  Table& table() { return *tables_[0]; }

 private:
  std::vector<const Column*> columns_;
  Code code_;
  std::vector<std::unique_ptr<Table>> tables_;
};

BOOST_AUTO_TEST_CASE(new_keys_get_slots_in_batch_order) {
  const Column integers = testing::Int64s({7, {}, 5, 7, 9, 5});
  Resolved by_integer({Kind::kInt64}, {&integers}, {0}, false);
  BOOST_TEST((by_integer.Run({}) == std::vector<Slot>{0, kNullKey, 1, 0, 2, 1}));
  const Column strings = testing::Strings({"b", "", "a key that lives on the heap", {}, "", "b"});
  Resolved by_string({Kind::kString}, {&strings}, {0}, false);
  BOOST_TEST((by_string.Run({}) == std::vector<Slot>{0, 1, 2, kNullKey, 1, 0}));
  // The same batch again: everything is there.
  BOOST_TEST((by_string.Run({}, 3) == std::vector<Slot>{0, 1, 2, kNullKey, 1, 0}));
}

BOOST_AUTO_TEST_CASE(rows_that_do_not_use_a_site_add_no_keys) {
  const Column integers = testing::Int64s({7, 8, 9, 10});
  Resolved resolved({Kind::kInt64}, {&integers}, {0}, false);
  BOOST_TEST((resolved.Run({0, 1, kUnmatched, 0}) == std::vector<Slot>{0, kNullKey, kNullKey, 1}));
  BOOST_TEST(resolved.table().index().size() == 2u);
}

BOOST_AUTO_TEST_CASE(composite_keys_mix_columns_and_constants) {
  const Column names = testing::Strings({"a", "a", {}, "b", "a"});
  const Column numbers = testing::Int64s({1, 2, 1, {}, 1});
  Resolved both({Kind::kString, Kind::kInt64}, {&names, &numbers}, {0, 1}, false);
  BOOST_TEST((both.Run({}) == std::vector<Slot>{0, 1, kNullKey, kNullKey, 0}));
  Resolved half({Kind::kString, Kind::kInt64}, {&names}, {0, kConstantPart | 0}, false, {OfInt(5)});
  BOOST_TEST((half.Run({}) == std::vector<Slot>{0, 0, kNullKey, 1, 0}));
  Resolved constant({Kind::kString, Kind::kInt64}, {&names}, {kConstantPart | 1, kConstantPart | 0}, false,
                    {OfInt(5), OfString("x")});
  BOOST_TEST((constant.Run({}) == std::vector<Slot>(5, 0)));
  Resolved null({Kind::kString, Kind::kInt64}, {&names}, {kConstantPart | 1, kConstantPart | 0}, false,
                {OfNull(), OfString("x")});
  BOOST_TEST((null.Run({}) == std::vector<Slot>(5, kNullKey)));
  BOOST_TEST(null.table().index().size() == 0u);
}

BOOST_AUTO_TEST_CASE(elements_get_slots_by_their_place_in_the_child) {
  // The child begins before the first list, and a null list hides elements.
  Column lists = testing::Lists(testing::Int64s({1, 2, {}, 2, 3, 4}), {1, 3, {}, 1, 1});
  lists.offsets = {0, 1, 4, 5, 6, 6};
  const Column sliced = std::move(lists).From(1);
  Resolved resolved({Kind::kInt64}, {&sliced}, {0}, true);
  BOOST_TEST((resolved.Run({}) == std::vector<Slot>{kNullKey, 0, kNullKey, 0, kNullKey, 1}));
  const Column nothing = testing::Nulls(3);
  Resolved none({Kind::kInt64}, {&nothing}, {0}, true);
  BOOST_TEST(none.Run({}).empty());
}

BOOST_AUTO_TEST_CASE(a_column_without_values_has_null_keys) {
  const Column nothing = testing::Nulls(3);
  for (Kind kind : {Kind::kInt64, Kind::kString}) {
    Resolved resolved({kind}, {&nothing}, {0}, false);
    BOOST_TEST((resolved.Run({}) == std::vector<Slot>(3, kNullKey)));
  }
}

BOOST_AUTO_TEST_CASE(threads_do_not_change_the_slots) {
  Random random(73);
  Rows<std::string> keys;
  std::map<std::string, Slot> model;
  std::vector<Slot> expected;
  for (int i = 0; i < 30'000; ++i) {
    const std::string key = "k" + std::to_string(random() % 9'000);
    keys.push_back(key);
    expected.push_back(model.try_emplace(key, static_cast<Slot>(model.size())).first->second);
  }
  const Column column = testing::Strings(keys);
  for (int threads : {1, 2, 4}) {
    Resolved resolved({Kind::kString}, {&column}, {0}, false);
    BOOST_TEST((resolved.Run({}, threads) == expected));
    BOOST_TEST((resolved.Run({}, threads) == expected));
  }
}

// ---------------------------------------------------------------------------------------------- operations

// Who waits for whom, found the plain way: by going through what each operation uses.
std::vector<std::vector<Node>> PlainEdges(const Graph& graph, const Code& code, const OperationGraph& operations) {
  std::vector<std::vector<Node>> before(operations.nodes.units);
  std::map<std::pair<uint32_t, Slot>, Node> wrote;  // by row: the last node that did
  for (Task task = 0; task < graph.tasks; ++task) {
    const Node first = operations.first[task];
    const bool cut = operations.Cut(task);
    std::map<std::pair<uint32_t, Slot>, Node> writes;
    for (Access access = graph.first[task]; access < graph.first[task + 1]; ++access) {
      if (graph.flags[access] & Graph::kHole) continue;
      const uint32_t use = access - graph.first[task];
      const Operations& own = *code.transactions[graph.type[task]].operations;
      const std::pair<uint32_t, Slot> row = {graph.table[access], graph.slot[access]};
      if (const auto found = wrote.find(row); found != wrote.end())
        before[first + (cut ? own.entry[use] : 0)].push_back(found->second);
      if (graph.flags[access] & Graph::kWrites) writes[row] = first + (cut ? own.exit[use] : 0);
    }
    for (const auto& [row, node] : writes) wrote[row] = node;
    if (!cut) continue;
    const std::vector<Operation>& list = code.transactions[graph.type[task]].operations->list;
    for (size_t number = 0; number < list.size(); ++number) {
      for (uint32_t other : list[number].after) before[first + number].push_back(first + other);
    }
  }
  for (auto& some : before) std::ranges::sort(some);
  return before;
}

BOOST_AUTO_TEST_CASE(operations_wait_for_what_they_use_on_any_number_of_threads) {
  const Code code = testing::LedgerCode();
  Random random(74);
  std::vector<testing::LedgerEvent> events;
  for (int i = 0; i < 10'000; ++i) events.push_back(testing::RandomEvent(&random, i, 300, 3));
  const testing::LedgerBatch batch(events);
  const EpochInput input = batch.Input(code);
  for (int threads : {1, 3}) {
    std::vector<std::unique_ptr<Table>> tables;
    for (TableSpec& spec : testing::LedgerTables()) tables.push_back(std::make_unique<Table>(std::move(spec)));
    ThreadPool pool(threads);
    std::vector<TransactionId> transactions;
    std::vector<std::vector<Slot>> slots;
    Classify(code, input.columns, input.rows, &pool, &transactions);
    ResolveKeys(code, input.columns, transactions, tables, &pool, &slots);
    Order order;
    order.keyed = order.running = input.rows;
    Planner planner(tables);
    Graph graph;
    OperationGraph operations;
    for (const TransactionCode& one : code.transactions)
      operations.cuts.push_back(one.operations->list.empty() ? nullptr : one.operations.get());
    for (int64_t begin : {0, 3'000}) {  // the second time, everything is used again
      planner.Plan({code, input.columns, order, transactions, slots}, begin, input.rows, &pool, &graph);
      FindOperations(graph, &pool, &operations);
      BOOST_TEST(operations.nodes.units > graph.tasks);
      const std::vector<std::vector<Node>> expected = PlainEdges(graph, code, operations);
      bool same = true;
      for (Node node = 0; node < operations.nodes.units; ++node) {
        const auto found = operations.nodes.Before(node);
        std::vector<Node> sorted(found.begin(), found.end());
        std::ranges::sort(sorted);
        same = same && sorted == expected[node];
        const Task owner = operations.owner[node];
        same = same && operations.first[owner] <= node && node < operations.first[owner + 1];
      }
      BOOST_TEST(same);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
