// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs tests that hold for every engine twice: once with files and once with a server.
//
//   class AnyStore : public OnBackends {};
//   TEST_P(AnyStore, KeepsARecord) { Store store = open_store(databases / "a.db"); ... }
//   TW_ON_BACKENDS(AnyStore);

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "db/engine/postgres_connection.h"
#include "db/server_address.h"
#include "tests/db/postgres_server.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"

namespace tw::db {

enum class Backend { File, Server };

/// Databases by name. They are files in a folder, or databases of a server, each of which is made
/// when it is first named.
class Databases {
 public:
  explicit Databases(Backend backend) : backend_(backend) {}
  std::string operator/(const std::string& name) {
    if (backend_ == Backend::File) return folder_ / name;
    std::string& address = addresses_[name];
    if (address.empty()) address = PostgresServer::shared().make_database();
    return address;
  }

 private:
  Backend backend_;
  Folder folder_;
  std::map<std::string, std::string> addresses_;
};

/// Runs SQL with the rights of somebody who may change everything.
inline void run_in(const std::string& database, const std::string& sql) {
  if (!is_server(database)) return RawSql(database).run(sql);
  const auto connection = PostgresConnection::open(database, {});
  if (!connection || !(*connection)->execute(sql)) throw std::runtime_error(sql);
}

class OnBackends : public testing::TestWithParam<Backend> {
 protected:
  Databases databases{GetParam()};
  Folder files;  ///< for files that exist with every engine
};

#define TW_ON_BACKENDS(suite)                                     \
  INSTANTIATE_TEST_SUITE_P(                                       \
      On, suite, testing::Values(Backend::File, Backend::Server), \
      [](const auto& tested) { return tested.param == Backend::File ? "File" : "Server"; })

}  // namespace tw::db
