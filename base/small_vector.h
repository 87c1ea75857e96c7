// SPDX-License-Identifier: Apache-2.0
#pragma once
// A vector that stores up to `Inside` elements inside the object, and more on the heap. It saves
// allocations where thousands of short vectors are made and destroyed. Elements must be trivially
// copyable. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace tw {

template <typename T, size_t Inside>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  SmallVector(const SmallVector& other) { assign(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }

  void push_back(const T& value) {
    const T copy = value;  // `value` may be an element of this vector
    if (size_ == capacity_) grow(2 * capacity_);
    data()[size_++] = copy;
  }
  /// Removes element `i`; later elements move forward by one.
  void erase(size_t i) {
    std::copy(begin() + i + 1, end(), begin() + i);
    --size_;
  }

 private:
  const T* data() const { return outside_ ? outside_.get() : inside_; }
  T* data() { return outside_ ? outside_.get() : inside_; }

  void grow(size_t capacity) {
    std::unique_ptr<T[]> larger(new T[capacity]);
    std::copy(begin(), end(), larger.get());
    outside_ = std::move(larger);
    capacity_ = capacity;
  }
  void assign(const SmallVector& other) {
    if (other.size_ > capacity_) grow(other.size_);
    std::copy(other.begin(), other.end(), begin());
    size_ = other.size_;
  }

  size_t size_ = 0, capacity_ = Inside;
  std::unique_ptr<T[]> outside_;
  T inside_[Inside];
};

}  // namespace tw
