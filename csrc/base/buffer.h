// Memory for columns: not initialised, and kept for the next epoch when freed.
//
// An epoch's columns are large and have the same sizes again and again. Given back to the system, every page of them
// would be faulted in and zeroed anew in each epoch, which costs as much as executing the transactions. So a freed
// buffer waits in a pool of the process; what was idle for some epochs is really freed.
//
// Thread safety: a Buffer belongs to one thread at a time; the pool may be used from any (pyarrow frees columns from
// wherever the last reference dies).
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace morphspark {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(uint64_t size) { resize(size); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Buffer();

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }
  uint64_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  uint8_t& operator[](uint64_t index) { return data_[index]; }
  uint8_t operator[](uint64_t index) const { return data_[index]; }

  // Keeps what is there; new bytes are not initialised.
  void resize(uint64_t size) {
    if (size > capacity_) Grow(size);
    size_ = size;
  }
  // All bytes become `value`.
  void assign(uint64_t size, uint8_t value) {
    resize(size);
    if (size) std::memset(data_, value, size);
  }

 private:
  void Grow(uint64_t size);

  uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
  uint64_t capacity_ = 0;
};

// An epoch of some engine has ended: free what nobody wanted for a while.
void TrimBufferPool();

}  // namespace morphspark
