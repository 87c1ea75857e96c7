// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records, folders and stores that tests of db/ begin with.

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/machine.h"
#include "db/calibration.h"
#include "db/record.h"
#include "db/store.h"

namespace tw::db {

/// Returns a plausible sealed record. Records with different numbers differ in everything that
/// matters.
inline Record sample_record(int64_t number, int64_t workload = 0) {
  Record record;
  record.workload = fmt::format("matmul(m=64,n=64,k={}):f32:strict", 64 + workload);
  record.op = "matmul";
  record.target = "x86-64-linux-avx-avx2-fma";
  record.device = "Test CPU / 2 cores / 1 MiB";
  record.toolchain = "test 1";
  record.threads = 1;
  record.schedule = fmt::format("tw1 split m {}; vectorize n.1 8; note {}", number + 1, number);
  record.latency_ns = 10'000 + static_cast<double>(number);
  record.latency_low_ns = record.latency_ns - 50;
  record.latency_high_ns = record.latency_ns + 50;
  record.samples_ns = {record.latency_ns - 1.25, record.latency_ns, record.latency_ns + 0.1};
  record.flops = 2.0 * 64 * 64 * 64;
  record.peak_gflops = 100;
  record.noise = 0.01;
  record.verified_error = 1e-7;
  record.program_version = "0.1.0";
  record.host = "5d41402abc4b2a76";
  record.session = "session-1";
  record.seed = 7;
  record.trial = number;
  record.created_ms = 1'700'000'000'000 + number;
  return seal(std::move(record));
}

/// Returns a sealed record of a dilated convolution. Its flops, divided by its latency, are `ratio`
/// times the peak. Only a ninth of its terms count, because all others are in the padding.
inline Record dilated_record(int64_t number, double ratio) {
  Record record = sample_record(number);
  record.workload =
      "conv2d n=1 c=64 h=33 w=33 k=64 r=3 s=3 stride=1 pad=36 dilation=36 groups=1 f32 fast";
  record.op = "conv2d";
  record.flops = 2.0 * 64 * 64 * 33 * 33 * 9;
  record.latency_ns = record.flops / (ratio * record.peak_gflops);
  record.latency_low_ns = record.latency_high_ns = record.latency_ns;
  record.samples_ns = {record.latency_ns};
  return seal(std::move(record));
}

/// Returns a plausible calibration, not sealed. Different clocks give different calibrations.
inline Calibration sample_calibration(double clock_ghz = 3) {
  Machine machine;
  machine.name = "Test CPU";
  machine.origin = MachineOrigin::Calibrated;
  machine.core.clock_ghz = clock_ghz;
  Calibration calibration;
  calibration.target = "x86-64-linux-avx-avx2-fma";
  calibration.device = "Test CPU / 2 cores / 1 MiB";
  calibration.machine = to_string(machine);
  calibration.program_version = "0.1.0";
  calibration.created_ms = 1'700'000'000'000;
  return calibration;
}

inline std::vector<Record> sample_records(int64_t first, int64_t count) {
  std::vector<Record> records;
  for (int64_t number = first; number < first + count; ++number)
    records.push_back(sample_record(number));
  return records;
}

/// Returns sample records, of which each workload has a hundred.
inline Record scattered_record(int64_t number) { return sample_record(number, number / 100); }
inline std::vector<Record> scattered_records(int64_t first, int64_t count) {
  std::vector<Record> records;
  for (int64_t number = first; number < first + count; ++number)
    records.push_back(scattered_record(number));
  return records;
}

inline Record with_latency(Record record, double latency_ns) {
  const double scale = latency_ns / record.latency_ns;
  record.latency_ns = latency_ns;
  record.latency_low_ns *= scale;
  record.latency_high_ns *= scale;
  for (double& sample : record.samples_ns) sample *= scale;
  return seal(std::move(record));
}

/// Returns the record as a run would store it that asked for these layouts.
inline Record with_layouts(Record record, const std::string& layouts) {
  record.layouts = layouts;
  return seal(std::move(record));
}

inline Key key_of(const Record& record) {
  return {.workload = record.workload,
          .target = record.target,
          .device = record.device,
          .threads = record.threads,
          .codegen_abi = record.codegen_abi,
          .layouts = record.layouts};
}

/// A temporary folder, which the destructor removes.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "tw-db-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::string error_of(const auto& result) {
  return result ? std::string() : result.error().message;
}

/// Opens a store. Throws if it cannot be opened.
inline Store open_store(const std::string& path, OpenMode mode = OpenMode::ReadWrite,
                        StoreOptions options = {}) {
  Result<Store> store = Store::open(path, mode, std::move(options));
  if (!store) throw std::runtime_error(store.error().message);
  return std::move(*store);
}

/// Makes a database with these records, and closes it.
inline void make_database(const std::string& path, const std::vector<Record>& records) {
  Store store = open_store(path);
  const auto summary = store.append(records);
  if (!summary) throw std::runtime_error(summary.error().message);
}

inline std::set<std::string> hashes_of(const std::vector<Record>& records) {
  std::set<std::string> hashes;
  for (const Record& record : records) hashes.insert(record.hash);
  return hashes;
}

inline std::set<std::string> hashes_in(Store& store) {
  const auto records = store.query({});
  if (!records) throw std::runtime_error(records.error().message);
  return hashes_of(*records);
}

}  // namespace tw::db
