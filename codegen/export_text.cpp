// SPDX-License-Identifier: Apache-2.0
#include "codegen/export_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>
#include <vector>

#include "base/integer.h"
#include "base/result.h"
#include "base/text.h"
#include "codegen/abi.h"

namespace tw::codegen {
namespace {

using runtime::ArgumentInfo;
using runtime::KernelInfo;
using runtime::PhaseInfo;

constexpr size_t longest_export_name = 64;

/// Keywords of C and C++ that have the form of identifiers.
const std::set<std::string>& keywords() {
  static const std::set<std::string> words = [] {
    const std::vector<std::string> all = split(
        "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
        "char32_t char8_t class co_await co_return co_yield compl concept const const_cast "
        "consteval constexpr constinit continue decltype default delete do double dynamic_cast "
        "else enum explicit export extern false float for friend goto if inline int long "
        "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected "
        "public register reinterpret_cast requires restrict return short signed sizeof static "
        "static_assert static_cast struct switch template this thread_local throw true try "
        "typedef typeid typename typeof union unsigned using virtual void volatile wchar_t "
        "while xor xor_eq",
        ' ');
    return std::set<std::string>(all.begin(), all.end());
  }();
  return words;
}

bool is_identifier(std::string_view name) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) || c == '_'; };
  return !name.empty() && is_letter(name[0]) && std::ranges::all_of(name, [&](unsigned char c) {
    return is_letter(c) || std::isdigit(c);
  });
}

std::string upper_case(const std::string& name) {
  std::string text;
  for (const unsigned char c : name) text += static_cast<char>(std::toupper(c));
  return text;
}

/// True for names that the exported C source may itself define. Its own names outside of functions
/// and structures begin with tw_ or TW_, except `tilewright_for`, a type of the header.
bool is_of_source(const std::string& name) {
  return name.starts_with("tw_") || name.starts_with("TW_") || name == "tilewright_for";
}

/// Returns the names of the parameters. They are the names of the tensors, made valid and unique in
/// C: '_' replaces characters that C does not allow, "x" is put in front of a name that begins with
/// a digit or '_' or that the source defines itself, and '_' is added to keywords and to repeated
/// names.
std::vector<std::string> parameters_of(const KernelInfo& info, const std::string& function) {
  std::set<std::string> used = {"workspace", "run", "context", "arrays", function};
  std::vector<std::string> names;
  for (const ArgumentInfo& argument : info.arguments) {
    std::string name = argument.name;
    for (char& c : name)
      if (!is_identifier(std::string("x") + c)) c = '_';
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || name[0] == '_' ||
        is_of_source(name))
      name = "x" + name;
    while (keywords().contains(name) || !used.insert(name).second) name += '_';
    names.push_back(std::move(name));
  }
  return names;
}

std::string declared_parameters(const KernelInfo& info, const std::vector<std::string>& names) {
  std::vector<std::string> parameters;
  for (size_t i = 0; i < names.size(); ++i)
    parameters.push_back(fmt::format("{}{}* {}", info.arguments[i].is_output ? "" : "const ",
                                     info_of(info.arguments[i].dtype).in_c, names[i]));
  return join(parameters, ", ");
}

/// The layout of the working memory of an exported function: first scratch memory, then arguments
/// in the kernel's own layout, then the results of the preparation.
struct Workspace {
  std::vector<int64_t> offsets;  ///< one for each argument; -1: the caller's array is used as it is
  std::vector<int64_t> prepared;
  int64_t bytes = 0;
};

Workspace workspace_of(const KernelInfo& info) {
  Workspace workspace;
  const int64_t prepares = info.preparation ? info.preparation->scratch_bytes : 0;
  workspace.bytes = round_up(std::max(info.scratch_bytes, prepares), buffer_alignment);
  for (const ArgumentInfo& argument : info.arguments) {
    workspace.offsets.push_back(argument.pack.empty() ? -1 : workspace.bytes);
    if (!argument.pack.empty())
      workspace.bytes += round_up(runtime::storage_bytes(argument), buffer_alignment);
  }
  if (!info.preparation) return workspace;
  for (const ArgumentInfo& buffer : info.preparation->buffers) {
    workspace.prepared.push_back(workspace.bytes);
    workspace.bytes += round_up(runtime::storage_bytes(buffer), buffer_alignment);
  }
  return workspace;
}

