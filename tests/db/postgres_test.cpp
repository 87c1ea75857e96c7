// SPDX-License-Identifier: Apache-2.0
// Tests what holds for a database on a PostgreSQL server in addition to what holds for every store.
#include <gtest/gtest.h>

#include <sstream>

#include "base/text.h"
#include "db/calibration.h"
#include "db/engine/postgres_connection.h"
#include "db/maintenance.h"
#include "db/recorder.h"
#include "db/tables/rows.h"
#include "db/tables/schema.h"
#include "db/transfer.h"
#include "tests/db/fake_time.h"
#include "tests/db/postgres_server.h"
#include "tests/db/process.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

PostgresServer& server() { return PostgresServer::shared(); }

std::unique_ptr<PostgresConnection> connect_to(const std::string& address) {
  auto connection = PostgresConnection::open(address, {});
  if (!connection) throw std::runtime_error(connection.error().message);
  return std::move(*connection);
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// ---- opening ----

TEST(Postgres, AServerThatCannotBeReachedIsOneError) {
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite}) {
    const auto store = Store::open("postgresql://a@/schedules?host=/nowhere", mode);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, ErrorCode::Database);
    EXPECT_TRUE(holds(store.error().message, "cannot be reached")) << store.error().message;
    EXPECT_TRUE(holds(store.error().message, "--db"));
  }
}

TEST(Postgres, TablesAreMadeByThoseWhoWriteOnly) {
  const std::string address = server().make_database();
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::Update})
    EXPECT_TRUE(holds(error_of(Store::open(address, mode)), "holds no tuning database"));
  Store store = open_store(address);
  EXPECT_EQ(store.path(), address);
  EXPECT_TRUE(holds(store.info().value().server, "PostgreSQL 1"));
  EXPECT_TRUE(Store::open(address, OpenMode::ReadOnly));
}

TEST(Postgres, TextMustBeUtf8) {
  server().run("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
  EXPECT_TRUE(
      holds(error_of(Store::open(server().address("latin"), OpenMode::ReadWrite)), "LATIN1"));
}

TEST(Postgres, TablesOfAnotherProgramAreLeftAlone) {
  const std::string address = server().make_database();
  server().run(server().last_database(), "CREATE TABLE public.trials(a int)");
  Store store = open_store(address);
  EXPECT_TRUE(store.append(sample_records(0, 1)));
  EXPECT_EQ(connect_to(address)->integer("SELECT count(*) FROM public.trials").value(), 0);
}

TEST(Postgres, AServerHasNothingToRecover) {
  const Folder folder;
  EXPECT_EQ(recover("postgresql://a@b/c", folder / "new.db").error().code, ErrorCode::Usage);
}

TEST(Postgres, WhereRecordsWaitFollowsFromTheAddress) {
  const Folder folder;
  const std::string address = server().make_database();
  EXPECT_EQ(open_store(address).spool_path(), "");
  Store store =
      open_store(address, OpenMode::ReadWrite, {.spool_directory = folder / "new/folder"});
  EXPECT_TRUE(store.spool_path().starts_with(folder / "new/folder/postgresql-"));
  EXPECT_TRUE(std::filesystem::is_directory(folder / "new/folder"));
}

// ---- content ----

TEST(Postgres, LongTextsFitIntoIndexes) {
  Store store = open_store(server().make_database());
  Record record = sample_record(0);
  // The text is made of hashes, so that the server cannot compress it.
  const auto noise = [](size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += seal(sample_record(static_cast<int64_t>(text.size()))).hash;
    return text.substr(0, bytes);
  };
  record.device = record.op = noise(4096);
  record.layouts = noise(4000);
  record = seal(record);
  ASSERT_TRUE(check(record)) << error_of(check(record));
  EXPECT_EQ(store.append({{record}}).value(), (AppendSummary{1, 0, 0}));
  EXPECT_EQ(store.best(key_of(record)).value(), record);
  EXPECT_EQ(store.query({.op = record.op}).value(), std::vector{record});
}

TEST(Postgres, Fault27_LinesThatAreNoTextAreQuarantinedAsTheyAre) {
  Store store = open_store(server().make_database());
  const std::string line = std::string("\xff\xfe\0'; DROP TABLE trials; --", 27);
  std::istringstream in(to_json(sample_record(0)) + "\n" + line + "\n");
  EXPECT_EQ(import_jsonl(store, in, "lines").value(), (AppendSummary{1, 0, 1}));
  EXPECT_EQ(quarantined(store, 0).value().at(0).line, line);
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Postgres, Fault16_AChangedRecordIsLeftOut) {
  const std::string address = server().make_database();
  {
    Store store = open_store(address);
    ASSERT_TRUE(store.append(sample_records(0, 3)));
  }
  const auto stranger = connect_to(address);
  ASSERT_TRUE(stranger->execute("UPDATE trials SET schedule = 'tw1 nonsense' WHERE seq = 1"));
  ASSERT_TRUE(stranger->execute("UPDATE best SET efficiency = efficiency / 2"));
  Store store = open_store(address, OpenMode::ReadOnly);
  EXPECT_EQ(store.query({}).value().size(), 2u);
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(1));
  const VerifyReport report = verify(store).value();
  EXPECT_EQ(report.damaged, 1);
  EXPECT_EQ(report.wrong_best, 2);
}

