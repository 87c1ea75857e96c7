// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the state of an open Store (its connection, cache and layers), for the functions
// of this folder.

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

/// A record and the number of its row in the table `trials`.
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
  Connection& connection;  ///< the connection of `opened`
  int64_t damaged = 0;
  int64_t newer = 0;  ///< number of records read whose status only a newer program knows
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

  /// Returns the record of the row with number `seq`; nullopt if there is no such row or
  /// leave_out() left out its record.
  Result<std::optional<Record>> read(int64_t seq);
  /// Returns the records of these rows, in the order of `rows`. Leaves out rows that do not exist,
  /// and records that are damaged or from a newer program (leave_out()). Reads up to 64 records by
  /// one request to a server.
  Result<std::vector<StoredRecord>> read(std::span<const int64_t> rows);
  /// Does the same as read(seq), but keeps the record in a cache. It is meant for rows that are
  /// read many times.
  Result<std::optional<Record>> read_again(int64_t seq);

  /// These do the same as Store::best() and the functions of answers.h with these names. But they
  /// search this database alone, not the layers (read-only databases of a team) below it.
  Result<std::optional<Record>> best(const Key& key, const Accept& accepts);
  Result<std::vector<Record>> best_elsewhere(const Key& key, int64_t most, const Accept& accepts);
  Result<std::optional<Explanation>> explain(const Key& key, int64_t limit);

  /// Opens the layers that the options name.
  void open_layers();
  /// Calls ask(layer) for each layer, the nearest first. If `ask` fails for a layer, the reason
  /// goes to on_message, and the layer is not asked again.
  void each_layer(const std::function<Status(OpenLayer&)>& ask);

  /// Counts the record of row `seq`, which cannot be used because of `why`, and reports it to
  /// on_message. If the error is Unsupported, the record is from a newer program: it counts as
  /// `newer` and is reported only the first time. Other records count as `damaged`.
  void leave_out(int64_t seq, const Error& why);

  /// Runs `write` in one transaction, during which no other process can write. Commits the
  /// transaction if `write` returns Ok, else undoes it. Fails with Database if the store was opened
  /// for reading.
  Status write(const std::function<Status()>& write);
};

/// Records and calibrations that passed check(), and the lines of those that did not.
struct Checked {
  std::vector<Record> records = {};
  std::vector<Calibration> calibrations = {};
  std::vector<Quarantined> bad = {};

  size_t size() const { return records.size() + calibrations.size() + bad.size(); }
  void keep(Record record) { records.push_back(std::move(record)); }
  void keep(Calibration calibration) { calibrations.push_back(std::move(calibration)); }
  /// Adds a record or calibration if check() accepts it. Otherwise adds line_of(fact) to the lines
  /// for quarantine, with the reason.
  template <typename Fact, typename LineOf>
  void add(Fact fact, const LineOf& line_of) {
    if (const Status status = check(fact))
      keep(std::move(fact));
    else
      bad.push_back({line_of(fact), status.error().message});
  }
};

/// Stores the records and calibrations and quarantines the bad lines, all in one transaction.
Result<AppendSummary> append_checked(Store::State& state, const Checked& facts);

}  // namespace tw::db
