// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Store that threads of Python share: a Store itself serves one thread at a time, and the GIL is
// released while it is in use.

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>
#include <utility>

#include "db/store.h"
#include "python/src/gil.h"

namespace tw::python {

class SharedStore {
 public:
  explicit SharedStore(db::Store store) : state_(std::make_unique<State>(std::move(store))) {}

  /// The store, until it is destroyed; others wait without the GIL.
  class Lock {
   public:
    explicit Lock(std::mutex& mutex, db::Store& store)
        : lock_(mutex, std::defer_lock), store_(store) {
      const WithoutGil released;
      lock_.lock();
    }
    db::Store* operator->() { return &store_; }
    db::Store& operator*() { return store_; }

   private:
    std::unique_lock<std::mutex> lock_;
    db::Store& store_;
  };
  Lock lock() { return Lock(state_->mutex, state_->store); }

 private:
  struct State {
    explicit State(db::Store made) : store(std::move(made)) {}
    std::mutex mutex;
    db::Store store;
  };
  std::unique_ptr<State> state_;
};

}  // namespace tw::python