// ---- several writers ----

TEST(Postgres, Fault20_WritersThatStartAtOnceShareOneDatabase) {
  const std::string address = server().make_database();
  {
    Process first({"append", address, "0", "60", "5"}),
        second({"append", address, "30", "60", "5"});
    const std::string said = first.rest() + second.rest();
    EXPECT_FALSE(holds(said, "error")) << said;
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
  }
  Store store = open_store(address, OpenMode::ReadOnly);
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 90)));
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Postgres, Fault21_WhatAKilledWriterAcknowledgedIsThere) {
  const std::string address = server().make_database();
  int64_t acknowledged = 0;
  {
    Process writer({"append", address, "0", "5000", "10"});
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(writer.line());
    acknowledged = 50;
    writer.kill_and_wait();
  }
  Store store = open_store(address);  // the killed writer's lock is gone
  ASSERT_TRUE(store.append(sample_records(9000, 1)));
  const std::set<std::string> stored = hashes_in(store);
  EXPECT_EQ(stored.size() % 10, 1u) << "part of a batch";
  for (const Record& record : sample_records(0, acknowledged))
    EXPECT_TRUE(stored.contains(record.hash));
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Postgres, Fault17_AnotherWriterIsWaitedForThenTryLater) {
  const std::string address = server().make_database();
  FakeTime time;
  Store store = open_store(address, OpenMode::ReadWrite, {.waiting = time.waiting(3)});
  const auto other = connect_to(address);
  {
    const auto held = Transaction::begin(*other);
    ASSERT_TRUE(held);
    EXPECT_EQ(store.append(sample_records(0, 1)).error().code, ErrorCode::TryLater);
    EXPECT_EQ(time.now_ms, 3);
    EXPECT_TRUE(store.query({}).value().empty()) << "reading goes on meanwhile";
  }
  EXPECT_TRUE(store.append(sample_records(0, 1)));
}

// ---- versions ----

TEST(Postgres, Fault23_ANewerSchemaIsRefused) {
  const std::string address = server().make_database();
  (void)open_store(address);
  ASSERT_TRUE(connect_to(address)->set_schema_version(schema_version + 1));
  for (const OpenMode mode : {OpenMode::ReadOnly, OpenMode::ReadWrite})
    EXPECT_TRUE(holds(error_of(Store::open(address, mode)), "newer program"));
}

