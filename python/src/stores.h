// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Store that threads of Python share. A db::Store serves one thread at a time, so calls take
// turns. Each call is one query and runs without the GIL. A tuning run calls code of the user, so
// it uses a connection of its own, from open_another(). Thread-safe.

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "db/store.h"
#include "python/src/gil.h"

namespace tw::python {

class SharedStore {
 public:
  static Result<SharedStore> open(const std::string& path, db::OpenMode mode,
                                  db::StoreOptions options) {
    TW_TRY(db::Store store, db::Store::open(path, mode, options));
    return SharedStore(std::move(store), mode, std::move(options));
  }

  /// Calls `ask` with the store and without the GIL, and returns its result. Requires: the caller
  /// has the GIL, and `ask` touches no object of Python.
  template <typename Ask>
  auto use(const Ask& ask) const {
    const WithoutGil released;
    const std::lock_guard turn(state_->mutex);
    return ask(state_->store);
  }

  /// Opens another connection to the database of this store, with the same options. Any thread may
  /// use it beside this store. Errors as db::Store::open(), for example if the database was
  /// deleted.
  Result<db::Store> open_another() const {
    const db::OpenMode mode =
        state_->mode == db::OpenMode::ReadOnly ? db::OpenMode::ReadOnly : db::OpenMode::Update;
    return db::Store::open(state_->store.path(), mode, state_->options);
  }

 private:
  struct State {
    std::mutex mutex;
    db::Store store;
    db::OpenMode mode;
    db::StoreOptions options;
  };
  SharedStore(db::Store store, db::OpenMode mode, db::StoreOptions options)
      : state_(new State{{}, std::move(store), mode, std::move(options)}) {}

  std::unique_ptr<State> state_;
};

}  // namespace tw::python
