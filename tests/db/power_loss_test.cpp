// SPDX-License-Identifier: Apache-2.0
// Tests power loss as SQLite's own tests model it. The file system keeps all data that was synced,
// and any sectors of the other data. A shim VFS logs what SQLite does to its files while a store
// appends records. For each moment of the log, the test rebuilds the files as a disk might hold
// them if the power was lost at this moment. The store must then open with every acknowledged
// record.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "base/random.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "tests/db/samples.h"
#include "tests/nightly.h"

namespace tw::db {
namespace {

const size_t stride = cases_of<size_t>(3, 1);
const uint64_t seeds = cases_of<uint64_t>(2, 8);

struct Event {
  enum Kind { Create, Write, Truncate, Sync, Delete, Acknowledge } kind;
  std::string path;
  int64_t offset = 0;  // for Truncate, the size; for Acknowledge, the number of records
  std::string bytes;
  bool sync_directory = false;  // for Delete
};

std::vector<Event> event_log;

// ---- the shim: passes each call on, and logs it ----

struct ShimFile {
  sqlite3_file base;
  char path[512];
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
ShimFile* shim(sqlite3_file* file) { return reinterpret_cast<ShimFile*>(file); }
sqlite3_file* real(sqlite3_file* file) { return shim(file)->real(); }
sqlite3_vfs* real_vfs() { return sqlite3_vfs_find(nullptr); }

const sqlite3_io_methods io_methods = {
    1, [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); },
    [](sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
      return real(f)->pMethods->xRead(real(f), to, n, at);
    },
    [](sqlite3_file* f, const void* from, int n, sqlite3_int64 at) {
      event_log.push_back(
          {Event::Write, shim(f)->path, at, std::string(static_cast<const char*>(from), n)});
      return real(f)->pMethods->xWrite(real(f), from, n, at);
    },
    [](sqlite3_file* f, sqlite3_int64 size) {
      event_log.push_back({Event::Truncate, shim(f)->path, size, {}});
      return real(f)->pMethods->xTruncate(real(f), size);
    },
    [](sqlite3_file* f, int flags) {
      event_log.push_back({Event::Sync, shim(f)->path, 0, {}});
      return real(f)->pMethods->xSync(real(f), flags);
    },
    [](sqlite3_file* f, sqlite3_int64* size) {
      return real(f)->pMethods->xFileSize(real(f), size);
    },
    [](sqlite3_file* f, int lock) { return real(f)->pMethods->xLock(real(f), lock); },
    [](sqlite3_file* f, int lock) { return real(f)->pMethods->xUnlock(real(f), lock); },
    [](sqlite3_file* f, int* out) { return real(f)->pMethods->xCheckReservedLock(real(f), out); },
    [](sqlite3_file* f, int op, void* p) {
      return real(f)->pMethods->xFileControl(real(f), op, p);
    },
    [](sqlite3_file*) { return 512; },
    // Nothing is promised about sectors, so a write may also tear the page beside it.
    [](sqlite3_file*) { return 0; }, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};

int open_file(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  int existed = 0;
  if (path) real_vfs()->xAccess(real_vfs(), path, SQLITE_ACCESS_EXISTS, &existed);
  std::snprintf(shim(file)->path, sizeof shim(file)->path, "%s", path ? path : "temporary");
  const int code = real_vfs()->xOpen(real_vfs(), path, real(file), flags, out_flags);
  file->pMethods = code == SQLITE_OK ? &io_methods : nullptr;
  if (code == SQLITE_OK && !existed) event_log.push_back({Event::Create, shim(file)->path, 0, {}});
  return code;
}

int delete_file(sqlite3_vfs*, const char* path, int sync_directory) {
  event_log.push_back({Event::Delete, path, 0, {}, sync_directory != 0});
  return real_vfs()->xDelete(real_vfs(), path, sync_directory);
}

void register_shim() {
  static sqlite3_vfs vfs = *real_vfs();
  vfs.zName = "tw-power-loss";
  vfs.szOsFile = static_cast<int>(sizeof(ShimFile)) + real_vfs()->szOsFile;
  vfs.xOpen = open_file;
  vfs.xDelete = delete_file;
  sqlite3_vfs_register(&vfs, 0);
}

// ---- the disk ----

struct Content {
  std::string durable;
  std::vector<const Event*> unsynced;
};

void apply(std::string& bytes, const Event& event, Random* torn) {
  if (event.kind == Event::Truncate) {
    bytes.resize(static_cast<size_t>(event.offset));
    return;
  }
  const size_t offset = static_cast<size_t>(event.offset);
  for (size_t at = 0; at < event.bytes.size(); at += 512) {
    if (torn && torn->chance(0.5)) continue;
    const std::string sector = event.bytes.substr(at, 512);
    if (bytes.size() < offset + at + sector.size()) bytes.resize(offset + at + sector.size());
    bytes.replace(offset + at, sector.size(), sector);
  }
}

class Disk {
 public:
  using Names = std::map<std::string, std::shared_ptr<Content>>;

  Disk(const std::string& path, std::string bytes) {
    durable_[path] = std::make_shared<Content>(Content{std::move(bytes), {}});
    now_ = durable_;
  }