/// Makes a database with these records, as a program of schema version 1 would have made it.
void make_version_1(Connection& connection, const std::vector<Record>& records) {
  ASSERT_TRUE(connection.set_schema_version(1));
  std::string columns =
                  "seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, hash BYTEA NOT "
                  "NULL UNIQUE, workload_hash BYTEA NOT NULL, schedule_hash BYTEA NOT NULL",
              names = "hash, workload_hash, schedule_hash", marks = "?, ?, ?";
  const auto add_column = [&](const char* name, const char* type) {
    columns += fmt::format(", {} {} NOT NULL", name, type);
    names += fmt::format(", {}", name);
    marks += ", ?";
  };
  Record any;
  visit_fields(
      any,
      [&]<typename T>(const char* name, T&) {
        add_column(name, std::is_same_v<T, int64_t>               ? "BIGINT"
                         : std::is_same_v<T, double>              ? "DOUBLE PRECISION"
                         : std::is_same_v<T, std::vector<double>> ? "BYTEA"
                                                                  : "TEXT COLLATE \"C\"");
      },
      1);
  ASSERT_TRUE(connection.execute(fmt::format(
      "CREATE TABLE trials({}); CREATE INDEX trials_group ON trials(workload_hash, threads, "
      "codegen_abi); CREATE INDEX trials_op ON trials((left(op, 64))); CREATE TABLE "
      "best(workload_hash BYTEA, trial BIGINT); CREATE TABLE quarantine(hash BYTEA NOT NULL "
      "PRIMARY KEY, reason BYTEA NOT NULL, line BYTEA NOT NULL)",
      columns)));
  Statement insert =
      Statement::prepare(connection, fmt::format("INSERT INTO trials({}) VALUES({})", names, marks))
          .value();
  for (const Record& record : records) {
    insert.bind_blob(bytes_of_hex(record.hash)).bind_blob(bytes_of_hex(record.workload_hash));
    insert.bind_blob(bytes_of_hex(record.schedule_hash));
    visit_fields(
        record,
        [&]<typename T>(const char*, const T& member) {
          if constexpr (std::is_same_v<T, std::string>)
            insert.bind(std::string_view(member));
          else if constexpr (std::is_same_v<T, TrialStatus>)
            insert.bind(to_string(member));
          else if constexpr (std::is_same_v<T, std::vector<double>>)
            insert.bind_blob(
                {reinterpret_cast<const char*>(member.data()), member.size() * sizeof(double)});
          else
            insert.bind(member);
        },
        1);
    ASSERT_TRUE(insert.run());
  }
}

TEST(Postgres, Version1IsBroughtUpToDateByTheFirstWriter) {
  const std::string address = server().make_database();
  make_version_1(*connect_to(address), sample_records(0, 700));
  EXPECT_TRUE(holds(error_of(Store::open(address, OpenMode::ReadOnly)), "db upgrade"));
  Store store = open_store(address, OpenMode::Update);
  EXPECT_EQ(store.info().value().schema_version, schema_version);
  EXPECT_EQ(store.query({}).value(), sample_records(0, 700));
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
  EXPECT_EQ(store.append(sample_records(699, 2)).value(), (AppendSummary{1, 1, 0}));
  EXPECT_TRUE(add_calibration(store, sample_calibration()));
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Postgres, Fault23_AFailedStepLeavesTheOldVersion) {
  const std::string address = server().make_database();
  (void)open_store(address).append(sample_records(0, 3));
  const auto connection = connect_to(address);
  const Migration steps[] = {
      {schema_version, [](Connection& to) { return to.execute("DELETE FROM trials"); }},
      {schema_version + 1, [](Connection& to) { return to.execute("UPDATE nonsense SET x = 1"); }},
  };
  {
    const auto transaction = Transaction::begin(*connection);
    ASSERT_TRUE(transaction);
    EXPECT_FALSE(apply_steps(*connection, steps, schema_version + 2));
  }
  EXPECT_EQ(connection->schema_version().value(), schema_version);
  EXPECT_EQ(connection->integer("SELECT count(*) FROM trials").value(), 3);
}