/// Returns the text in a form that may stand in a comment or a string of C. A space separates the
/// characters that would end or begin a comment: "a */ b" becomes "a * / b".
std::string quotable(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const char last = safe.empty() ? ' ' : safe.back();
    if ((last == '*' && c == '/') || (last == '/' && c == '*')) safe += ' ';
    safe += c == '"' || c == '\\' || c == '\n' ? ' ' : c;
  }
  return safe;
}

std::string shown_type(const ArgumentInfo& argument) {
  return fmt::format("{}[{}]", to_string(argument.dtype), fmt::join(argument.shape, ", "));
}

std::string argument_lines(const KernelInfo& info, const std::vector<std::string>& names) {
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string lines;
  for (size_t i = 0; i < names.size(); ++i)
    lines += fmt::format(" *   {:<{}}  {:<6}  {}\n", names[i], width,
                         info.arguments[i].is_output ? "output" : "input",
                         shown_type(info.arguments[i]));
  return lines;
}

// ---- the source -----------------------------------------------------------------------------

// The part of the source that is the same for every kernel. It checks arguments. Then it calls
// packing kernels, phases and unpacking kernels in order. It also follows the calling convention of
// TVM-FFI; the structures of this convention are those of tvm/ffi/c_api.h and dlpack.h.
constexpr std::string_view source_of_every_kernel = R"c(
enum { TW_OK = 0, TW_INTERNAL = 1, TW_USAGE = 2, TW_INVALID = 5, TW_ENVIRONMENT = 7 };

struct tasks {
  const struct phase* phase;
  void* const* buffers;
  void* scratch;
};

static int32_t tw_run_task(void* data, int32_t task) {
  const struct tasks* const all = data;
  return all->phase->function(all->buffers, all->scratch, task);
}

static int32_t tw_run_phases(const struct phase* phases, int32_t count, void* const* buffers,
                          void* scratch, tilewright_for run, void* context) {
  for (int32_t i = 0; i < count; ++i) {
    struct tasks all = {&phases[i], buffers, scratch};
    int32_t failed = 0;
    if (run)
      failed = run(context, phases[i].tasks, tw_run_task, &all);
    else
      for (int32_t task = 0; task < phases[i].tasks && !failed; ++task)
        failed = tw_run_task(&all, task);
    if (failed) return TW_INTERNAL;
  }
  return TW_OK;
}

static int tw_overlap(const char* a, int64_t a_bytes, const char* b, int64_t b_bytes) {
  return (uintptr_t)a < (uintptr_t)b + (uintptr_t)b_bytes &&
         (uintptr_t)b < (uintptr_t)a + (uintptr_t)a_bytes;
}

/* The number of the first array that cannot be used; TW_ARGUMENTS: all can. */
static int32_t tw_first_wrong(void* const* arrays) {
  for (int32_t i = 0; i < TW_ARGUMENTS; ++i) {
    if (tw_arguments[i].bytes > 0 && !arrays[i]) return i;
    if ((uintptr_t)arrays[i] % (uintptr_t)tw_arguments[i].element_bytes != 0) return i;
    for (int32_t k = 0; k < TW_ARGUMENTS; ++k)
      if (k != i && tw_arguments[i].is_output && tw_arguments[i].bytes > 0 &&
          tw_arguments[k].bytes > 0 &&
          tw_overlap(arrays[i], tw_arguments[i].bytes, arrays[k], tw_arguments[k].bytes))
        return i;
  }
  return TW_ARGUMENTS;
}

static int32_t tw_convert(int32_t number, void* from, void* to, tilewright_for run, void* context) {
  void* const buffers[] = {from, to};
  const struct argument* const argument = &tw_arguments[number];
  return tw_run_phases(argument->pack, argument->pack_phases, buffers, 0, run, context);
}

