#include "base/buffer.h"

#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace morphspark {
namespace {

constexpr uint64_t kPooledBytesMin = 16 * 1024;  // smaller ones are cheap to allocate
constexpr uint64_t kIdleEpochsMax = 8;

class BufferPool {
 public:
  uint8_t* Take(uint64_t capacity) {
    if (capacity >= kPooledBytesMin) {
      std::lock_guard lock(mutex_);
      std::vector<Idle>& idle = idle_[capacity];
      if (!idle.empty()) {
        uint8_t* bytes = idle.back().bytes;
        idle.pop_back();
        return bytes;
      }
    }
    auto* bytes = static_cast<uint8_t*>(std::malloc(capacity));
    if (bytes == nullptr) throw std::bad_alloc();
    return bytes;
  }

  void Give(uint8_t* bytes, uint64_t capacity) {
    if (capacity < kPooledBytesMin) {
      std::free(bytes);
      return;
    }
    std::lock_guard lock(mutex_);
    try {
      idle_[capacity].push_back({bytes, epoch_});
    } catch (const std::bad_alloc&) {  // it comes from a destructor, so it must not fail
      std::free(bytes);
    }
  }

  void Trim() {
    std::lock_guard lock(mutex_);
    ++epoch_;
    for (auto& [capacity, idle] : idle_) {
      // The newest are at the back, and only the back is taken.
      size_t old = 0;
      while (old < idle.size() && idle[old].since + kIdleEpochsMax < epoch_) std::free(idle[old++].bytes);
      idle.erase(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(old));
    }
  }

 private:
  struct Idle {
    uint8_t* bytes;
    uint64_t since;  // epoch in which it was given back
  };

  std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<Idle>> idle_;  // by capacity
  uint64_t epoch_ = 0;
};

// Never destroyed: columns may be freed after every static object of this library is gone.
BufferPool& Pool() {
  static auto* pool = new BufferPool;
  return *pool;
}

// Eight sizes per power of two: at most an eighth is wasted, and slightly different epochs share buffers.
uint64_t RoundUp(uint64_t size) {
  if (size < kPooledBytesMin) return size;
  const uint64_t step = std::bit_floor(size) / 8;
  return (size + step - 1) / step * step;
}

}  // namespace

Buffer::~Buffer() {
  if (data_ != nullptr) Pool().Give(data_, capacity_);
}

void Buffer::Grow(uint64_t size) {
  const uint64_t wanted = capacity_ == 0 ? size : std::max(size, 2 * capacity_);
  const uint64_t capacity = RoundUp(std::max<uint64_t>(wanted, 64));
  uint8_t* data = Pool().Take(capacity);
  if (size_) std::memcpy(data, data_, size_);
  if (data_ != nullptr) Pool().Give(data_, capacity_);
  data_ = data;
  capacity_ = capacity;
}

void TrimBufferPool() { Pool().Trim(); }

}  // namespace morphspark