// ---- roles ----

/// Returns the SQL of the file that makes roles, without the commands of psql.
std::string roles_sql() {
  std::string sql;
  for (const std::string& line : split(read_bytes(TW_DB_ROLES), '\n'))
    if (!line.starts_with('\\')) sql += line + "\n";
  return sql;
}

TEST(Postgres, RolesAllowWhatTheirNamesSay) {
  const std::string address = server().make_database(), name = server().last_database();
  (void)open_store(address).append(sample_records(0, 3));
  const std::string roles = roles_sql();
  server().run(name, roles);
  server().run(name, roles);  // running it again changes nothing
  for (const char* role : {"reader", "recorder", "curator"})
    server().run(name, fmt::format("CREATE ROLE a_{0} LOGIN; GRANT tilewright_{0} TO a_{0}", role));

  const std::string reader = server().address(name, "a_reader");
  EXPECT_EQ(open_store(reader, OpenMode::ReadOnly).query({}).value().size(), 3u);
  EXPECT_TRUE(holds(error_of(Store::open(reader, OpenMode::ReadWrite)), "tilewright_recorder"));

  Store recorder = open_store(server().address(name, "a_recorder"));
  EXPECT_TRUE(recorder.append(sample_records(1, 5)));
  EXPECT_TRUE(add_calibration(recorder, sample_calibration()));
  EXPECT_TRUE(holds(error_of(drop_quarantined(recorder)), "tilewright_curator"));
  const auto as_recorder = connect_to(server().address(name, "a_recorder"));
  EXPECT_FALSE(as_recorder->execute("DELETE FROM trials"));
  EXPECT_FALSE(as_recorder->execute("UPDATE trials SET latency_ns = 1"));

  Store curator = open_store(server().address(name, "a_curator"));
  EXPECT_TRUE(drop_quarantined(curator));
  EXPECT_TRUE(
      connect_to(server().address(name, "a_curator"))->execute("DELETE FROM trials WHERE seq = 1"));

  server().run(name, "CREATE ROLE a_stranger LOGIN");
  EXPECT_TRUE(holds(error_of(Store::open(server().address(name, "a_stranger"), OpenMode::ReadOnly)),
                    "tilewright_reader"));
}

TEST(Postgres, TheFileOfRolesSaysWhatItLacks) {
  const std::string address = server().make_database(), name = server().last_database();
  const std::string roles = roles_sql();
  const auto refusal = [&](const std::string& role) {
    const Status status = connect_to(server().address(name, role))->execute(roles);
    return status ? "" : status.error().message;
  };
  server().run(name, "CREATE ROLE another LOGIN");
  EXPECT_TRUE(holds(refusal("another"), "no tables of tilewright yet")) << refusal("another");
  (void)open_store(address).append(sample_records(0, 1));
  EXPECT_TRUE(holds(refusal("another"), "another does not own")) << refusal("another");
  server().run(name, "ALTER SCHEMA tilewright OWNER TO another");
  server().run(name, "ALTER TABLE tilewright.trials OWNER TO another");
  EXPECT_TRUE(holds(refusal("another"), "CREATEROLE")) << refusal("another");
}

// ---- a server that goes away ----

