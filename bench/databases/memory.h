// SPDX-License-Identifier: Apache-2.0
#pragma once
// Allocates memory for the arrays of contenders. The memory is zeroed and begins at a page, so that
// no contender profits from a lucky alignment.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace tw::bench {

class Memory {
 public:
  static constexpr size_t page = 4096;

  explicit Memory(int64_t bytes) {
    const size_t rounded =
        (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + page - 1) / page * page;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(page, rounded)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, rounded);
  }
  std::byte* data() const { return data_.get(); }
  void copy_from(const Memory& other, int64_t bytes) {
    std::memcpy(data(), other.data(), static_cast<size_t>(bytes));
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace tw::bench