/* Computes what the kernel reads of constants alone, behind its arguments. */
static int32_t tw_prepare(void** storage, char* memory, tilewright_for run, void* context) {
  void* buffers[TW_PREPARED_FROM + TW_PREPARED + 1];
  for (int32_t i = 0; i < TW_PREPARED_FROM; ++i) buffers[i] = storage[tw_prepared_from[i]];
  for (int32_t i = 0; i < TW_PREPARED; ++i)
    buffers[TW_PREPARED_FROM + i] = storage[TW_ARGUMENTS + i] = memory + tw_prepared[i];
  return tw_run_phases(tw_preparation, TW_PREPARATION_PHASES, buffers, memory, run, context);
}

static int32_t tw_run_on(void* const* arrays, char* memory, tilewright_for run, void* context) {
  void* storage[TW_ARGUMENTS + TW_PREPARED];
  for (int32_t i = 0; i < TW_ARGUMENTS; ++i) {
    storage[i] = tw_arguments[i].pack ? memory + tw_arguments[i].offset : arrays[i];
    if (!tw_arguments[i].pack || tw_arguments[i].is_output) continue;
    const int32_t status = tw_convert(i, arrays[i], storage[i], run, context);
    if (status) return status;
  }
  const int32_t unprepared = tw_prepare(storage, memory, run, context);
  if (unprepared) return unprepared;
  const int32_t status = tw_run_phases(tw_phases, TW_PHASES, storage, memory, run, context);
  if (status) return status;
  for (int32_t i = 0; i < TW_ARGUMENTS; ++i) {
    if (!tw_arguments[i].pack || !tw_arguments[i].is_output) continue;
    const int32_t unpacked = tw_convert(i, storage[i], arrays[i], run, context);
    if (unpacked) return unpacked;
  }
  return TW_OK;
}

static int32_t tw_call(void* const* arrays, void* workspace, tilewright_for run, void* context) {
  if (tw_first_wrong(arrays) != TW_ARGUMENTS || (uintptr_t)workspace % 64 != 0) return TW_USAGE;
  if (!tw_runs_here()) return TW_INVALID;
  void* owned = 0;
  if (TW_WORKSPACE_BYTES > 0 && !workspace) {
    workspace = owned = aligned_alloc(64, TW_WORKSPACE_BYTES);
    if (!owned) return TW_ENVIRONMENT;
  }
  const int32_t status = tw_run_on(arrays, workspace, run, context);
  free(owned);
  return status;
}

struct dl_tensor {
  char* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

struct ffi_any {
  int32_t type_index;
  uint32_t zero;
  void* value;
};

enum { TW_FFI_NONE = 0, TW_FFI_DL_TENSOR = 7, TW_FFI_TENSOR = 70, TW_FFI_OBJECT_BYTES = 24 };
enum { TW_DL_CPU = 1 };

__attribute__((weak)) void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);

static int tw_ffi_error(const char* kind, const char* message) {
  if (TVMFFIErrorSetRaisedFromCStr) TVMFFIErrorSetRaisedFromCStr(kind, message);
  return -1;
}

static const struct dl_tensor* tw_tensor_of(const struct ffi_any* any) {
  if (any->type_index == TW_FFI_DL_TENSOR) return any->value;
  if (any->type_index == TW_FFI_TENSOR)
    return (const void*)((const char*)any->value + TW_FFI_OBJECT_BYTES);
  return 0;
}

static int tw_fits(const struct dl_tensor* tensor, const struct argument* argument) {
  if (!tensor || tensor->device_type != TW_DL_CPU || tensor->ndim != argument->ndim) return 0;
  if (tensor->code != argument->code || tensor->bits != argument->bits || tensor->lanes != 1)
    return 0;
  int64_t stride = 1;
  for (int32_t d = argument->ndim - 1; d >= 0; --d) {
    if (tensor->shape[d] != argument->shape[d]) return 0;
    if (tensor->strides && tensor->shape[d] > 1 && tensor->strides[d] != stride) return 0;
    stride *= tensor->shape[d];
  }
  return 1;
}

