// An array for working memory: grown, never shrunk, not initialised. What a batch needs, the next one finds there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

namespace morphspark {

template <class T>
class Scratch {
 public:
  // Makes room for `size` items; what they hold is undefined.
  void Resize(uint64_t size) {
    if (size > capacity_) {
      const uint64_t wanted = size + size / 4;
      items_.reset();  // first, so that never both are held
      capacity_ = 0;
      items_ = std::make_unique_for_overwrite<T[]>(wanted);
      capacity_ = wanted;
    }
    size_ = size;
  }

  // The same, and what is there stays.
  void Grow(uint64_t size) {
    if (size > capacity_) {
      const uint64_t wanted = size + size / 4;
      auto larger = std::make_unique_for_overwrite<T[]>(wanted);
      std::copy_n(items_.get(), size_, larger.get());
      items_ = std::move(larger);
      capacity_ = wanted;
    }
    size_ = size;
  }

  T& operator[](uint64_t index) { return items_[index]; }
  const T& operator[](uint64_t index) const { return items_[index]; }
  T* data() { return items_.get(); }
  const T* data() const { return items_.get(); }
  uint64_t size() const { return size_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  uint64_t bytes() const { return capacity_ * sizeof(T); }

 private:
  std::unique_ptr<T[]> items_;
  uint64_t size_ = 0;
  uint64_t capacity_ = 0;
};

}  // namespace morphspark
