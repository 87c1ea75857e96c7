// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "base/isa.h"
#include "db/store.h"
#include "db/workload_text.h"
#include "runtime/devices/device_target.h"

namespace tw::runtime {
namespace {

// Returns the text in single quotes. Within them a shell interprets only the closing quote.
std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// Returns the beginning of a command that works on the database and the cache of the session.
std::string command(std::string_view verb, const SessionOptions& options) {
  return fmt::format("tilewright {} --db {} --cache {}", verb, shell_quoted(options.database),
                     shell_quoted(options.cache));
}

std::string tune_command(const SessionOptions& options, const Target& target,
                         std::string_view workload) {
  const std::string machine = target.is_gpu() ? " --target " + target.to_string() : "";
  return fmt::format("{}{} --workload {}", command("tune", options), machine,
                     shell_quoted(workload));
}

/// Returns a command that compiles a record. It names the record by its hash, because the workload
/// alone does not say which record's layouts, threads and device are meant.
std::string compile_command(const SessionOptions& options, const db::Record& record) {
  return fmt::format("{} {}", command("compile", options), record.hash.substr(0, 16));
}

Status require_gpu(const SessionOptions& options) {
  if (options.gpu) return {};
  return fail(ErrorCode::Usage,
              "[session] it has no GPU: open it with one, or ask for a kernel of the processor");
}

/// Fails if no target matches the device, because then no records can exist for it.
Status require_targets(const std::vector<Target>& targets, const Device& gpu) {
  if (!targets.empty()) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("[session] no kernels are made for {}, which is {}", gpu.facts().name,
                          gpu.facts().architecture));
}

}  // namespace

struct Session::State {
  explicit State(SessionOptions given)
      : options(std::move(given)), pool(PoolOptions{.threads = options.threads}) {}

  /// Returns the best record of the workload. The record is for the first target that has a record
  /// and, for that target, for the first number of threads that has a record.
  Result<db::Record> best_record(std::string_view workload, const std::vector<Target>& targets,
                                 const std::vector<int>& threads);
  Result<Artifact> artifact_of(const db::Record& record) const;

  const SessionOptions options;
  ThreadPool pool;
  const std::shared_ptr<ArenaCache> arenas = std::make_shared<ArenaCache>();
  std::mutex mutex;  // guards the members below
  std::optional<db::Store> store;
  std::map<std::string, Kernel, std::less<>> kernels;
  std::map<std::string, DeviceKernel, std::less<>> device_kernels;
};

Result<db::Record> Session::State::best_record(std::string_view workload,
                                               const std::vector<Target>& targets,
                                               const std::vector<int>& threads) {
  if (!store)
    return fail(
        ErrorCode::NoCandidate,
        fmt::format("[session] no kernel for '{}': the session has no database; open it with one",
                    workload));
  const db::WorkloadName wanted = db::parse_workload_text(workload);
  for (const Target& target : targets)
    for (const int count : threads) {
      const bool is_named = !options.device.empty() || !target.is_gpu();
      const db::Key key{.workload = wanted.key,
                        .target = target.to_string(),
                        .device = is_named ? options.device : gpu_text(target),
                        .threads = count,
                        .codegen_abi = options.codegen_abi,
                        .layouts = wanted.layouts};
      TW_TRY(std::optional<db::Record> record, store->best(key));
      if (record) return std::move(*record);
    }
  return fail(ErrorCode::NoCandidate,
              fmt::format("[session] no record of '{}' for {} in '{}': if that is the key of a "
                          "workload, spelled as `tilewright tune --dry-run` prints it, tune it "
                          "with\n  {}",
                          workload, targets.front().to_string(), options.database,
                          tune_command(options, targets.front(), workload)));
}