static int tw_call_ffi(const struct ffi_any* given, int32_t count, struct ffi_any* result) {
  if (count != TW_ARGUMENTS) return tw_ffi_error("TypeError", tw_wrong_count);
  void* arrays[TW_ARGUMENTS];
  for (int32_t i = 0; i < TW_ARGUMENTS; ++i) {
    const struct dl_tensor* const tensor = tw_tensor_of(&given[i]);
    if (!tw_fits(tensor, &tw_arguments[i]))
      return tw_ffi_error("ValueError", tw_arguments[i].expected);
    arrays[i] = tensor->data + tensor->byte_offset;
  }
  const int32_t wrong = tw_first_wrong(arrays);
  if (wrong != TW_ARGUMENTS) return tw_ffi_error("ValueError", tw_arguments[wrong].expected);
  switch (tw_call(arrays, 0, 0, 0)) {
    case TW_OK:
      result->type_index = TW_FFI_NONE;
      result->zero = 0;
      result->value = 0;
      return 0;
    case TW_INVALID:
      return tw_ffi_error("RuntimeError", tw_wrong_machine);
    case TW_ENVIRONMENT:
      return tw_ffi_error("MemoryError", tw_no_memory);
    default:
      return tw_ffi_error("RuntimeError", tw_failed_kernel);
  }
}

#define TW_EXPORTED __attribute__((visibility("default")))
)c";

std::string declared_phases(const std::vector<PhaseInfo>& phases, const std::string& name) {
  std::string declarations, rows;
  for (const PhaseInfo& phase : phases) {
    declarations += fmt::format(
        "__attribute__((visibility(\"hidden\")))\n"
        "int32_t {}(void* const* buffers, void* scratch, int32_t task);\n",
        phase.symbol);
    rows += fmt::format("  {{{}, {}}},\n", phase.symbol, phase.tasks);
  }
  return fmt::format("{}static const struct phase {}[] = {{\n{}}};\n", declarations, name, rows);
}

std::string argument_row(const KernelInfo& info, size_t i, int64_t offset,
                         const std::string& name) {
  const ArgumentInfo& argument = info.arguments[i];
  const int code = static_cast<int>(info_of(argument.dtype).kind);  // DLPack's code of the type
  const int bits = 8 * size_bytes(argument.dtype);
  const bool packed = !argument.pack.empty();
  return fmt::format(
      "  {{\"{}: {} '{}': expected {}, row-major, aligned to its elements, in the processor's "
      "memory{}\",\n   {}, {}, {}, {}, {}, {}, {}, {}, tw_shape_{}, {}}},\n",
      name, argument.is_output ? "output" : "input", quotable(argument.name), shown_type(argument),
      argument.is_output ? ", apart from the other arrays" : "", runtime::logical_bytes(argument),
      offset, size_bytes(argument.dtype), packed ? fmt::format("tw_pack_{}", i) : "0",
      packed ? info.packs.at(argument.pack).size() : 0, argument.is_output ? 1 : 0, code, bits, i,
      argument.shape.size());
}

/// Returns the initialisers of an array of numbers. An empty list gives one 0, because C does not
/// allow an empty array.
std::string numbers(const auto& list) {
  return list.empty() ? "0" : fmt::format("{}", fmt::join(list, ", "));
}

std::string tables_of_preparation(const KernelInfo& info, const Workspace& workspace) {
  const runtime::PreparationInfo preparation =
      info.preparation.value_or(runtime::PreparationInfo());
  return (preparation.phases.empty() ? "static const struct phase tw_preparation[] = {{0, 0}};\n"
                                     : declared_phases(preparation.phases, "tw_preparation")) +
         fmt::format(
             "enum {{ TW_PREPARATION_PHASES = {}, TW_PREPARED_FROM = {}, TW_PREPARED = {} }};\n"
             "static const int32_t tw_prepared_from[] = {{{}}};\n"
             "static const int64_t tw_prepared[] = {{{}}};\n",
             preparation.phases.size(), preparation.inputs.size(), preparation.buffers.size(),
             numbers(preparation.inputs), numbers(workspace.prepared));
}

