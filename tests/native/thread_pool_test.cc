// The thread pool: every index once, errors come back, and nothing is touched after `For` returns.
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <ctime>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace morphspark {
namespace {

BOOST_AUTO_TEST_SUITE(thread_pool)

BOOST_AUTO_TEST_CASE(every_index_runs_exactly_once) {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    BOOST_TEST(pool.threads() == threads);
    for (int64_t count : {0, 1, 2, 7, 64, 1'000, 10'001}) {
      for (int64_t grain : {1, 3, 64, 20'000}) {
        std::vector<int> runs(count, 0);  // plain ints: a second visit would be a race for TSan
        pool.For(count, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++runs[i];
        });
        BOOST_REQUIRE(std::all_of(runs.begin(), runs.end(), [](int one) { return one == 1; }));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(chunks_begin_at_multiples_of_the_grain) {
  ThreadPool pool(4);
  constexpr int64_t kCount = 1'003, kGrain = 16;
  std::atomic<bool> aligned{true};
  pool.For(kCount, kGrain, [&](int64_t begin, int64_t end) {
    if (begin % kGrain != 0 || (end % kGrain != 0 && end != kCount)) aligned = false;
  });
  BOOST_TEST(aligned.load());
}

BOOST_AUTO_TEST_CASE(nothing_to_do_calls_nobody) {
  ThreadPool pool(3);
  bool called = false;
  pool.For(0, 1, [&](int64_t, int64_t) { called = true; });
  pool.For(-5, 1, [&](int64_t, int64_t) { called = true; });
  BOOST_TEST(!called);
}

BOOST_AUTO_TEST_CASE(an_exception_comes_back_and_the_pool_lives_on) {
  for (int threads : {1, 2, 4, 8}) {
    ThreadPool pool(threads);
    for (int64_t bad : {0, 1, 500, 999}) {
      const auto body = [&](int64_t begin, int64_t end) {
        if (begin <= bad && bad < end) throw std::runtime_error("chunk");
      };
      BOOST_CHECK_THROW(pool.For(1'000, 10, body), std::runtime_error);
      std::atomic<int64_t> sum{0};
      pool.For(1'000, 10, [&](int64_t begin, int64_t end) { sum += end - begin; });
      BOOST_TEST(sum.load() == 1'000);
    }
  }
}

BOOST_AUTO_TEST_CASE(when_every_chunk_throws_one_error_comes_back) {
  ThreadPool pool(4);
  std::atomic<int> calls{0};
  const auto body = [&](int64_t, int64_t) {
    ++calls;
    throw std::bad_alloc();
  };
  BOOST_CHECK_THROW(pool.For(100, 1, body), std::bad_alloc);
  BOOST_TEST(calls.load() >= 1);
  BOOST_TEST(calls.load() <= 4);  // a thread that failed takes no more chunks
}

BOOST_AUTO_TEST_CASE(what_chunks_wrote_is_seen_by_the_caller_and_by_the_next_job) {
  ThreadPool pool(4);
  std::vector<int64_t> numbers(5'000);
  for (int round = 0; round < 300; ++round) {
    pool.For(static_cast<int64_t>(numbers.size()), 100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) numbers[i] += i;
    });
  }
  int64_t expected = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(numbers.size()); ++i) expected += 300 * i;
  BOOST_TEST(std::accumulate(numbers.begin(), numbers.end(), int64_t{0}) == expected);
}

BOOST_AUTO_TEST_CASE(a_body_on_the_stack_outlives_its_readers) {
  ThreadPool pool(8);
  for (int round = 0; round < 2'000; ++round) {
    auto cells = std::make_unique<std::vector<int>>(16, 0);  // freed at once: a late reader would be seen
    pool.For(16, 1, [&cells](int64_t begin, int64_t) { (*cells)[begin] = 1; });
    BOOST_REQUIRE_EQUAL(std::accumulate(cells->begin(), cells->end(), 0), 16);
  }
}

BOOST_AUTO_TEST_CASE(pools_come_and_go_idle_or_used) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool idle(4);
    ThreadPool used(4);
    std::atomic<int> calls{0};
    used.For(8, 1, [&](int64_t, int64_t) { ++calls; });
    BOOST_REQUIRE_EQUAL(calls.load(), 8);
  }
}

// Jobs come when workers are awake, fall asleep, or sleep.
BOOST_AUTO_TEST_CASE(no_pause_between_jobs_is_too_long_or_too_short) {
  ThreadPool pool(3);
  for (int round = 0; round < 600; ++round) {
    std::atomic<int> calls{0};
    const auto slow = std::chrono::microseconds(round % 7 == 0 ? round % 250 : 0);  // the caller may fall asleep, too
    pool.For(3, 1, [&](int64_t begin, int64_t) {
      if (begin == 0) std::this_thread::sleep_for(slow);
      ++calls;
    });
    BOOST_REQUIRE_EQUAL(calls.load(), 3);
    std::this_thread::sleep_for(std::chrono::microseconds(round % 200));
  }
}

BOOST_AUTO_TEST_CASE(a_pool_at_rest_needs_no_processor) {
  const auto processor_ms = [] { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  ThreadPool pool(4);
  pool.For(8, 1, [](int64_t, int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = processor_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  BOOST_TEST(processor_ms() - before < 60);  // three that stay awake would need 300 at least
}

BOOST_AUTO_TEST_CASE(two_pools_work_at_the_same_time) {
  ThreadPool outer(2);
  std::vector<int64_t> sums(2, 0);
  outer.For(2, 1, [&](int64_t begin, int64_t) {
    ThreadPool inner(3);
    std::atomic<int64_t> sum{0};
    for (int round = 0; round < 100; ++round) {
      inner.For(100, 7, [&](int64_t first, int64_t end) { sum += end - first; });
    }
    sums[begin] = sum;
  });
  BOOST_TEST(sums[0] == 10'000);
  BOOST_TEST(sums[1] == 10'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace morphspark