  void see(const Event& event) {
    switch (event.kind) {
      case Event::Create:
        now_[event.path] = std::make_shared<Content>();
        history_.push_back(now_);
        break;
      case Event::Delete:
        now_.erase(event.path);
        history_.push_back(now_);
        if (event.sync_directory) sync_names();
        break;
      case Event::Write:
      case Event::Truncate:
        now_.at(event.path)->unsynced.push_back(&event);
        break;
      case Event::Sync:
        for (const Event* write : now_.at(event.path)->unsynced)
          apply(now_.at(event.path)->durable, *write, nullptr);
        now_.at(event.path)->unsynced.clear();
        sync_names();  // because SQLite syncs the directory with a new file
        break;
      case Event::Acknowledge:
        break;
    }
  }

  /// Returns files that the disk may hold after a power loss, chosen at random. The directory is in
  /// a state that it had at some moment since its last sync. Of the data that was written and not
  /// synced, any sectors may be there.
  std::map<std::string, std::string> after_power_loss(Random& random) const {
    const int64_t moment = random.below(static_cast<int64_t>(history_.size()) + 1);
    const Names& names = moment == 0 ? durable_ : history_[static_cast<size_t>(moment) - 1];
    std::map<std::string, std::string> files;
    for (const auto& [path, content] : names) {
      std::string bytes = content->durable;
      for (const Event* event : content->unsynced)
        if (random.chance(0.5)) apply(bytes, *event, &random);
      files[path] = std::move(bytes);
    }
    return files;
  }

 private:
  void sync_names() {
    durable_ = now_;
    history_.clear();
  }
  Names durable_, now_;
  std::vector<Names> history_;
};

struct Losses {
  int moments = 0;
  int unopened = 0;
  int lost = 0;  // number of moments after which an acknowledged record is missing
  int damaged = 0;
};

struct Recording {
  std::string path;
  std::string before;
  std::vector<Event> events;
};

Recording record_appends(const Folder& folder) {
  register_shim();
  Recording recording{folder / "a.db", {}, {}};
  make_database(recording.path, sample_records(0, 20));
  recording.before = read_bytes(recording.path);
  Store store = open_store(recording.path, OpenMode::ReadWrite, {.vfs = "tw-power-loss"});
  event_log.clear();
  for (int64_t done = 20; done < 50; done += 6) {
    EXPECT_TRUE(store.append(sample_records(done, 6)));
    event_log.push_back({Event::Acknowledge, {}, done + 6, {}});
  }
  recording.events = event_log;
  return recording;
}

void inspect(const std::string& path, int64_t acknowledged, Losses& losses) {
  ++losses.moments;
  auto store = Store::open(path, OpenMode::ReadWrite);
  if (!store) {
    ++losses.unopened;
    return;
  }
  const auto records = store->query({});
  const std::set<std::string> present = records ? hashes_of(*records) : std::set<std::string>();
  const std::set<std::string> expected = hashes_of(sample_records(0, acknowledged));
  losses.lost += !std::includes(present.begin(), present.end(), expected.begin(), expected.end());
  const auto report = verify(*store);
  losses.damaged += !report || !report->ok();
}

Losses lose_power_everywhere(const Recording& recording, uint64_t seed) {
  const Folder folder;
  const std::string path = folder / "a.db";
  Losses losses;
  Disk disk(recording.path, recording.before);
  int64_t acknowledged = 20;
  for (size_t at = 0; at < recording.events.size(); ++at) {
    disk.see(recording.events[at]);
    if (recording.events[at].kind == Event::Acknowledge) acknowledged = recording.events[at].offset;
    if (at % stride != seed % stride) continue;
    Random random(seed * 1'000'003 + at);
    for (const char* suffix : {"", "-journal"}) std::filesystem::remove(path + suffix);
    for (const auto& [name, bytes] : disk.after_power_loss(random))
      write_bytes(path + name.substr(recording.path.size()), bytes);
    inspect(path, acknowledged, losses);
  }
  return losses;
}

TEST(PowerLoss, Fault22_OnlyUnacknowledgedRecordsAreLost) {
  const Folder folder;
  const Recording recording = record_appends(folder);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Losses losses = lose_power_everywhere(recording, seed);
    EXPECT_GT(losses.moments, 20);
    EXPECT_EQ(losses.unopened, 0);
    EXPECT_EQ(losses.lost, 0);
    EXPECT_EQ(losses.damaged, 0);
  }
}

// The model must find faults: if one of the syncs is missing, it does.
TEST(PowerLoss, Fault22_TheModelNoticesAMissingSync) {
  const Folder folder;
  Recording no_directory_sync = record_appends(folder);
  Recording no_file_sync = no_directory_sync;
  // Without synchronous=EXTRA, SQLite does not sync the directory after it deletes the journal. In
  // this model, a sync of a file still syncs the directory too.
  for (Event& event : no_directory_sync.events) event.sync_directory = false;
  std::erase_if(no_file_sync.events, [](const Event& event) { return event.kind == Event::Sync; });
  Losses journal, file;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Losses a = lose_power_everywhere(no_directory_sync, seed);
    const Losses b = lose_power_everywhere(no_file_sync, seed);
    journal.lost += a.lost;
    file.lost += b.lost + b.damaged + b.unopened;
  }
  EXPECT_GT(journal.lost, 0);
  EXPECT_GT(file.lost, 0);
}

}  // namespace
}  // namespace tw::db
