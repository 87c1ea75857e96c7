// SPDX-License-Identifier: Apache-2.0
// A program that acts as a tuner in tests of db/: it writes records and prints which are
// acknowledged.
//
//   writer append DB FIRST COUNT BATCH   appends records; after each batch that is acknowledged,
//                                        prints "ack FIRST COUNT HASH in TIME ms" with the hash of
//                                        its last record
//   writer scatter DB FIRST COUNT BATCH  the same for records of many workloads
//   writer read DB                       prints "COUNT DAMAGED", then its peak memory
//   writer open DB                       opens DB for writing as an unprivileged user, prints
//   errors writer list DB                       as read, as an unprivileged user writer
//   migrate-and-die DB            is killed inside a migration writer upgrade-and-die DB is killed
//   at the end of the steps that the program knows writer fill DIRECTORY SPOOL          makes
//   DIRECTORY a small disk and fills it by a Recorder

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "db/engine/statement.h"
#include "db/maintenance.h"
#include "db/recorder.h"
#include "db/store.h"
#include "db/tables/schema.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

int report(const Error& error) {
  fmt::print("error {} {}\n", static_cast<int>(error.code), error.message);
  return static_cast<int>(error.code);
}

using MakeRecords = std::vector<Record> (*)(int64_t first, int64_t count);

int append(const std::string& path, int64_t first, int64_t count, int64_t batch, MakeRecords make) {
  auto store = Store::open(path, OpenMode::ReadWrite);
  if (!store) return report(store.error());
  for (const int64_t end = first + count; first < end; first += batch) {
    const auto records = make(first, std::min(batch, end - first));
    const auto started = std::chrono::steady_clock::now();
    const auto summary = store->append(records);
    if (!summary) return report(summary.error());
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - started;
    fmt::print("ack {} {} {} in {:.1f} ms\n", first, records.size(), records.back().hash,
               taken.count());
    std::fflush(stdout);
  }
  return 0;
}

// Returns the peak resident memory of this program alone, in KiB, or 0 if it is not known.
// getrusage() would include the memory of the parent process, from which this program was forked.
int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  return 0;
}

int read(const std::string& path) {
  auto store = Store::open(path, OpenMode::ReadOnly);
  if (!store) return report(store.error());
  int64_t count = 0;
  if (const Status status = store->for_each({}, [&](const Record&) { return ++count > 0; });
      !status)
    return report(status.error());
  (void)store->best(key_of(sample_record(0)));
  fmt::print("{} {}\npeak {} KiB\n", count, store->damaged(), peak_kib());
  return 0;
}

void become_unprivileged() {
  constexpr uid_t nobody = 65534;
  if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) std::abort();
}

int open_for_writing(const std::string& path) {
  become_unprivileged();
  auto store = Store::open(path, OpenMode::ReadWrite);
  return store ? 0 : report(store.error());
}

int migrate_and_die(const std::string& path) {
  const auto connection = SqliteConnection::open(path, {});
  if (!connection) return report(connection.error());
  const Migration steps[] = {
      {schema_version, [](Connection& to) -> Status {
         TW_RETURN_IF_ERROR(to.execute("ALTER TABLE best ADD COLUMN extra ANY"));
         TW_RETURN_IF_ERROR(to.execute("DELETE FROM trials"));
         // The data is more than the cache holds, so pages are written to the file.
         TW_RETURN_IF_ERROR(to.execute("PRAGMA cache_size=1"));
         TW_RETURN_IF_ERROR(to.execute("UPDATE best SET extra = zeroblob(99999)"));
         std::raise(SIGKILL);
         return {};
       }}};
  const Status status = migrate(**connection, steps, schema_version + 1);
  return status ? 0 : report(status.error());
}

int upgrade_and_die(const std::string& path) {
  const auto connection = SqliteConnection::open(path, {});
  if (!connection) return report(connection.error());
  const auto known = known_migrations();
  std::vector<Migration> steps(known.begin(), known.end());
  steps.push_back({schema_version, [](Connection&) -> Status {
                     std::raise(SIGKILL);
                     return {};
                   }});
  const Status status = migrate(**connection, steps, schema_version + 1);
  return status ? 0 : report(status.error());
}

// Mounts a file system of 2 MiB if this user may mount one. Otherwise limits the size of files to 1
// MiB.
void make_small_disk(const std::string& directory) {
  if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=2m") == 0)
    return;
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {1 << 20, 1 << 20};
  setrlimit(RLIMIT_FSIZE, &limit);
}

int fill(const std::string& directory, const std::string& spool) {
  make_small_disk(directory);
  auto store = Store::open(directory + "/small.db", OpenMode::ReadWrite);
  if (!store) return report(store.error());
  // The spool of this Recorder is on the full disk too, so nothing can be saved.
  Recorder trapped(*store, Spool(directory + "/spool.jsonl"));
  int64_t number = 0;
  Status status;
  while (status && number < 20'000) status = trapped.add(sample_record(number++));
  while (status && number < 40'000) status = trapped.add(sample_record(number++));
  fmt::print("stopped {} pending {} stored {} spooled {}\n", status ? 0 : 1, trapped.pending(),
             trapped.stored().inserted, trapped.spooled());
  fmt::print("message {}\n", status ? "" : status.error().message);
  // The spool of this Recorder is on another disk.
  Recorder saved(*store, Spool(spool), {.batch = 512, .on_message = {}});
  for (int64_t i = 0; i < 512; ++i) status = saved.add(sample_record(1'000'000 + i));
  fmt::print("spooling {} pending {} spooled {}\n", status ? 1 : 0, saved.pending(),
             saved.spooled());
  const auto verified = verify(*store);
  fmt::print("intact {} records {}\n", verified && verified->ok() ? 1 : 0,
             verified ? verified->records : 0);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const std::string& verb = arguments.at(0);
  const std::string& path = arguments.at(1);
  const auto number = [&](size_t index) { return std::stoll(arguments.at(index)); };
  if (verb == "append") return append(path, number(2), number(3), number(4), sample_records);
  if (verb == "scatter") return append(path, number(2), number(3), number(4), scattered_records);
  if (verb == "read") return read(path);
  if (verb == "open") return open_for_writing(path);
  if (verb == "list") return become_unprivileged(), read(path);
  if (verb == "migrate-and-die") return migrate_and_die(path);
  if (verb == "upgrade-and-die") return upgrade_and_die(path);
  if (verb == "fill") return fill(path, arguments.at(2));
  return 2;
}

}  // namespace
}  // namespace tw::db

int main(int argc, char** argv) { return tw::db::run({argv + 1, argv + argc}); }
