// Bytes that are freed all at once. Not thread safe.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/value.h"

namespace morphspark {

class Arena {
 public:
  char* Allocate(uint64_t size) {
    if (size > static_cast<uint64_t>(end_ - next_)) Grow(size);
    char* bytes = next_;
    next_ += size;
    used_ += size;
    return bytes;
  }

  Bytes Copy(Bytes bytes) {
    if (bytes.size == 0) return {"", 0};
    char* copy = Allocate(bytes.size);
    std::memcpy(copy, bytes.data, bytes.size);
    return {copy, bytes.size};
  }

  // Forgets everything; keeps the newest chunk for the next use, so a transaction that needs little allocates nothing.
  void Reset() {
    if (chunks_.empty()) return;
    if (chunks_.size() > 1) {
      chunks_.front() = std::move(chunks_.back());
      chunks_.resize(1);
      reserved_ = chunks_[0].size;
    }
    next_ = chunks_[0].bytes.get();
    end_ = next_ + chunks_[0].size;
    used_ = 0;
  }

  // Makes room: as much may be allocated next without failing.
  void Reserve(uint64_t size) {
    if (size > static_cast<uint64_t>(end_ - next_)) Grow(size);
  }

  uint64_t used() const { return used_; }
  uint64_t reserved() const { return reserved_; }

 private:
  static constexpr uint64_t kChunkBytes = 64 * 1024;

  struct Chunk {
    std::unique_ptr<char[]> bytes;
    uint64_t size;
  };

  void Grow(uint64_t size) {
    const uint64_t bytes = std::max({size, kChunkBytes, std::min(reserved_, uint64_t{16} << 20)});
    chunks_.push_back({std::make_unique_for_overwrite<char[]>(bytes), bytes});
    next_ = chunks_.back().bytes.get();
    end_ = next_ + bytes;
    reserved_ += bytes;
  }

  inline static char empty_[1];  // where nothing is allocated before the first chunk: an address, never read

  std::vector<Chunk> chunks_;
  char* next_ = empty_;
  char* end_ = empty_;
  uint64_t used_ = 0;
  uint64_t reserved_ = 0;
};

}  // namespace morphspark
