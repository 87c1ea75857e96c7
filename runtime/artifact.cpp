// SPDX-License-Identifier: Apache-2.0
#include "runtime/artifact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/integer.h"
#include "base/text.h"
#include "runtime/private_file.h"
#include "runtime/sealed_header.h"

namespace tw::runtime {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "TWARTF01";
constexpr int64_t kMaxHeaderBytes = 4 << 20;
constexpr int64_t kMaxObjectBytes = 256 << 20;
static_assert(most_artifact_bytes == header_prefix_bytes + kMaxHeaderBytes + kMaxObjectBytes);
constexpr int most_threads = 1024;  // most threads that a block may have on any GPU

tl::unexpected<Error> invalid(std::string message) {
  return fail(ErrorCode::Invalid, std::move(message));
}

bool is_identifier(std::string_view text) {
  if (text.empty() || text.size() > 255 || std::isdigit(static_cast<unsigned char>(text[0])))
    return false;
  for (const char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

Status check_phases(std::string_view what, const std::vector<PhaseInfo>& phases) {
  if (phases.empty()) return invalid(fmt::format("[artifact] {} has no phases", what));
  for (const PhaseInfo& phase : phases) {
    if (!is_identifier(phase.symbol))
      return invalid(fmt::format("[artifact] {}: '{}' is no symbol name: expected a C identifier",
                                 what, phase.symbol));
    if (phase.tasks < 0 || phase.tasks > std::numeric_limits<int32_t>::max())
      return invalid(fmt::format("[artifact] {}: phase '{}' has {} tasks: expected 0 to {}", what,
                                 phase.symbol, phase.tasks, std::numeric_limits<int32_t>::max()));
    if (phase.threads < 0 || phase.threads > most_threads || phase.shared_bytes < 0)
      return invalid(
          fmt::format("[artifact] {}: phase '{}' has {} threads and {} shared bytes: "
                      "expected 0 to {}, and 0 or more",
                      what, phase.symbol, phase.threads, phase.shared_bytes, most_threads));
    for (const TensorMap& map : phase.maps) {
      const Status valid = check_tensor_map(map);
      if (!valid)
        return invalid(fmt::format("[artifact] {}: phase '{}': {}", what, phase.symbol,
                                   valid.error().message));
    }
  }
  return {};
}

/// Checks that phases have a number of threads exactly if the target is a GPU, and tensor maps only
/// if it is a CUDA GPU.
Status check_threads(const std::vector<PhaseInfo>& phases, size_t buffers, const KernelInfo& info,
                     const Target& target) {
  for (const PhaseInfo& phase : phases)
    if ((phase.threads > 0) != target.is_gpu())
      return invalid(fmt::format("[artifact] phase '{}' has {} threads and the target is {}",
                                 phase.symbol, phase.threads, info.target));
  for (const PhaseInfo& phase : phases)
    for (const TensorMap& map : phase.maps)
      if (target.architecture != Architecture::Cuda || std::cmp_greater(map.argument, buffers))
        return invalid(
            fmt::format("[artifact] phase '{}' has a tensor map of argument {}: the "
                        "kernel is for {} and has {}",
                        phase.symbol, map.argument, info.target, buffers));
  return {};
}

/// True if the argument is an input of the preparation.
bool is_prepared_from(const KernelInfo& info, const ArgumentInfo& argument) {
  if (!info.preparation) return false;
  return std::ranges::any_of(info.preparation->inputs, [&](int input) {
    return input >= 0 && std::cmp_less(input, info.arguments.size()) &&
           info.arguments[static_cast<size_t>(input)].name == argument.name;
  });
}

Status check_argument(const ArgumentInfo& argument, const KernelInfo& info) {
  for (const int64_t extent : argument.shape)
    if (extent < 0)
      return invalid(fmt::format("[artifact] argument '{}' has the extent {}: expected 0 or more",
                                 argument.name, extent));
  const auto elements = checked_product(argument.shape);
  const int64_t element_bytes = size_bytes(argument.dtype);
  if (!elements || !checked_mul(*elements, element_bytes) || argument.storage_elements < 0 ||
      !checked_mul(argument.storage_elements, element_bytes))
    return invalid(fmt::format("[artifact] argument '{}' has a size that does not fit 64 bits",
                               argument.name));
  if (argument.layout.empty() ? argument.storage_elements != *elements
                              : argument.storage_elements < *elements)
    return invalid(
        fmt::format("[artifact] argument '{}' stores {} elements, its shape has {}: "
                    "expected the same, or a layout with more",
                    argument.name, argument.storage_elements, *elements));
  if (argument.only_prepares && (argument.is_output || !is_prepared_from(info, argument)))
    return invalid(
        fmt::format("[artifact] argument '{}' is read by the preparation only, which "
                    "does not list it",
                    argument.name));
  if (!argument.pack.empty() && !info.packs.contains(argument.pack))
    return invalid(fmt::format("[artifact] argument '{}' names the pack '{}': no such pack",
                               argument.name, argument.pack));
  return {};
}

Status check_arguments(const KernelInfo& info) {
  std::set<std::string> names;
  bool outputs_begun = false;
  for (const ArgumentInfo& argument : info.arguments) {
    if (argument.name.empty() || !names.insert(argument.name).second)
      return invalid(fmt::format("[artifact] two arguments are named '{}': expected distinct names",
                                 argument.name));
    if (outputs_begun && !argument.is_output)
      return invalid(fmt::format("[artifact] input '{}' follows an output: expected inputs first",
                                 argument.name));
    outputs_begun = argument.is_output;
    TW_RETURN_IF_ERROR(check_argument(argument, info));
  }
  if (!outputs_begun) return invalid("[artifact] the kernel has no output");
  return {};
}

Status check_scratch(int64_t bytes) {
  if (bytes >= 0 && bytes <= most_memory_bytes) return {};
  return invalid(
      fmt::format("[artifact] scratch_bytes is {}: expected 0 to {}", bytes, most_memory_bytes));
}

Status check_preparation(const KernelInfo& info, const Target& target) {
  const PreparationInfo& preparation = *info.preparation;
  TW_RETURN_IF_ERROR(check_scratch(preparation.scratch_bytes));
  TW_RETURN_IF_ERROR(check_phases("the preparation", preparation.phases));
  TW_RETURN_IF_ERROR(check_threads(
      preparation.phases, preparation.inputs.size() + preparation.buffers.size(), info, target));
  for (const int input : preparation.inputs)
    if (input < 0 || std::cmp_greater_equal(input, info.arguments.size()) ||
        info.arguments[static_cast<size_t>(input)].is_output)
      return invalid(
          fmt::format("[artifact] the preparation reads argument {}, which is no input", input));
  std::set<std::string> names;
  for (const ArgumentInfo& argument : info.arguments) names.insert(argument.name);
  for (const ArgumentInfo& buffer : preparation.buffers) {
    if (buffer.name.empty() || !names.insert(buffer.name).second || buffer.is_output ||
        buffer.only_prepares || !buffer.pack.empty())
      return invalid(
          fmt::format("[artifact] the prepared buffer '{}' is no buffer of its own", buffer.name));
    TW_RETURN_IF_ERROR(check_argument(buffer, info));
  }
  return {};
}

/// Checks the description, and that an artifact with PTX is for CUDA.
Status check_artifact(const Artifact& artifact) {
  TW_RETURN_IF_ERROR(check_info(artifact.info));
  TW_TRY(const Target target, parse_target(artifact.info.target));
  if (artifact.ptx.empty() || target.architecture == Architecture::Cuda) return {};
  return invalid(fmt::format("[artifact] PTX and the target {}: expected a GPU of NVIDIA's",
                             artifact.info.target));
}

Json phases_json(const std::vector<PhaseInfo>& phases) {
  Json list = Json::array();
  for (const PhaseInfo& phase : phases) {
    Json entry = {{"symbol", phase.symbol}, {"tasks", phase.tasks}};
    if (phase.threads > 0) {
      entry["threads"] = phase.threads;
      entry["shared_bytes"] = phase.shared_bytes;
    }
    if (phase.persistent) entry["persistent"] = true;
    for (const TensorMap& map : phase.maps)
      entry["maps"].push_back({{"argument", map.argument},
                               {"offset", map.offset},
                               {"dtype", to_string(map.type)},
                               {"extents", map.extents},
                               {"strides", map.strides},
                               {"box", map.box},
                               {"swizzle", map.swizzle}});
    list.push_back(std::move(entry));
  }
  return list;
}

Json arguments_json(const std::vector<ArgumentInfo>& arguments) {
  Json list = Json::array();
  for (const ArgumentInfo& argument : arguments) {
    list.push_back({{"name", argument.name},
                    {"dtype", to_string(argument.dtype)},
                    {"is_output", argument.is_output},
                    {"shape", argument.shape},
                    {"layout", argument.layout},
                    {"storage_elements", argument.storage_elements},
                    {"pack", argument.pack}});
    if (argument.only_prepares) list.back()["only_prepares"] = true;
  }
  return list;
}

Json info_json(const KernelInfo& info) {
  Json packs = Json::object();
  for (const auto& [name, phases] : info.packs) packs[name] = phases_json(phases);
  Json json = {{"workload", info.workload},
               {"schedule", info.schedule},
               {"target", info.target},
               {"toolchain", info.toolchain},
               {"codegen_abi", info.codegen_abi},
               {"arguments", arguments_json(info.arguments)},
               {"phases", phases_json(info.phases)},
               {"scratch_bytes", info.scratch_bytes},
               {"packs", packs},
               {"spills", info.spills},
               {"flops", info.flops}};
  if (info.preparation)
    json["preparation"] = {{"inputs", info.preparation->inputs},
                           {"buffers", arguments_json(info.preparation->buffers)},
                           {"phases", phases_json(info.preparation->phases)},
                           {"scratch_bytes", info.preparation->scratch_bytes}};
  return json;
}

/// oldest_abi is the oldest version of the kernel ABI that this runtime reads. abi_of() returns the
/// oldest version that has all features of the kernel. So older runtimes can read as many artifacts
/// as possible.
constexpr int oldest_abi = 2;
int abi_of(const KernelInfo& info) { return info.preparation ? kRuntimeAbi : oldest_abi; }

// The functions below, which read fields of a header, may throw exceptions of nlohmann::json.
// read_header() turns them into an error.
Result<TensorMap> map_from(const Json& json) {
  TensorMap map;
  TW_TRY(map.type, parse_dtype(json.at("dtype").get<std::string>()));
  map.argument = int_from(json.at("argument"));
  map.offset = integer_from(json.at("offset"));
  map.extents = integers_from(json.at("extents"));
  map.strides = integers_from(json.at("strides"));
  map.box = integers_from(json.at("box"));
  map.swizzle = int_from(json.at("swizzle"));
  return map;
}

Result<std::vector<PhaseInfo>> phases_from(const Json& json) {
  std::vector<PhaseInfo> phases;
  for (const Json& entry : json) {
    PhaseInfo& phase = phases.emplace_back();
    entry.at("symbol").get_to(phase.symbol);
    phase.tasks = integer_from(entry.at("tasks"));
    if (entry.contains("threads")) phase.threads = int_from(entry.at("threads"));
    if (entry.contains("shared_bytes")) phase.shared_bytes = integer_from(entry.at("shared_bytes"));
    phase.persistent = entry.value("persistent", false);
    if (!entry.contains("maps")) continue;
    for (const Json& map : entry.at("maps")) {
      TW_TRY(phase.maps.emplace_back(), map_from(map));
    }
  }
  return phases;
}

Result<ArgumentInfo> argument_from(const Json& json) {
  ArgumentInfo argument;
  TW_TRY(argument.dtype, parse_dtype(json.at("dtype").get<std::string>()));
  json.at("name").get_to(argument.name);
  json.at("is_output").get_to(argument.is_output);
  argument.shape = integers_from(json.at("shape"));
  json.at("layout").get_to(argument.layout);
  argument.storage_elements = integer_from(json.at("storage_elements"));
  json.at("pack").get_to(argument.pack);
  argument.only_prepares = json.value("only_prepares", false);
  return argument;
}

Result<std::vector<ArgumentInfo>> arguments_from(const Json& json) {
  std::vector<ArgumentInfo> arguments;
  for (const Json& item : json) {
    TW_TRY(arguments.emplace_back(), argument_from(item));
  }
  return arguments;
}

Result<PreparationInfo> preparation_from(const Json& json) {
  PreparationInfo preparation;
  preparation.inputs = ints_from(json.at("inputs"));
  preparation.scratch_bytes = integer_from(json.at("scratch_bytes"));
  TW_TRY(preparation.buffers, arguments_from(json.at("buffers")));
  TW_TRY(preparation.phases, phases_from(json.at("phases")));
  return preparation;
}

Result<KernelInfo> info_from(const Json& json) {
  KernelInfo info;
  json.at("workload").get_to(info.workload);
  json.at("schedule").get_to(info.schedule);
  json.at("target").get_to(info.target);
  json.at("toolchain").get_to(info.toolchain);
  info.codegen_abi = integer_from(json.at("codegen_abi"));
  info.scratch_bytes = integer_from(json.at("scratch_bytes"));
  info.spills = int_from(json.at("spills"));
  info.flops = integer_from(json.at("flops"));
  TW_TRY(info.phases, phases_from(json.at("phases")));
  for (const auto& [name, phases] : json.at("packs").items()) {
    TW_TRY(info.packs[name], phases_from(phases));
  }
  TW_TRY(info.arguments, arguments_from(json.at("arguments")));
  if (json.contains("preparation")) {
    TW_TRY(info.preparation, preparation_from(json.at("preparation")));
  }
  return info;
}

Json header_json(const Artifact& artifact) {
  Json header = {{"runtime_abi", abi_of(artifact.info)},
                 {"info", info_json(artifact.info)},
                 {"object_bytes", artifact.object.size()},
                 {"object_hash", sha256_hex(artifact.object)}};
  if (!artifact.ptx.empty()) {
    header["ptx_bytes"] = artifact.ptx.size();
    header["ptx_hash"] = sha256_hex(artifact.ptx);
  }
  return header;
}

struct Header {
  KernelInfo info;
  Section object;
  std::optional<Section> ptx;
};

Result<Header> header_from(const Json& json) {
  const int64_t abi = integer_from(json.at("runtime_abi"));
  if (abi < oldest_abi || abi > kRuntimeAbi)
    return invalid(
        fmt::format("its kernel ABI is version {}, this runtime's is {}", abi, kRuntimeAbi));
  Header header;
  TW_TRY(header.info, info_from(json.at("info")));
  if (abi < abi_of(header.info))
    return invalid(
        fmt::format("its kernel ABI is version {} and it has a preparation, which came "
                    "with version {}",
                    abi, kRuntimeAbi));
  const auto section = [&](const std::string& name) {
    return section_from(json.at(name + "_bytes"), json.at(name + "_hash"));
  };
  header.object = section("object");
  if (json.contains("ptx_bytes")) header.ptx = section("ptx");
  return header;
}

Result<Artifact> checked_artifact(std::string_view bytes) {
  TW_TRY(const std::string_view text, header_text(bytes, kMagic, kMaxHeaderBytes));
  Header header;
  TW_RETURN_IF_ERROR(read_header(text, [&](const Json& json) -> Status {
    TW_TRY(header, header_from(json));
    return {};
  }));
  std::string_view rest = bytes.substr(header_prefix_bytes + text.size());
  Artifact artifact;
  TW_TRY(artifact.object, take_section("object", header.object, rest));
  if (header.ptx) {
    TW_TRY(artifact.ptx, take_section("PTX", *header.ptx, rest));
  }
  if (!rest.empty())
    return invalid(fmt::format("its code has {} bytes more than the header says", rest.size()));
  artifact.info = std::move(header.info);
  TW_RETURN_IF_ERROR(check_artifact(artifact));
  return artifact;
}

}  // namespace

std::string artifact_name(std::string_view workload, std::string_view schedule,
                          std::string_view target, int64_t codegen_abi) {
  return short_hash(fmt::format("{}\n{}\n{}\n{}", workload, schedule, target, codegen_abi)) +
         ".twart";
}

Status check_info(const KernelInfo& info) {
  TW_RETURN_IF_ERROR(check_scratch(info.scratch_bytes));
  const auto target = parse_target(info.target);
  if (!target) return invalid(fmt::format("[artifact] {}", target.error().message));
  TW_RETURN_IF_ERROR(check_phases("the kernel", info.phases));
  const size_t prepared = info.preparation ? info.preparation->buffers.size() : 0;
  TW_RETURN_IF_ERROR(check_threads(info.phases, info.arguments.size() + prepared, info, *target));
  for (const auto& [name, phases] : info.packs)
    TW_RETURN_IF_ERROR(check_phases(fmt::format("pack '{}'", name), phases));
  TW_RETURN_IF_ERROR(check_arguments(info));
  return info.preparation ? check_preparation(info, *target) : Status{};
}

Status check_target(std::string_view target, const Target& machine) {
  TW_TRY(const Target wanted, parse_target(target));
  const auto missing = missing_features(wanted, machine);
  if (missing.empty()) return {};
  return invalid(
      fmt::format("[artifact] the kernel is for {} and this machine has no {}: compile it "
                  "for this machine with --target host",
                  target, join(missing, ", ")));
}

std::vector<ArgumentInfo> call_buffers(const KernelInfo& info) {
  std::vector<ArgumentInfo> buffers = info.arguments;
  if (info.preparation)
    buffers.insert(buffers.end(), info.preparation->buffers.begin(),
                   info.preparation->buffers.end());
  return buffers;
}

int64_t storage_bytes(const ArgumentInfo& argument) {
  return argument.storage_elements * size_bytes(argument.dtype);
}

int64_t logical_bytes(const ArgumentInfo& argument) {
  const auto elements = checked_product(argument.shape);
  TW_CHECK(elements, "check_info bounds shapes");
  return *elements * size_bytes(argument.dtype);
}

Result<std::string> artifact_bytes(const Artifact& artifact) {
  TW_RETURN_IF_ERROR(check_artifact(artifact));
  auto bytes = seal_header(kMagic, header_json(artifact));
  if (!bytes)
    return invalid(
        fmt::format("[artifact] a text of the kernel is not UTF-8 ({})", bytes.error().message));
  const auto header_bytes = static_cast<int64_t>(bytes->size() - header_prefix_bytes);
  const auto object_bytes = static_cast<int64_t>(artifact.object.size() + artifact.ptx.size());
  if (header_bytes > kMaxHeaderBytes || object_bytes > kMaxObjectBytes)
    return invalid(
        fmt::format("[artifact] the header has {} bytes and the code {}: expected at most "
                    "{} and {}",
                    header_bytes, object_bytes, kMaxHeaderBytes, kMaxObjectBytes));
  *bytes += artifact.object;
  *bytes += artifact.ptx;
  return bytes;
}

Result<Artifact> parse_artifact(std::string_view bytes) {
  auto artifact = checked_artifact(bytes);
  if (!artifact)
    return invalid(
        fmt::format("[artifact] the kernel cannot be used: {}", artifact.error().message));
  return artifact;
}

Status write_artifact(const std::string& path, const Artifact& artifact) {
  TW_TRY(const std::string bytes, artifact_bytes(artifact));
  return replace_file(path, bytes);
}

Result<Artifact> read_artifact_of_any_target(const std::string& path, Trust trust) {
  TW_TRY(const std::string bytes,
         read_private_file(path, trust == Trust::OwnOrRoot, most_artifact_bytes));
  auto artifact = checked_artifact(bytes);
  if (!artifact)
    return invalid(fmt::format("[artifact] '{}' cannot be used: {}; {}", path,
                               artifact.error().message,
                               bytes.starts_with(network_magic_stem)
                                   ? "it is a network: open it by Model::open() or tw_model_open()"
                                   : "compile it again"));
  return artifact;
}

Result<Artifact> read_artifact(const std::string& path, Trust trust, const Target& machine) {
  TW_TRY(Artifact artifact, read_artifact_of_any_target(path, trust));
  TW_RETURN_IF_ERROR(check_target(artifact.info.target, machine));
  return artifact;
}

}  // namespace tw::runtime