Result<Artifact> Session::State::artifact_of(const db::Record& record) const {
  const std::string name =
      artifact_name(record.workload, record.schedule, record.target, record.codegen_abi);
  const std::string path = (std::filesystem::path(options.cache) / name).string();
  TW_TRY(const Target target, parse_target(record.target));
  const std::string remedy = compile_command(options, record);
  auto artifact = target.is_gpu() ? read_artifact_of_any_target(path, options.trust)
                                  : read_artifact(path, options.trust, options.machine);
  if (!artifact && artifact.error().code == ErrorCode::NotCompiled)
    return fail(
        ErrorCode::NotCompiled,
        fmt::format(
            "[session] '{}' is tuned but not compiled, expected '{}': compile it with\n  {}",
            db::workload_text(record), path, remedy));
  if (!artifact)
    return fail(artifact.error().code, fmt::format("{}\n  {}", artifact.error().message, remedy));
  const KernelInfo& info = artifact->info;
  if (info.workload != record.workload || info.schedule != record.schedule ||
      info.target != record.target || info.codegen_abi != record.codegen_abi)
    return fail(
        ErrorCode::Invalid,
        fmt::format("[session] '{}' holds another kernel than its name says, of '{}': expected "
                    "that of '{}'; compile it again with\n  {}",
                    path, info.workload, record.workload, remedy));
  return artifact;
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(SessionOptions options) {
  TW_RETURN_IF_ERROR(check_max_isa());
  if (!options.database.empty() && options.cache.empty())
    return fail(ErrorCode::Usage,
                fmt::format("[session] a database, '{}', and no cache given: expected also the "
                            "directory of its compiled kernels",
                            options.database));
  auto state = std::make_unique<State>(std::move(options));
  if (!state->options.database.empty()) {
    TW_TRY(state->store, db::Store::open(state->options.database, db::OpenMode::ReadOnly));
  }
  return Session(std::move(state));
}

Result<Kernel> Session::kernel(std::string_view workload) {
  const std::lock_guard lock(state_->mutex);
  if (const auto known = state_->kernels.find(workload); known != state_->kernels.end())
    return known->second;
  const int threads = state_->pool.threads();
  TW_TRY(const db::Record record,
         state_->best_record(workload, {state_->options.machine}, {threads, 1}));
  TW_TRY(Artifact artifact, state_->artifact_of(record));
  TW_TRY(Kernel kernel, Kernel::load(std::move(artifact), {.machine = state_->options.machine,
                                                           .arenas = state_->arenas,
                                                           .library = {}}));
  state_->kernels.emplace(workload, kernel);
  return kernel;
}

Result<Kernel> Session::load(const std::string& path) {
  TW_TRY(Artifact artifact, read_artifact(path, state_->options.trust, state_->options.machine));
  return Kernel::load(
      std::move(artifact),
      {.machine = state_->options.machine, .arenas = state_->arenas, .library = {}});
}

Result<Model> Session::model(const std::string& path) {
  return Model::open(path, {.machine = state_->options.machine,
                            .trust = state_->options.trust,
                            .device = state_->options.gpu});
}

Result<DeviceKernel> Session::device_kernel(std::string_view workload) {
  TW_RETURN_IF_ERROR(require_gpu(state_->options));
  const std::lock_guard lock(state_->mutex);
  if (const auto known = state_->device_kernels.find(workload);
      known != state_->device_kernels.end())
    return known->second;
  const std::shared_ptr<Device>& device = state_->options.gpu;
  std::vector<Target> targets = targets_of(device->facts());
  TW_RETURN_IF_ERROR(require_targets(targets, *device));
  for (Target& target : targets) target = with_facts(std::move(target), device->facts());
  TW_TRY(const db::Record record, state_->best_record(workload, targets, {1}));
  TW_TRY(Artifact artifact, state_->artifact_of(record));
  TW_TRY(DeviceKernel kernel, DeviceKernel::load(std::move(artifact), device));
  state_->device_kernels.emplace(workload, kernel);
  return kernel;
}

Result<DeviceKernel> Session::load_on_device(const std::string& path) {
  TW_RETURN_IF_ERROR(require_gpu(state_->options));
  TW_TRY(Artifact artifact, read_artifact_of_any_target(path, state_->options.trust));
  return DeviceKernel::load(std::move(artifact), state_->options.gpu);
}

const std::shared_ptr<Device>& Session::gpu() const { return state_->options.gpu; }

ThreadPool& Session::pool() { return state_->pool; }

}  // namespace tw::runtime
