// SPDX-License-Identifier: Apache-2.0
#include "tools/standing_models.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/hash.h"
#include "base/stop.h"
#include "base/text.h"
#include "codegen/command.h"
#include "tools/flags/quote.h"
#include "tools/interrupts.h"

namespace tw::tools {
namespace {

namespace fs = std::filesystem;

// Limit on the time that a script may take to make a model. The largest model has half a gigabyte
// of weights.
constexpr int64_t making_timeout_ns = 600'000'000'000;

/// Returns the root of the checkout in which this program was built. The program lies in
/// build/<preset>/tools of the checkout.
fs::path checkout_of(const Surroundings& here) {
  return fs::path(here.program).parent_path().parent_path().parent_path().parent_path();
}

bool is_model_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z') || c == '_' || c == '-';
  });
}

/// Returns the last line of the message about a failed script. The message ends with the script's
/// standard error.
std::string last_line(const std::string& message) {
  const std::vector<std::string> lines = split(trim(message), '\n');
  return std::string(trim(lines.back()));
}

fs::path scripts_of(const Surroundings& here) { return checkout_of(here) / "bench" / "models"; }

/// Returns a hash of the names and contents of the scripts. The hash is part of the path of a
/// model's file, because changed scripts may make another network of the same name.
Result<std::string> hash_of_scripts(const std::string& model, const fs::path& scripts) {
  std::error_code error;
  std::map<std::string, std::string> contents;
  for (const fs::directory_entry& entry : fs::directory_iterator(scripts, error)) {
    if (entry.path().extension() != ".py") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    contents[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  if (contents.empty())
    return fail(ErrorCode::Environment,
                fmt::format("[model] {} is no file, and the script that makes standing models is "
                            "not beside this program: name an ONNX file",
                            shell_quoted(model)));
  std::string all;
  for (const auto& [name, content] : contents) all += sha256_hex(name) + sha256_hex(content);
  return short_hash(all);
}

/// Removes the files of this model (and of the same batch) that other versions of the scripts made.
void remove_others(const fs::path& path) {
  std::error_code ignored;
  const fs::path own = path.parent_path();
  for (const fs::directory_entry& entry : fs::directory_iterator(own.parent_path(), ignored))
    if (entry.path() != own) {
      fs::remove(entry.path() / path.filename(), ignored);
      fs::remove(entry.path(), ignored);  // fails unless the folder is empty
    }
}

/// Makes the file of a model. The script first writes a file with this process's ID in its name,
/// which is then renamed to `path`. So there is never an incomplete file at `path`, and two runs
/// never write to the same file.
Status make_model(const std::string& name, int64_t batch, const fs::path& path,
                  const Surroundings& here) {
  std::error_code ignored;
  const fs::path script = scripts_of(here) / "make_models.py";
  const fs::path own_python = checkout_of(here) / ".venv" / "bin" / "python";
  TW_RETURN_IF_ERROR(make_cache_directory(path.parent_path()));
  const std::string python = fs::exists(own_python, ignored) ? own_python.string() : "python3";
  const fs::path unfinished = fmt::format("{}.{}.unfinished", path.string(), getpid());
  const auto made = codegen::run_command(
      {python, script.string(), name, "--batch", std::to_string(batch), "-o", unfinished.string()},
      making_timeout_ns, stop_on_interrupt(&interrupts_so_far()));
  std::error_code error;
  if (!made) {
    fs::remove(unfinished, error);
    if (made.error().code == ErrorCode::Interrupted)
      return stopped(StopReason::Interrupted, "model");
    return fail(ErrorCode::Environment,
                fmt::format("[model] the standing model {} cannot be made: {}", shell_quoted(name),
                            last_line(made.error().message)));
  }
  fs::rename(unfinished, path, error);
  if (!error) {
    remove_others(path);
    return {};
  }
  return fail(ErrorCode::Environment, fmt::format("[model] {} cannot be written: {}",
                                                  shell_quoted(path.string()), error.message()));
}

}  // namespace

Result<OnnxFile> onnx_file_of(const std::string& model, std::map<std::string, int64_t> dimensions,
                              const PlaceFlags& place, const Surroundings& here) {
  std::error_code ignored;
  // A path of a folder or device file is returned too; the reader of ONNX files will say what is
  // wrong with it. But a name that a standing model could have always means the model, unless a
  // regular file has this name.
  if (fs::is_regular_file(model, ignored) || (!is_model_name(model) && fs::exists(model, ignored)))
    return OnnxFile{model, std::move(dimensions)};
  if (!is_model_name(model))
    return fail(ErrorCode::Environment,
                fmt::format("[model] there is no file {}", shell_quoted(model)));
  TW_RETURN_IF_ERROR(check_cache(place, here));
  const fs::path folder = cache_directory(place, here);
  TW_TRY(const std::string scripts, hash_of_scripts(model, scripts_of(here)));
  const auto given = dimensions.extract("batch");
  const int64_t batch = given.empty() ? 1 : given.mapped();
  const std::string suffix = batch == 1 ? ".onnx" : fmt::format("-batch{}.onnx", batch);
  const fs::path path = folder / "standing_models" / scripts / (model + suffix);
  if (!fs::is_regular_file(path, ignored)) TW_RETURN_IF_ERROR(make_model(model, batch, path, here));
  return OnnxFile{path.string(), std::move(dimensions)};
}

}  // namespace tw::tools
