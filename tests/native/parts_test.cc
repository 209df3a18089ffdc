// Parts: results of batches that have ended are the epoch's own, whoever takes them and when.
#include "output/parts.h"

#include <boost/test/unit_test.hpp>
#include <thread>

namespace morphspark {
namespace {

constexpr int64_t kRows = 5000;
constexpr int64_t kBatch = 100;

// An epoch as the engine fills it: verdicts and returned values, batch by batch.
struct Results {
  Order order;
  Verdicts verdicts;
  ReasonTexts texts;
  std::vector<ReturnedValues> returned;

  const std::vector<std::string> known = {""};  // number 0 means that there is none

  Results() {
    texts.Reset(known);
    order.running = order.keyed = kRows;
    verdicts.status.assign(kRows, TransactionStatus::kCommitted);
    verdicts.reason.assign(kRows, kNoReason);
    returned.emplace_back(Kind::kInt64, kRows);
    returned.emplace_back(Kind::kString, kRows);
    returned.emplace_back(Kind::kBool, kRows);
  }

  Parts::Source source() { return {&order, &returned, &verdicts, &texts, nullptr, {}}; }

  void Run(int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position) {
      if (position % 7 == 3) {
        verdicts.status[position] = TransactionStatus::kAborted;
        verdicts.reason[position] = texts.Add("udf: " + std::to_string(position % 50));
        continue;
      }
      const std::string text = "row " + std::to_string(position);
      Value number, bytes, flag;
      number.i = position;
      bytes.s = {text.data(), text.size()};
      flag.i = position % 2;
      returned[0].Set(position, number);
      returned[1].Set(position, bytes);
      returned[2].Set(position, flag);
    }
  }
};

std::string TextAt(const ColumnBuffers& column, int64_t row) {
  const auto* offsets = reinterpret_cast<const int32_t*>(column.offsets.data());
  return {reinterpret_cast<const char*>(column.values.data()) + offsets[row],
          static_cast<size_t>(offsets[row + 1] - offsets[row])};
}

// How many rows the parts had.
int64_t TakeAll(Parts* parts, int64_t rows_min) {
  int64_t taken = 0;
  while (true) {
    Part part;
    if (!parts->Next(rows_min, 3 * kBatch, &part)) return taken;
    BOOST_REQUIRE_EQUAL(part.begin, taken);
    BOOST_REQUIRE(part.length >= rows_min && part.length <= 3 * kBatch && part.identity);
    for (int64_t row = 0; row < part.length; ++row) {
      const int64_t position = part.begin + row;
      const bool aborted = position % 7 == 3;
      BOOST_REQUIRE_EQUAL(TextAt(part.status, row), aborted ? "aborted" : "committed");
      BOOST_REQUIRE_EQUAL(TextAt(part.reason, row), aborted ? "udf: " + std::to_string(position % 50) : "");
      BOOST_REQUIRE_EQUAL(TextAt(part.returned[1], row), aborted ? "" : "row " + std::to_string(position));
      BOOST_REQUIRE_EQUAL(reinterpret_cast<const int64_t*>(part.returned[0].values.data())[row],
                          aborted ? 0 : position);
      BOOST_REQUIRE_EQUAL(GetBit(part.returned[2].values.data(), row), !aborted && position % 2 == 1);
    }
    taken += part.length;
  }
}

void Execute(Results* results, Parts* parts) {
  for (int64_t begin = 0; begin < kRows; begin += kBatch) {
    results->Run(begin, begin + kBatch);
    parts->Ended(begin + kBatch);
  }
  parts->Close();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(parts)

BOOST_AUTO_TEST_CASE(all_rows_where_batches_wait) {
  Results results;
  Parts parts(true);
  parts.Open(results.source());
  int64_t taken = 0;
  std::thread writer([&] { taken = TakeAll(&parts, 1); });
  Execute(&results, &parts);
  writer.join();
  BOOST_CHECK_EQUAL(taken, kRows);
}

BOOST_AUTO_TEST_CASE(what_was_taken_is_final_where_they_do_not) {
  for (int round = 0; round < 20; ++round) {
    Results results;
    Parts parts;
    parts.Open(results.source());
    std::thread writer([&] { TakeAll(&parts, 2 * kBatch); });
    Execute(&results, &parts);
    results.returned.clear();  // nobody looks any more
    writer.join();
  }
}

BOOST_AUTO_TEST_CASE(a_writer_that_gives_up_holds_nobody) {
  Results results;
  Parts parts(true);
  parts.Open(results.source());
  std::thread writer([&] {
    Part part;
    parts.Next(1, kBatch, &part);
    parts.Close();
  });
  Execute(&results, &parts);
  writer.join();
  Part none;
  BOOST_CHECK(!parts.Next(1, 1, &none));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace morphspark
