// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the state of a Store, for the functions of this folder.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "db/calibration.h"
#include "db/engine/gate.h"
#include "db/engine/statement.h"
#include "db/opening.h"
#include "db/store.h"
#include "db/tables/read_records.h"
#include "db/trust.h"

namespace tw::db {

/// A record and the row that has it.
struct StoredRecord {
  int64_t row;
  Record record;
};

std::vector<Record> records_of(std::vector<StoredRecord> stored);

/// A layer that could be opened.
struct OpenLayer {
  std::string name;
  Store store;
};

struct Store::State {
  std::string path;
  OpenMode mode;
  StoreOptions options;
  Opened opened;
  Connection& connection;  ///< that of `opened`
  int64_t damaged = 0;
  int64_t newer = 0;  ///< number of reads of records whose status only a newer program knows
  ReadRecords read_records = {};
  std::vector<OpenLayer> below = {};

  State(std::string path_, OpenMode mode_, StoreOptions options_, Opened opened_)
      : path(std::move(path_)),
        mode(mode_),
        options(std::move(options_)),
        opened(std::move(opened_)),
        connection(*opened.connection) {}

  void say(std::string_view message) const {
    if (options.waiting.on_message) options.waiting.on_message(message);
  }

  /// The record of a row, or nullopt where it is damaged; says so and counts it.
  Result<std::optional<Record>> read(int64_t seq);
  /// The records of rows, in their order, without those that are damaged. A server is asked once
  /// for 64 of them.
  Result<std::vector<StoredRecord>> read(std::span<const int64_t> rows);
  /// As read(seq), with a cache: for a row that is read many times.
  Result<std::optional<Record>> read_again(int64_t seq);

  /// The answers of this database alone.
  Result<std::optional<Record>> best(const Key& key, const Accept& accepts);
  Result<std::vector<Record>> best_elsewhere(const Key& key, int64_t most, const Accept& accepts);
  Result<std::optional<Explanation>> explain(const Key& key, int64_t limit);

  /// Opens the layers that the options name.
  void open_layers();
  /// Calls ask(layer) for each layer, the nearest first. One that fails is left out from then on.
  void each_layer(const std::function<Status(OpenLayer&)>& ask);

  /// Says and counts that the record of a row cannot be read.
  void leave_out(int64_t seq, const Error& why);

  /// Runs `write` in one transaction that keeps other writers out, and commits.
  Status write(const std::function<Status()>& write);
};

/// Facts that passed check(), and what did not.
struct Checked {
  std::vector<Record> records = {};
  std::vector<Calibration> calibrations = {};
  std::vector<Quarantined> bad = {};

  size_t size() const { return records.size() + calibrations.size() + bad.size(); }
  void keep(Record record) { records.push_back(std::move(record)); }
  void keep(Calibration calibration) { calibrations.push_back(std::move(calibration)); }
  /// Keeps a fact, or where check() refuses it the line that line_of(fact) gives.
  template <typename Fact, typename LineOf>
  void add(Fact fact, const LineOf& line_of) {
    if (const Status status = check(fact))
      keep(std::move(fact));
    else
      bad.push_back({line_of(fact), status.error().message});
  }
};

/// Adds the facts and keeps the others aside, all in one transaction.
Result<AppendSummary> append_checked(Store::State& state, const Checked& facts);

}  // namespace tw::db
