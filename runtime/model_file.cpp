// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/integer.h"
#include "runtime/arena.h"
#include "runtime/arena_plan.h"
#include "runtime/model_check.h"
#include "runtime/private_file.h"
#include "runtime/sealed_header.h"

namespace tw::runtime {
namespace {

using Json = nlohmann::json;

constexpr std::string_view model_magic = "TWNETF03", magic_of_version_2 = "TWNETF02",
                           magic_of_version_1 = "TWNETF01";
constexpr int64_t most_model_header_bytes = int64_t{64} << 20;
constexpr int64_t constants_alignment = 4096;

constexpr std::pair<Place, std::string_view> place_names[] = {{Place::Input, "input"},
                                                              {Place::Output, "output"},
                                                              {Place::Constant, "constant"},
                                                              {Place::Arena, "arena"}};

tl::unexpected<Error> invalid_model(std::string message) {
  return fail(ErrorCode::Invalid, std::move(message));
}

std::string_view place_name(Place place) {
  for (const auto& [value, name] : place_names)
    if (value == place) return name;
  return "";
}

Result<Place> parse_place(std::string_view text) {
  for (const auto& [value, name] : place_names)
    if (name == text) return value;
  return invalid_model(fmt::format("'{}' is no place of a tensor", text));
}

Json tensor_json(const ModelTensor& tensor) {
  Json json = {{"name", tensor.name},   {"dtype", to_string(tensor.dtype)},
               {"shape", tensor.shape}, {"layout", tensor.layout},
               {"bytes", tensor.bytes}, {"place", place_name(tensor.place)},
               {"at", tensor.at}};
  const auto& [begin, advance, period] = tensor.slide;
  if (tensor.slide != Slide()) json["slide"] = {begin, advance, period};
  return json;
}

Json step_json(const ModelStep& step) {
  return {{"name", step.name},
          {"kernel", step.kernel},
          {"arguments", step.arguments},
          {"threads", step.threads},
          {"predicted_ns", step.predicted_ns}};
}

Json variant_json(const ModelVariant& variant) {
  Json json = {{"inputs", variant.inputs},
               {"outputs", variant.outputs},
               {"arena_bytes", variant.arena_bytes},
               {"plan", variant.plan},
               {"graph", variant.graph},
               {"loops", Json::array()},
               {"tensors", Json::array()},
               {"steps", Json::array()}};
  for (const ModelTensor& tensor : variant.tensors) json["tensors"].push_back(tensor_json(tensor));
  for (const ModelStep& step : variant.steps) json["steps"].push_back(step_json(step));
  for (const ModelLoop& loop : variant.loops)
    json["loops"].push_back(
        {{"name", loop.name}, {"first", loop.first}, {"count", loop.count}, {"trips", loop.trips}});
  for (const ModelBand& band : variant.bands)
    json["bands"].push_back({{"first", band.first}, {"chains", band.chains}});
  return json;
}

Json section_json(std::string_view bytes) {
  return {{"bytes", bytes.size()}, {"hash", sha256_hex(bytes)}};
}

Json model_json(const ModelFile& model, const std::vector<std::string>& kernels) {
  Json header = {{"name", model.name},
                 {"target", model.target},
                 {"codegen_abi", model.codegen_abi},
                 {"threads", model.threads},
                 {"variants", Json::array()},
                 {"kernels", Json::array()},
                 {"constants", section_json(model.constants)}};
  for (const ModelVariant& variant : model.variants)
    header["variants"].push_back(variant_json(variant));
  for (const std::string& kernel : kernels) header["kernels"].push_back(section_json(kernel));
  return header;
}

/// Returns the bytes of the file before the constants.
Result<std::string> head_of(const ModelFile& model) {
  TW_RETURN_IF_ERROR(check_model(model));
  std::vector<std::string> kernels;
  for (const Artifact& kernel : model.kernels) {
    TW_TRY(kernels.emplace_back(), artifact_bytes(kernel));
  }
  auto head = seal_header(model_magic, model_json(model, kernels));
  if (!head)
    return invalid_model(
        fmt::format("[model] a text of the network is not UTF-8 ({})", head.error().message));
  if (std::cmp_greater(head->size(), most_model_header_bytes))
    return invalid_model(fmt::format("[model] the header has {} bytes: expected at most {}",
                                     head->size(), most_model_header_bytes));
  for (const std::string& kernel : kernels) *head += kernel;
  head->resize(static_cast<size_t>(round_up(std::ssize(*head), constants_alignment)), '\0');
  if (std::cmp_greater(head->size() + model.constants.size(), most_model_bytes))
    return invalid_model(fmt::format("[model] the file has {} bytes: expected at most {}",
                                     head->size() + model.constants.size(), most_model_bytes));
  return head;
}

// The functions below, which read fields of a header, may throw exceptions of nlohmann::json.
// read_header() turns them into an error.

Result<ModelTensor> tensor_from(const Json& json) {
  ModelTensor tensor;
  TW_TRY(tensor.dtype, parse_dtype(json.at("dtype").get<std::string>()));
  TW_TRY(tensor.place, parse_place(json.at("place").get<std::string>()));
  json.at("name").get_to(tensor.name);
  tensor.shape = integers_from(json.at("shape"));
  json.at("layout").get_to(tensor.layout);
  tensor.bytes = integer_from(json.at("bytes"));
  tensor.at = integer_from(json.at("at"));
  if (json.contains("slide")) {
    const Json& slide = json.at("slide");
    tensor.slide = {integer_from(slide.at(0)), integer_from(slide.at(1)),
                    integer_from(slide.at(2))};
  }
  return tensor;
}

ModelStep step_from(const Json& json) {
  return {json.at("name").get<std::string>(), int_from(json.at("kernel")),
          ints_from(json.at("arguments")), int_from(json.at("threads")),
          json.at("predicted_ns").get<double>()};
}

Result<ModelVariant> variant_from(const Json& json) {
  ModelVariant variant;
  variant.inputs = ints_from(json.at("inputs"));
  variant.outputs = ints_from(json.at("outputs"));
  variant.arena_bytes = integer_from(json.at("arena_bytes"));
  json.at("plan").get_to(variant.plan);
  json.at("graph").get_to(variant.graph);
  for (const Json& entry : json.at("tensors")) {
    TW_TRY(variant.tensors.emplace_back(), tensor_from(entry));
  }
  for (const Json& entry : json.at("steps")) variant.steps.push_back(step_from(entry));
  if (json.contains("loops"))
    for (const Json& entry : json.at("loops"))
      variant.loops.push_back({entry.at("name").get<std::string>(), int_from(entry.at("first")),
                               int_from(entry.at("count")), integer_from(entry.at("trips"))});
  if (json.contains("bands"))
    for (const Json& entry : json.at("bands"))
      variant.bands.push_back({int_from(entry.at("first")), ints_from(entry.at("chains"))});
  return variant;
}

struct ModelHeader {
  ModelFile model;  ///< without kernels and constants
  std::vector<Section> kernels;
  Section constants;
};

/// Returns the variants in a header. In version 1 the fields of the only variant are fields of the
/// header itself.
Result<std::vector<ModelVariant>> variants_from(const Json& json, bool is_version_1) {
  std::vector<ModelVariant> variants;
  if (is_version_1) {
    TW_TRY(variants.emplace_back(), variant_from(json));
    return variants;
  }
  for (const Json& entry : json.at("variants")) {
    TW_TRY(variants.emplace_back(), variant_from(entry));
  }
  return variants;
}

Result<ModelHeader> model_header_from(const Json& json, bool is_version_1) {
  ModelHeader header;
  ModelFile& model = header.model;
  json.at("name").get_to(model.name);
  json.at("target").get_to(model.target);
  model.codegen_abi = integer_from(json.at("codegen_abi"));
  model.threads = int_from(json.at("threads"));
  TW_TRY(model.variants, variants_from(json, is_version_1));
  for (const Json& entry : json.at("kernels"))
    header.kernels.push_back(section_from(entry.at("bytes"), entry.at("hash")));
  const Json& constants = json.at("constants");
  header.constants = section_from(constants.at("bytes"), constants.at("hash"));
  return header;
}

/// Removes the zeros before the constants from `rest`. The constants begin in the file at a
/// multiple of constants_alignment.
Status take_padding(size_t file_bytes, std::string_view& rest) {
  const auto at = static_cast<int64_t>(file_bytes - rest.size());
  const auto bytes = static_cast<uint64_t>(round_up(at, constants_alignment) - at);
  TW_TRY(const std::string_view zeros, take_bytes("padding", bytes, rest));
  if (zeros.find_first_not_of('\0') == std::string_view::npos) return {};
  return invalid_model("the bytes before its constants are not zero");
}

struct ParsedModel {
  ModelFile model;  ///< without constants
  std::string_view constants;
};

Result<ParsedModel> checked_model(std::string_view bytes, Constants constants) {
  const bool is_version_1 = bytes.starts_with(magic_of_version_1);
  const std::string_view magic = is_version_1                            ? magic_of_version_1
                                 : bytes.starts_with(magic_of_version_2) ? magic_of_version_2
                                                                         : model_magic;
  TW_TRY(const std::string_view text, header_text(bytes, magic, most_model_header_bytes));
  ModelHeader header;
  TW_RETURN_IF_ERROR(read_header(text, [&](const Json& json) -> Status {
    TW_TRY(header, model_header_from(json, is_version_1));
    return {};
  }));
  std::string_view rest = bytes.substr(header_prefix_bytes + text.size());
  for (const Section& section : header.kernels) {
    const std::string name = fmt::format("kernel {}", header.model.kernels.size());
    TW_TRY(const std::string kernel, take_section(name, section, rest));
    TW_TRY(header.model.kernels.emplace_back(), parse_artifact(kernel));
  }
  TW_RETURN_IF_ERROR(take_padding(bytes.size(), rest));
  if (rest.size() != header.constants.bytes)
    return invalid_model(fmt::format("its constants have {} bytes, the header says {}", rest.size(),
                                     header.constants.bytes));
  if (constants == Constants::Checked)
    TW_RETURN_IF_ERROR(check_section("block of constants", rest, header.constants));
  TW_RETURN_IF_ERROR(find_defect(header.model, std::ssize(rest)));
  return ParsedModel{std::move(header.model), rest};
}

/// The arrays that steps write to the arena, with their lifetimes. A step reads the arrays that
/// were written last at the place of its tensor; check_model() ensures that these are the right
/// arrays. So an array can be found by its offset. Arrays that a step reads as one tensor are
/// joined to one array.
class ArenaArrays {
 public:
  /// write() records that run number `step` writes an array of `bytes` bytes at offset `begin`.
  /// read() records that run number `step` reads `bytes` bytes at offset `begin`.
  void write(int64_t begin, int64_t bytes, int step) {
    const int64_t end = begin + bytes;
    auto at = latest_.lower_bound(begin);
    if (at != latest_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != latest_.end() && at->first < end) at = latest_.erase(at);
    latest_[begin] = {lifetimes_.size(), end};
    joined_to_.push_back(lifetimes_.size());
    lifetimes_.push_back({bytes, step, step});
  }

