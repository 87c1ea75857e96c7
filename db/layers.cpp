// SPDX-License-Identifier: Apache-2.0
// Answers of the layers below a database. A database works without its layers, so a layer that is
// damaged or cannot be reached only causes a message.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "db/answers.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

bool is_exact(const std::optional<Record>& record, const Key& key) {
  return record && likeness_of(record->device, key.device) == Likeness::Exact;
}

/// True if `lower`, the answer of a lower layer, is of a nearer device than `upper`, the answer so
/// far. If both devices are equally near, `upper` stays the answer.
bool is_nearer(const std::optional<Record>& lower, const std::optional<Record>& upper,
               const Key& key) {
  if (!lower || !upper) return lower.has_value();
  return likeness_of(lower->device, key.device) < likeness_of(upper->device, key.device);
}

Result<bool> has_record(Connection& connection, const std::string& hash) {
  TW_TRY(Statement statement,
         Statement::prepare(connection, "SELECT seq FROM trials WHERE hash = ?"));
  return statement.bind_blob(bytes_of_hex(hash)).one([](const Row&) {});
}

}  // namespace

void Store::State::open_layers() {
  for (const Layer& layer : options.below) {
    StoreOptions own = options;
    own.below.clear();
    Result<Store> store = Store::open(layer.path, OpenMode::ReadOnly, std::move(own));
    if (store)
      below.push_back({layer.name, std::move(*store)});
    else
      say(fmt::format("the {} layer is left out: {}", layer.name, store.error().message));
  }
}

void Store::State::each_layer(const std::function<Status(OpenLayer&)>& ask) {
  for (auto layer = below.begin(); layer != below.end();) {
    const Status status = ask(*layer);
    if (status) {
      ++layer;
      continue;
    }
    say(fmt::format("the {} layer is left out: {}", layer->name, status.error().message));
    layer = below.erase(layer);
  }
}

Result<std::optional<Record>> Store::best(const Key& key, const Accept& accepts) {
  TW_TRY(std::optional<Record> best, state_->best(key, accepts));
  state_->each_layer([&](OpenLayer& layer) -> Status {
    if (is_exact(best, key)) return {};
    TW_TRY(std::optional<Record> lower, layer.store.best(key, accepts));
    if (is_nearer(lower, best, key)) best = std::move(lower);
    return {};
  });
  return best;
}

Result<std::vector<Record>> best_elsewhere(Store& store, const Key& key, int64_t most,
                                           const Accept& accepts) {
  TW_TRY(std::vector<Record> records, store.state().best_elsewhere(key, most, accepts));
  store.state().each_layer([&](OpenLayer& layer) -> Status {
    TW_TRY(std::vector<Record> lower, best_elsewhere(layer.store, key, most, accepts));
    std::ranges::move(lower, std::back_inserter(records));
    return {};
  });
  return records;
}

Result<std::optional<Explanation>> explain(Store& store, const Key& key, int64_t limit) {
  TW_TRY(std::optional<Explanation> found, store.state().explain(key, limit));
  store.state().each_layer([&](OpenLayer& layer) -> Status {
    if (found && found->likeness == Likeness::Exact) return {};
    TW_TRY(std::optional<Explanation> lower, explain(layer.store, key, limit));
    if (!lower || (found && lower->likeness >= found->likeness)) return {};
    found = std::move(lower);
    found->layer = layer.name;
    return {};
  });
  return found;
}

void for_each_below(Store& store, const Filter& filter,
                    const std::function<bool(const Record&)>& visit) {
  bool goes_on = true;
  store.state().each_layer([&](OpenLayer& layer) -> Status {
    if (!goes_on) return {};
    return layer.store.for_each(filter, [&](const Record& record) {
      goes_on = visit(record);
      return goes_on;
    });
  });
}

Result<std::string> layer_of(Store& store, const Record& record) {
  TW_TRY(const bool is_own, has_record(store.state().connection, record.hash));
  std::string name;
  if (is_own) return name;
  store.state().each_layer([&](OpenLayer& layer) -> Status {
    if (!name.empty()) return {};
    TW_TRY(const bool has, has_record(layer.store.state().connection, record.hash));
    if (has) name = layer.name;
    return {};
  });
  return name;
}

}  // namespace tw::db
