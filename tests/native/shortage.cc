#include "shortage.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations_left{-1};  // negative: as many as wanted
std::atomic<int64_t> allocation_count{0}, allocation_bytes{0};

void* AllocateOrNull(std::size_t size) { return std::malloc(size ? size : 1); }

void* Allocate(std::size_t size) {
  // Relaxed: a test that counts runs on one thread.
  if (allocations_left.load(std::memory_order_relaxed) >= 0 &&
      allocations_left.fetch_sub(1, std::memory_order_relaxed) == 0) {
    throw std::bad_alloc();
  }
  // Relaxed: read when all threads that count are at rest.
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  allocation_bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  if (void* bytes = AllocateOrNull(size)) return bytes;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return AllocateOrNull(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return AllocateOrNull(size); }
void operator delete(void* bytes) noexcept { std::free(bytes); }
void operator delete[](void* bytes) noexcept { std::free(bytes); }
void operator delete(void* bytes, std::size_t) noexcept { std::free(bytes); }
void operator delete[](void* bytes, std::size_t) noexcept { std::free(bytes); }

namespace morphspark::testing {

Shortage::Shortage(int64_t allowed) { allocations_left = allowed; }
Shortage::~Shortage() { allocations_left = -1; }
bool Shortage::happened() const { return allocations_left < 0; }

Allocations::Allocations() : count_before_(allocation_count), bytes_before_(allocation_bytes) {}
int64_t Allocations::count() const { return allocation_count - count_before_; }
int64_t Allocations::bytes() const { return allocation_bytes - bytes_before_; }

}  // namespace morphspark::testing