TEST(Postgres, ATunerSpoolsWhileTheServerIsAwayAndSynchronisesLater) {
  PostgresServer own;
  const Folder folder;
  FakeTime time;
  Store store = open_store(own.make_database(), OpenMode::ReadWrite,
                           {.waiting = time.waiting(1'000), .spool_directory = folder / "spool"});
  const Spool spool(store.spool_path());
  Recorder recorder(store, spool, {.batch = 4, .on_message = {}});
  for (const Record& record : sample_records(0, 4)) ASSERT_TRUE(recorder.add(record));
  own.stop();
  for (const Record& record : sample_records(4, 10)) ASSERT_TRUE(recorder.add(record));
  EXPECT_EQ(recorder.spooled(), 8);
  EXPECT_FALSE(spool.empty());
  EXPECT_EQ(store.best(key_of(sample_record(0))).error().code, ErrorCode::TryLater);
  EXPECT_EQ(store.query({}).error().code, ErrorCode::TryLater);
  EXPECT_EQ(store.damaged(), 0);
  ASSERT_EQ(time.messages.size(), 1u) << "said once";
  EXPECT_TRUE(holds(time.messages[0], "cannot be reached any more"));

  own.start();
  EXPECT_FALSE(store.query({})) << "not tried again so soon";
  time.now_ms += 30'000;
  ASSERT_TRUE(recorder.flush());
  EXPECT_TRUE(holds(time.messages.back(), "is back"));
  EXPECT_EQ(recorder.stored(), (AppendSummary{14, 0, 0}));
  EXPECT_TRUE(spool.empty());
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 14)));
  EXPECT_TRUE(verify(store).value().ok());
}

TEST(Postgres, TheNextRunStoresWhatWaitsFromTheOneBefore) {
  PostgresServer own;
  const Folder folder;
  const std::string address = own.make_database();
  const StoreOptions options = {.spool_directory = folder / "spool"};
  {
    Store store = open_store(address, OpenMode::ReadWrite, options);
    own.stop();
    Recorder recorder(store, Spool(store.spool_path()));
    for (const Record& record : sample_records(0, 3)) ASSERT_TRUE(recorder.add(record));
    ASSERT_TRUE(recorder.flush());
  }
  own.start();
  Store store = open_store(address, OpenMode::ReadWrite, options);
  Recorder recorder(store, Spool(store.spool_path()));
  ASSERT_TRUE(recorder.add(sample_record(3)));
  ASSERT_TRUE(recorder.flush());
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 4)));
}

TEST(Postgres, WithoutAPlaceToWaitRecordsStayInMemory) {
  PostgresServer own;
  Store store = open_store(own.make_database());
  Recorder recorder(store, Spool(store.spool_path()), {.batch = 2, .on_message = {}});
  own.stop();
  ASSERT_TRUE(recorder.add(sample_record(0)));
  EXPECT_EQ(recorder.add(sample_record(1)).error().code, ErrorCode::TryLater);
  EXPECT_EQ(recorder.pending(), 2u);
}

TEST(Postgres, AServerThatRestartedWhileNobodyAskedIsNotNoticed) {
  PostgresServer own;
  FakeTime time;
  Store store =
      open_store(own.make_database(), OpenMode::ReadWrite, {.waiting = time.waiting(1'000)});
  ASSERT_TRUE(store.append(sample_records(0, 2)));
  own.stop();
  own.start();
  EXPECT_EQ(store.best(key_of(sample_record(0))).value(), sample_record(0));
  own.stop();
  own.start();
  EXPECT_TRUE(store.append(sample_records(2, 2)));
  EXPECT_EQ(hashes_in(store), hashes_of(sample_records(0, 4)));
  EXPECT_TRUE(time.messages.empty());
}

TEST(Postgres, ATransactionWhoseServerGoesAwayIsGone) {
  PostgresServer own;
  const auto connection = connect_to(own.make_database());
  ASSERT_TRUE(create_schema(*connection));
  {
    auto transaction = Transaction::begin(*connection);
    ASSERT_TRUE(transaction);
    ASSERT_TRUE(connection->execute("DELETE FROM schema_version"));
    own.stop();
    own.start();
    const Status lost = connection->execute("SELECT 1");
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().code, ErrorCode::TryLater) << lost.error().message;
    EXPECT_EQ(transaction->commit().error().code, ErrorCode::TryLater);
  }
  EXPECT_EQ(connection->schema_version().value(), schema_version);
}

}  // namespace
}  // namespace tw::db
