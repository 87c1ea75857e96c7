// SPDX-License-Identifier: Apache-2.0
// Fuzz target for a database file of a stranger. The file is read and queried, merged into our
// database, upgraded, or recovered. Whatever the file holds, our database keeps its records, stays
// whole, and gets only records that agree with their hash.
#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "base/hash.h"
#include "db/answers.h"
#include "db/calibration.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "db/transfer.h"
#include "tests/db/samples.h"
#include "tests/db/sql.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/promises.h"
#include "tests/fuzz/target.h"

namespace tw::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr size_t page_bytes_of_seeds = 512;
constexpr int64_t our_records = 3, verify_every = 512;

/// A temporary folder, in memory if the system has such a place, because each input commits several
/// times.
class Scratch {
 public:
  Scratch() {
    std::error_code error;
    const fs::path memory = "/dev/shm";
    std::string name =
        (fs::is_directory(memory, error) ? memory : fs::temp_directory_path()) / "tw-fuzz-XXXXXX";
    TW_CHECK(mkdtemp(name.data()));
    path_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(std::string_view name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Returns the bytes of a database with small pages, so that a mutation of a few bytes changes
/// much. `sql` is run in it.
std::string database(const Scratch& scratch, std::string_view sql) {
  const std::string path = scratch / "seed.db";
  fs::remove(path);
  {
    db::Store store = db::open_store(path);
    std::vector<db::Record> records = db::sample_records(0, our_records);
    records.push_back(db::sample_record(7, 1));
    TW_CHECK(store.append(records) && db::add_calibration(store, db::sample_calibration()));
    std::istringstream lines(db::to_json(db::sample_record(1)) + "\nno record\n");
    TW_CHECK(db::import_jsonl(store, lines, "lines").has_value());
  }
  db::RawSql(path).run(fmt::format("PRAGMA page_size={}; VACUUM; {}", page_bytes_of_seeds, sql));
  return db::read_bytes(path);
}

std::vector<std::string> merge_seeds() {
  const Scratch scratch;
  std::vector<std::string> seeds;
  for (const char* sql :
       {"", "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END",
        "DROP TABLE best; CREATE VIEW best AS SELECT * FROM trials",
        "ALTER TABLE trials ADD COLUMN x INTEGER GENERATED ALWAYS AS (threads * 2) VIRTUAL",
        "PRAGMA application_id=7", "PRAGMA user_version=9", "PRAGMA journal_mode=WAL",
        "UPDATE trials SET samples_ns = zeroblob(20000) WHERE seq = 2",
        "UPDATE trials SET texts = zeroblob(20000) WHERE seq = 2",
        "UPDATE groups SET digest = zeroblob(32) WHERE id = 1",
        "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage = 3 WHERE name = 'best'"})
    seeds.push_back(database(scratch, sql));
  for (const int version : {1, 2, 3})
    seeds.push_back(source_file(fmt::format("tests/db/data/version_{}.db", version)));
  return seeds;
}

/// Our database, into which all others are merged.
class Ours {
 public:
  Ours() : store_(make(scratch_ / "ours.db")) {}
  db::Store& store() { return store_; }
  std::string operator/(std::string_view name) const { return scratch_ / name; }

  void check() {
    if (++checks_ % verify_every == 0) TW_CHECK(db::verify(store_).value().ok(), "ours is damaged");
    const auto best = store_.best(db::key_of(db::sample_record(0)));
    TW_CHECK(best && *best == db::sample_record(0), "ours must answer as before");
    const auto info = store_.info();
    TW_CHECK(info && info->records >= our_records && info->records <= our_records + 3);
  }

 private:
  static db::Store make(const std::string& path) {
    db::make_database(path, db::sample_records(0, our_records));
    return db::open_store(path);
  }
  Scratch scratch_;
  db::Store store_;
  int64_t checks_ = 0;
};

template <typename T>
bool succeeds(const Result<T>& result) {
  if (!result) check_error(result.error());
  return result.has_value();
}

bool ask(const std::string& path) {
  auto store = db::Store::open(path, db::OpenMode::ReadOnly);
  if (!succeeds(store)) return false;
  const auto best = store->best(db::key_of(db::sample_record(0)));
  if (succeeds(best) && *best)
    TW_CHECK(db::check(**best) && (*best)->workload == db::sample_record(0).workload);
  (void)succeeds(db::explain(*store, db::key_of(db::sample_record(0))));
  (void)succeeds(db::verify(*store));
  (void)succeeds(db::doubted(*store, 5));
  (void)succeeds(db::quarantined(*store, 5));
  std::ostringstream out;
  (void)succeeds(db::export_jsonl(*store, out));
  return true;
}

bool write_to(const std::string& path) {
  auto store = db::Store::open(path, db::OpenMode::Update);
  if (!succeeds(store)) return false;
  const db::Record fresh = db::sample_record(11);
  if (!succeeds(store->append({&fresh, 1}))) return false;
  (void)succeeds(db::prune(*store, {.codegen_abi = 2}, db::Pruning::Delete));
  return true;
}

bool save(const std::string& path, const std::string& fresh) {
  const auto saved = db::recover(path, fresh);
  if (!succeeds(saved)) return false;
  db::Store store = db::open_store(fresh, db::OpenMode::ReadOnly);
  TW_CHECK(db::verify(store).value().ok(), "what was recovered must be whole");
  return true;
}

bool use(Ours& ours, const std::string& path, std::string_view input) {
  switch (std::hash<std::string_view>()(input) % 5) {
    case 0:
      return ask(path);
    case 1:
      return write_to(path);
    case 2:
      return save(path, ours / "fresh.db");
    default:
      const bool merged = succeeds(db::merge_from(ours.store(), path));
      ours.check();
      return merged;
  }
}

bool merge_accepts(std::string_view input) {
  static Ours ours;
  const std::string path = ours / "theirs.db";
  db::write_bytes(path, std::string(input));
  const bool accepted = use(ours, path, input);
  for (const std::string_view name : {"theirs.db", "fresh.db"})
    for (const std::string_view suffix :
         {"", "-journal", "-wal", "-shm", ".lock", ".v1.backup", ".v2.backup", ".v3.backup"}) {
      std::error_code ignored;
      fs::remove(ours / fmt::format("{}{}", name, suffix), ignored);
    }
  return accepted;
}

/// Changes the structure of a page, or replaces a page by another.
std::string with_changed_page(const std::string& input, const std::string& other, Random& random) {
  const int64_t pages = std::ssize(input) / static_cast<int64_t>(page_bytes_of_seeds);
  const int64_t others = std::ssize(other) / static_cast<int64_t>(page_bytes_of_seeds);
  std::string bytes = input;
  if (pages == 0 || others == 0) return bytes;
  const size_t at = static_cast<size_t>(random.below(pages)) * page_bytes_of_seeds;
  const size_t from = static_cast<size_t>(random.below(others)) * page_bytes_of_seeds;
  // The first page begins with the header of the file, which has 100 bytes.
  const size_t head = at == 0 ? 100 : 0;
  switch (random.below(4)) {
    case 0:
      bytes.replace(at, page_bytes_of_seeds, other, from, page_bytes_of_seeds);
      break;
    case 1:  // type of the page, free blocks, number of cells
      bytes[at + head + static_cast<size_t>(random.below(12))] =
          static_cast<char>(random.below(256));
      break;
    case 2:  // places of cells
      bytes[at + head + 8 + static_cast<size_t>(random.below(24))] =
          static_cast<char>(random.below(256));
      break;
    default:  // lengths and types in cells, which fill a page from its end
      bytes[at + page_bytes_of_seeds - 1 - static_cast<size_t>(random.below(160))] =
          static_cast<char>(random.below(256));
  }
  return bytes;
}

std::string mutated_database(const std::string& input, const std::string& other, Random& random) {
  std::string bytes = input;
  for (int64_t changes = 1 + random.below(3); changes > 0; --changes)
    bytes = with_changed_page(bytes, other, random);
  return bytes;
}

}  // namespace

const Target merge_target = {
    .name = "merge",
    .summary = "database files that are read, merged and recovered",
    .seeds = merge_seeds,
    .accepts = merge_accepts,
    .words = {"CREATE TABLE", "CREATE VIEW", "CREATE TRIGGER", "WITHOUT ROWID", "STRICT", "trials",
              "best", "quarantine", "calibrations"},
    .mutated = mutated_database};

}  // namespace tw::fuzz