std::string tables_of(const KernelInfo& info, const std::string& name) {
  const Workspace workspace = workspace_of(info);
  std::string text =
      declared_phases(info.phases, "tw_phases") + tables_of_preparation(info, workspace);
  std::string rows;
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    const ArgumentInfo& argument = info.arguments[i];
    if (!argument.pack.empty())
      text += declared_phases(info.packs.at(argument.pack), fmt::format("tw_pack_{}", i));
    text +=
        fmt::format("static const int64_t tw_shape_{}[] = {{{}}};\n", i, numbers(argument.shape));
    rows += argument_row(info, i, workspace.offsets[i], name);
  }
  return text +
         fmt::format(
             "enum {{ TW_PHASES = {}, TW_ARGUMENTS = {} }};\n"
             "static const int64_t TW_WORKSPACE_BYTES = {};\n"
             "static const struct argument tw_arguments[] = {{\n{}}};\n"
             "static const char tw_wrong_count[] = \"{}: expected {} tensors, inputs first\";\n"
             "static const char tw_wrong_machine[] = \"{}: this processor lacks features that the "
             "kernel was compiled for\";\n"
             "static const char tw_no_memory[] = \"{}: no memory for {} bytes\";\n"
             "static const char tw_failed_kernel[] = \"{}: the kernel reports a failure\";\n",
             info.phases.size(), info.arguments.size(), workspace.bytes, rows, name,
             info.arguments.size(), name, name, workspace.bytes, name);
}

/// Returns the C compiler's name of a feature, given its name in Linux: "sse4_1" gives "sse4.1".
std::string compiler_name(const std::string& feature) {
  if (feature == "sse4_1") return "sse4.1";
  if (feature.starts_with("amx_")) return "amx-" + feature.substr(4);
  std::string name;
  std::ranges::copy_if(feature, std::back_inserter(name), [](char c) { return c != '_'; });
  return name;
}

// Linux allows tile registers only to a process that has asked for them. arch_prctl requests the
// permission for component 18 of the registers' state, which is the data of tile registers.
constexpr const char* tile_registers =
    "long syscall(long number, ...);\n"
    "static int tw_has_tile_registers(void) {\n"
    "  static _Atomic int has = -1;\n"
    "  if (has < 0) has = syscall(158, 0x1023, 18) == 0;\n"
    "  return has;\n"
    "}\n";

constexpr const char* arm_features = "unsigned long getauxval(unsigned long type);\n";

/// Returns the C condition under which an ARM processor has a feature. Linux reports features as
/// bits of AT_HWCAP (16) and AT_HWCAP2 (26), which <asm/hwcap.h> lists.
std::string arm_condition(const std::string& feature) {
  const auto bit = [](int type, int number) {
    return fmt::format("(getauxval({}) >> {} & 1)", type, number);
  };
  if (feature == "asimdhp") return bit(16, 10);
  if (feature == "asimddp") return bit(16, 20);
  if (feature == "sve") return bit(16, 22);
  TW_CHECK(feature == "sve2", "an unknown feature of ARM");
  return bit(26, 1);
}

std::string feature_check(const Target& target) {
  const bool is_arm = target.architecture == Architecture::Arm64;
  std::vector<std::string> conditions;
  for (const std::string& feature : target.features)
    conditions.push_back(
        is_arm ? arm_condition(feature)
               : fmt::format("__builtin_cpu_supports(\"{}\")", compiler_name(feature)));
  if (target.has("amx_tile")) conditions.push_back("tw_has_tile_registers()");
  return fmt::format("{}{}static int tw_runs_here(void) {{\n  return {};\n}}\n",
                     target.has("amx_tile") ? tile_registers : "", is_arm ? arm_features : "",
                     conditions.empty() ? "1" : join(conditions, " &&\n         "));
}

std::string exported_functions(const KernelInfo& info, const std::string& name) {
  const std::vector<std::string> names = parameters_of(info, name);
  const std::string parameters = declared_parameters(info, names);
  std::vector<std::string> casts;
  for (const std::string& parameter : names) casts.push_back("(void*)" + parameter);
  const std::string arrays = fmt::format("  void* const arrays[] = {{{}}};\n", join(casts, ", "));
  return fmt::format(
      "TW_EXPORTED int32_t {0}({1}) {{\n{2}  return tw_call(arrays, 0, 0, 0);\n}}\n\n"
      "TW_EXPORTED int32_t {0}_on({1}, void* workspace, tilewright_for run,\n"
      "                        void* context) {{\n{2}"
      "  return tw_call(arrays, workspace, run, context);\n}}\n\n"
      "TW_EXPORTED int __tvm_ffi_{0}(void* self, const struct ffi_any* given, int32_t count,\n"
      "                           struct ffi_any* result) {{\n"
      "  (void)self;\n  return tw_call_ffi(given, count, result);\n}}\n",
      name, parameters, arrays);
}

}  // namespace