  void read(int64_t begin, int64_t bytes, int step) {
    const auto first = std::prev(latest_.upper_bound(begin));  // a slice begins within its array
    const size_t array = whole_of(first->second.array);
    for (auto at = first; at != latest_.end() && at->first < begin + bytes; ++at)
      join(array, whole_of(at->second.array));
    lifetimes_[array].last = step;
  }

  std::vector<Lifetime> lifetimes() const {
    std::vector<Lifetime> wholes;
    for (size_t i = 0; i < lifetimes_.size(); ++i)
      if (joined_to_[i] == i) wholes.push_back(lifetimes_[i]);
    return wholes;
  }

 private:
  struct Latest {
    size_t array = 0;
    int64_t end = 0;  ///< offset after the array
  };

  size_t whole_of(size_t array) const {
    while (joined_to_[array] != array) array = joined_to_[array];
    return array;
  }

  void join(size_t whole, size_t part) {
    if (whole == part) return;
    joined_to_[part] = whole;
    lifetimes_[whole].bytes += lifetimes_[part].bytes;
    lifetimes_[whole].first = std::min(lifetimes_[whole].first, lifetimes_[part].first);
  }

  std::map<int64_t, Latest> latest_;  ///< arrays that do not overlap, by offset
  std::vector<Lifetime> lifetimes_;
  /// For each array, the index of the array that it was joined to; its own index if there is none.
  std::vector<size_t> joined_to_;
};

}  // namespace

Status check_targets(const ModelFile& model, const Target& machine) {
  TW_TRY(const Target target, parse_target(model.target));
  if (target.is_gpu()) return {};
  TW_RETURN_IF_ERROR(check_target(model.target, machine));
  for (const Artifact& kernel : model.kernels)
    TW_RETURN_IF_ERROR(check_target(kernel.info.target, machine));
  return {};
}

int64_t tensor_alignment(const Target& target) {
  return target.is_gpu() ? device_tensor_alignment : arena_alignment;
}

std::string show_inputs(const ModelVariant& variant) {
  std::vector<std::string> texts;
  for (const int input : variant.inputs) {
    const ModelTensor& tensor = variant.tensors[static_cast<size_t>(input)];
    texts.push_back(fmt::format("{} {}", tensor.name, tensor.shape));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

int64_t least_arena_bytes(const ModelFile& model, const ModelVariant& variant) {
  ArenaArrays arrays;
  int run = 0;
  const auto add = [&](size_t number, int64_t trip) -> Status {
    const ModelStep& step = variant.steps[number];
    const auto arguments = call_buffers(model.kernels[static_cast<size_t>(step.kernel)].info);
    for (size_t i = 0; i < arguments.size(); ++i) {
      const ModelTensor& tensor = variant.tensors[static_cast<size_t>(step.arguments[i])];
      if (tensor.place != Place::Arena || tensor.bytes == 0) continue;
      const int64_t at = tensor.at + tensor.slide.at(trip);
      if (arguments[i].is_output)
        arrays.write(at, tensor.bytes, run);
      else
        arrays.read(at, tensor.bytes, run);
    }
    ++run;
    return {};
  };
  TW_CHECK(for_each_run(variant, add), "no run fails");
  std::vector<Lifetime> lifetimes = arrays.lifetimes();
  // The arrays that the trips of a loop write lie one after another, without padding. So sizes are
  // rounded down to the alignment here, and the result stays a lower bound.
  if (!variant.loops.empty())
    for (Lifetime& lifetime : lifetimes) lifetime.bytes -= lifetime.bytes % arena_alignment;
  return least_arena_bytes(lifetimes);
}

Status check_model(const ModelFile& model) {
  const Status safe = find_defect(model, std::ssize(model.constants));
  if (safe) return {};
  return invalid_model(
      fmt::format("[model] the network '{}' cannot run: {}", model.name, safe.error().message));
}

Result<std::string> model_bytes(const ModelFile& model) {
  TW_TRY(std::string bytes, head_of(model));
  return bytes + model.constants;
}

Result<ModelFile> parse_model(std::string_view bytes) {
  auto parsed = checked_model(bytes, Constants::Checked);
  if (!parsed)
    return invalid_model(
        fmt::format("[model] the network cannot be used: {}", parsed.error().message));
  parsed->model.constants = parsed->constants;
  return std::move(parsed->model);
}

Status write_model(const std::string& path, const ModelFile& model) {
  TW_TRY(const std::string head, head_of(model));
  return replace_file(path, std::array<std::string_view, 2>{head, model.constants});
}

Result<MappedModel> map_model(const std::string& path, Trust trust, const Target& machine,
                              Constants constants) {
  TW_TRY(const PrivateFile file,
         open_private_file(path, trust == Trust::OwnOrRoot, most_model_bytes));
  TW_TRY(MappedFile mapped, MappedFile::map(file, path));
  auto parsed = checked_model(mapped.bytes(), constants);
  if (!parsed)
    return invalid_model(
        fmt::format("[model] '{}' cannot be used: {}; {}", path, parsed.error().message,
                    mapped.bytes().starts_with(kernel_magic_stem)
                        ? "it is a kernel: load it by Session::load() or tw_kernel_load()"
                        : "make one with `tilewright tune --model`"));
  TW_RETURN_IF_ERROR(check_targets(parsed->model, machine));
  return MappedModel{std::move(parsed->model), std::move(mapped), parsed->constants};
}

Result<ModelFile> read_model(const std::string& path, Trust trust, const Target& machine) {
  TW_TRY(MappedModel mapped, map_model(path, trust, machine));
  mapped.model.constants = mapped.constants;
  return std::move(mapped.model);
}

bool is_model_file(const std::string& path) {
  // With O_NONBLOCK, opening a FIFO does not wait for a process that writes to it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, model_magic.size()> begin = {};
  const std::string_view magic(begin.data(), begin.size());
  return file && ::read(file.get(), begin.data(), begin.size()) == std::ssize(begin) &&
         (magic == model_magic || magic == magic_of_version_2 || magic == magic_of_version_1);
}

}  // namespace tw::runtime
