// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/prediction_cache.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "cost_model/expected.h"
#include "runtime/private_file.h"

namespace tw::tuner {
namespace {

// A prediction takes half a kilobyte in the file, and a network has some hundred predictions.
constexpr int64_t most_file_bytes = int64_t{256} << 20;

struct Remembered {
  Predicted predicted;
  Precision precision = Precision::Full;
};
/// Predictions by the text of the workload and its limit of errors. A full prediction replaces a
/// rough one.
using Predictions = std::map<std::string, Remembered>;

/// Returns the text of the file. The first line is the SHA-256 of the rest, by which a damaged file
/// is recognised.
std::string encoded(const std::string& version, const Predictions& predictions) {
  nlohmann::json list = nlohmann::json::object();
  for (const auto& [workload, known] : predictions)
    list[workload] = {known.predicted.schedule, known.predicted.analytic_ns, known.predicted.hot_ns,
                      known.predicted.expected_ns, known.precision == Precision::Full};
  const std::string body =
      nlohmann::json{{"version", version}, {"predictions", std::move(list)}}.dump();
  return sha256_hex(body) + "\n" + body;
}

std::optional<Predictions> decoded(const std::string& bytes, const std::string& version) {
  const size_t end = bytes.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string body = bytes.substr(end + 1);
  if (bytes.substr(0, end) != sha256_hex(body)) return std::nullopt;
  const nlohmann::json file = nlohmann::json::parse(body, nullptr, false);
  if (!file.is_object() || file.value("version", "") != version) return std::nullopt;
  Predictions predictions;
  for (const auto& [workload, predicted] : file.at("predictions").items())
    predictions[workload] = {{predicted.at(0).get<std::string>(), predicted.at(1).get<double>(),
                              predicted.at(2).get<double>(), predicted.at(3).get<double>()},
                             predicted.at(4).get<bool>() ? Precision::Full : Precision::Rough};
  return predictions;
}

/// State of a search by dl_iterate_phdr(). `address` is an address in this code. `build_id` is the
/// SHA-256 of the build ID of the program or library that contains the address, once it is found.
struct OwnObject {
  uintptr_t address;
  std::string build_id = {};
};

std::string build_id_in_note(const char* note, size_t size) {
  constexpr size_t alignment = 4;
  const auto padded = [](size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  for (const char* end = note + size; note + sizeof(ElfW(Nhdr)) <= end;) {
    const auto* header = reinterpret_cast<const ElfW(Nhdr)*>(note);
    const char* name = note + sizeof *header;
    const char* content = name + padded(header->n_namesz);
    if (header->n_type == NT_GNU_BUILD_ID &&
        std::string_view(name, 4) == std::string_view("GNU", 4))
      return sha256_hex({content, header->n_descsz});
    note = content + padded(header->n_descsz);
  }
  return "";
}

int look_at_object(dl_phdr_info* object, size_t, void* data) {
  auto& own = *static_cast<OwnObject*>(data);
  bool has_code = false;
  std::string build_id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    has_code |= segment.p_type == PT_LOAD && own.address - begin < segment.p_memsz;
    if (segment.p_type == PT_NOTE && build_id.empty())
      build_id = build_id_in_note(reinterpret_cast<const char*>(begin), segment.p_memsz);
  }
  if (has_code) own.build_id = std::move(build_id);
  return has_code ? 1 : 0;
}

/// Returns a text that identifies the build of the program or library that contains this code.
std::string own_build_id() {
  OwnObject own{reinterpret_cast<uintptr_t>(&look_at_object)};
  dl_iterate_phdr(look_at_object, &own);
  TW_CHECK(!own.build_id.empty(), "linked without a build ID");
  return own.build_id;
}

}  // namespace

struct PredictionCache::State {
  const std::string path, version;
  std::mutex mutex;
  Predictions predictions;  ///< guarded by `mutex`, as is_changed
  bool is_changed = false;
};

PredictionCache PredictionCache::open(std::string path, std::string version) {
  auto state = std::make_shared<State>(std::move(path), std::move(version));
  if (!state->path.empty())
    if (const auto bytes = runtime::read_private_file(state->path, false, most_file_bytes))
      if (auto known = decoded(*bytes, state->version)) state->predictions = std::move(*known);
  return PredictionCache(std::move(state));
}

Predict PredictionCache::remembering(Predict predict, double most_error) const {
  const std::string within =
      std::isfinite(most_error) ? fmt::format(" within {:.3g}", most_error) : "";
  return [state = state_, predict = std::move(predict), within](
             const dsl::Workload& workload, Precision precision) -> Result<Predicted> {
    const std::string text = workload.text() + within;
    {
      const std::lock_guard lock(state->mutex);
      const auto known = state->predictions.find(text);
      if (known != state->predictions.end() &&
          (known->second.precision == Precision::Full || precision == Precision::Rough))
        return known->second.predicted;
    }
    TW_TRY(Predicted predicted, predict(workload, precision));
    const std::lock_guard lock(state->mutex);
    state->predictions.insert_or_assign(text, Remembered{predicted, precision});
    state->is_changed = true;
    return predicted;
  };
}

Status PredictionCache::write() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->path.empty() || !state_->is_changed) return {};
  TW_RETURN_IF_ERROR(
      runtime::replace_file(state_->path, encoded(state_->version, state_->predictions)));
  state_->is_changed = false;
  return {};
}

std::string predictor_version(const Target& target, int threads) {
  return fmt::format("{}; {}; {} threads; {}; code {}", target.to_string(),
                     to_string(target.machine), threads, cost_model::expectation_name(target),
                     own_build_id());
}

std::string predictions_file(const std::string& cache, const Target& target, int threads) {
  const std::string name = short_hash(fmt::format("{} {} threads", target.to_string(), threads));
  return (std::filesystem::path(cache) / fmt::format("predictions-{}.json", name)).string();
}

}  // namespace tw::tuner