Status check_export_name(const std::string& name) {
  if (is_identifier(name) && name.size() <= longest_export_name && name[0] != '_' &&
      !keywords().contains(name) && !is_of_source(name))
    return {};
  return fail(
      ErrorCode::Usage,
      fmt::format("[export] '{}' cannot name a function of C: expected at most {} letters, "
                  "digits and '_', a letter first, no keyword, and not tw_ at the beginning",
                  quotable(name), longest_export_name));
}

std::string export_header(const KernelInfo& info, const std::string& name) {
  const std::vector<std::string> names = parameters_of(info, name);
  const std::string parameters = declared_parameters(info, names), upper = upper_case(name);
  std::string text = fmt::format(
      "/* {0}: {1}\n"
      " * compiled by Tilewright ({2}) for {3}.\n"
      " *\n{4} *\n",
      name, quotable(info.workload), quotable(info.toolchain), quotable(info.target),
      argument_lines(info, names));
  text += fmt::format(
      R"( * Arrays are row-major and contiguous, and begin at a multiple of the size of an element.
 * Elements of f16 and bf16 are their bits. An output must not share memory with another array. The
 * functions may be called by several threads at once. They return
 *
 *   0  done
 *   1  the kernel reported a failure
 *   2  an array is null, misaligned, or an output that overlaps another one
 *   5  this processor lacks features that the kernel was compiled for
 *   7  there is no memory
 *
 * Outputs are unspecified after a failure. */
#ifndef TILEWRIGHT_KERNEL_{1}_H
#define TILEWRIGHT_KERNEL_{1}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef TILEWRIGHT_FOR
#define TILEWRIGHT_FOR
/* Calls body(data, i) once for each i in [0, count), in any order and on any threads, and returns
 * when all calls have: 0 if each returned 0, else another number. */
typedef int32_t (*tilewright_for)(void* context, int32_t count,
                                  int32_t (*body)(void* data, int32_t i), void* data);
#endif

/* Runs the kernel on the calling thread, in working memory that it allocates and frees. */
int32_t {1}({2});

#define {0}_WORKSPACE_BYTES {3}

/* The same in working memory of the caller's, {0}_WORKSPACE_BYTES aligned to 64 bytes, of which
 * each call at a time needs its own (NULL: allocated); and with the parallel loops of the kernel
 * run by run(context, ...) (NULL: on the calling thread). */
int32_t {1}_on({2}, void* workspace,
    tilewright_for run, void* context);

#ifdef __cplusplus
}}
#endif
#endif
)",
      upper, name, parameters, workspace_of(info).bytes);
  return text;
}

std::string export_source(const KernelInfo& info, const std::string& name, const Target& target) {
  return "#include <stdint.h>\n"
         "#include <stdlib.h>\n\n"
         "typedef int32_t (*tilewright_for)(void* context, int32_t count,\n"
         "                                  int32_t (*body)(void* data, int32_t i), void* data);\n"
         "struct phase {\n"
         "  int32_t (*function)(void* const* buffers, void* scratch, int32_t task);\n"
         "  int32_t tasks;\n"
         "};\n"
         "struct argument {\n"
         "  const char* expected;\n"
         "  int64_t bytes, offset, element_bytes;\n"
         "  const struct phase* pack;\n"
         "  int32_t pack_phases, is_output;\n"
         "  uint8_t code, bits;\n"
         "  const int64_t* shape;\n"
         "  int32_t ndim;\n"
         "};\n" +
         tables_of(info, name) + feature_check(target) + std::string(source_of_every_kernel) +
         exported_functions(info, name);
}

}  // namespace tw::codegen
