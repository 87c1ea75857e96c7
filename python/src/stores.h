// SPDX-License-Identifier: Apache-2.0
#pragma once
// A database connection that several Python threads share. A db::Store may be used by one thread at
// a time, so a mutex makes calls wait for each other. Each call is one query and releases the GIL.
// A tuning run holds its connection for long and calls code of the user meanwhile, so it opens a
// connection of its own by open_another(). Thread-safe.

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
  /// Calls db::Store::open() after releasing the GIL, because it may wait for a lock of another
  /// process. Requires: the caller has the GIL, and the options' functions touch no object of
  /// Python.
  static Result<SharedStore> open(const std::string& path, db::OpenMode mode,
                                  db::StoreOptions options) {
    const WithoutGil released;
    TW_TRY(db::Store store, db::Store::open(path, mode, options));
    return SharedStore(std::move(store), mode, std::move(options));
  }

  /// Calls `ask(store)` after releasing the GIL, and returns its result. Requires: the caller has
  /// the GIL, and `ask` touches no object of Python.
  template <typename Ask>
  auto use(const Ask& ask) const {
    const WithoutGil released;
    const std::lock_guard turn(state_->mutex);
    return ask(state_->store);
  }

  /// Opens another connection to the database of this store, with the same options. Another thread
  /// may use the new connection at the same time as this store. Fails with the errors of
  /// db::Store::open(), for example if the database was deleted.
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
