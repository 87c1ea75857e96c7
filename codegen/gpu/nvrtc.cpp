// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "codegen/installation.h"

namespace tw::codegen {
namespace {

namespace fs = std::filesystem;

// Declarations of nvrtc.h, a header that only toolkits have. The declarations have been the same
// since CUDA 11.
using NvrtcProgram = struct NvrtcProgramState*;
enum class Code : int { Success = 0, InvalidOption = 5, Compilation = 6 };

#define TW_NVRTC_FUNCTIONS(X)                                                                   \
  X(nvrtcGetErrorString, const char*, Code)                                                     \
  X(nvrtcVersion, Code, int*, int*)                                                             \
  X(nvrtcGetNumSupportedArchs, Code, int*)                                                      \
  X(nvrtcGetSupportedArchs, Code, int*)                                                         \
  X(nvrtcCreateProgram, Code, NvrtcProgram*, const char*, const char*, int, const char* const*, \
    const char* const*)                                                                         \
  X(nvrtcDestroyProgram, Code, NvrtcProgram*)                                                   \
  X(nvrtcCompileProgram, Code, NvrtcProgram, int, const char* const*)                           \
  X(nvrtcGetCUBINSize, Code, NvrtcProgram, size_t*)                                             \
  X(nvrtcGetCUBIN, Code, NvrtcProgram, char*)                                                   \
  X(nvrtcGetPTXSize, Code, NvrtcProgram, size_t*)                                               \
  X(nvrtcGetPTX, Code, NvrtcProgram, char*)                                                     \
  X(nvrtcGetProgramLogSize, Code, NvrtcProgram, size_t*)                                        \
  X(nvrtcGetProgramLog, Code, NvrtcProgram, char*)

struct Functions {
#define X(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  TW_NVRTC_FUNCTIONS(X)
#undef X
};

Status find_functions(void* library, const std::string& path, Functions& functions) {
#define X(name, ...)                                                                  \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (functions.name == nullptr)                                                      \
    return fail(ErrorCode::Environment,                                               \
                fmt::format("[nvrtc] {} has no " #name ": expected CUDA 12 or later", path));
  TW_NVRTC_FUNCTIONS(X)
#undef X
  return {};
}

/// True if the directory belongs to this user or to root, and not everybody may write to it. The
/// check is needed because libraries in the directory are executed.
bool is_trusted(const fs::path& directory) {
  struct stat info = {};
  return ::stat(directory.c_str(), &info) == 0 &&
         (info.st_uid == 0 || info.st_uid == ::geteuid()) && (info.st_mode & S_IWOTH) == 0;
}

/// Adds the folder into which PyPI's package installs NVRTC, if the directory `site_packages` has
/// it.
void add_package(const fs::path& site_packages, std::vector<std::string>& places) {
  std::error_code error;
  const fs::path place = site_packages / "nvidia" / "cu13" / "lib";
  if (fs::is_directory(place, error)) places.push_back(place.string());
}

/// Adds NVRTC's folder of the virtual environment .venv in this directory, if there is one.
void add_environment(const fs::path& directory, std::vector<std::string>& places) {
  std::error_code error;
  if (!is_trusted(directory / ".venv")) return;
  for (const auto& python : fs::directory_iterator(directory / ".venv" / "lib", error))
    add_package(python.path() / "site-packages", places);
}

/// Adds NVRTC's folders for a file of this project. A file of an installed wheel is in
/// site-packages, beside the packages of NVIDIA. Whoever may write there may also write the file.
void add_near(const fs::path& file, std::vector<std::string>& places) {
  for (fs::path at = file.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    if (at.filename() == "site-packages" || at.filename() == "dist-packages")
      add_package(at, places);
    add_environment(at, places);
  }
}

// Opens libnvrtc-builtins in the directory `place`. NVRTC asks the loader for this library by its
// bare name. If the loader does not search the directory, it finds the library only if it is
// already open.
void open_builtins(const std::string& place) {
  std::error_code error;
  for (const auto& file : fs::directory_iterator(place, error))
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so."))
      dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Opens the library and returns its handle, or null if no place has it. The library is never
/// closed, because it has threads of its own.
void* open_library(const std::vector<std::string>& places, std::string& path, std::string& reason) {
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"})
    for (const std::string& place : places) {
      path = place.empty() ? name : place + "/" + name;
      std::error_code ignored;
      if (!place.empty() && !fs::exists(path, ignored)) continue;
      if (!place.empty()) open_builtins(place);
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      reason = dlerror();
    }
  return nullptr;
}

/// Returns the number before `unit` in a line such as "Used 18 registers"; 0 if there is none.
int64_t number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  const std::vector<std::string> before = words(line.substr(0, end));
  return before.empty() ? 0 : parse_int(before.back()).value_or(0);
}

/// Returns up to six lines of the log, from the first error on; empty if there is no error. ptxas
/// calls some errors fatal.
std::string first_errors(std::string_view log) {
  const size_t error = std::min(log.find("error"), log.find("fatal"));
  if (error == std::string_view::npos) return {};
  const size_t line = log.rfind('\n', error);
  return first_lines(log.substr(line == std::string_view::npos ? 0 : line), 6);
}

/// Returns the names of the architectures with these numbers, because the library lists only
/// numbers. From sm_90 on, an architecture also has a variant with the suffix "a", which has
/// features that no other architecture has. From sm_100 on there is also the suffix "f", for
/// features of the family.
std::vector<std::string> architecture_names(const std::vector<int>& numbers) {
  std::vector<std::string> names;
  for (int number : numbers) {
    names.push_back(fmt::format("sm_{}", number));
    if (number >= 90) names.push_back(fmt::format("sm_{}a", number));
    if (number >= 100) names.push_back(fmt::format("sm_{}f", number));
  }
  return names;
}

/// One run of the compiler: a program object of NVRTC and its results.
class Compilation {
 public:
  Compilation(const Functions& functions, const std::string& text) : functions_(functions) {
    code_ = functions.nvrtcCreateProgram(&program_, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
  }
  Compilation(const Compilation&) = delete;
  ~Compilation() { functions_.nvrtcDestroyProgram(&program_); }

  Code run(const std::string& architecture, bool verbose) {
    if (code_ != Code::Success) return code_;
    const std::string target = "--gpu-architecture=" + architecture;
    const std::array options = {target.c_str(), "-default-device", "--std=c++17",
                                "--ptxas-options=-v"};
    const size_t count = options.size() - (verbose ? 0 : 1);
    return functions_.nvrtcCompileProgram(program_, static_cast<int>(count), options.data());
  }

  std::string log() const {
    return get(functions_.nvrtcGetProgramLogSize, functions_.nvrtcGetProgramLog).c_str();
  }
  std::string cubin() const { return get(functions_.nvrtcGetCUBINSize, functions_.nvrtcGetCUBIN); }
  /// Returns the PTX without the terminating 0, which NVRTC includes in its size.
  std::string ptx() const {
    return get(functions_.nvrtcGetPTXSize, functions_.nvrtcGetPTX).c_str();
  }

 private:
  std::string get(Code (*size)(NvrtcProgram, size_t*), Code (*copy)(NvrtcProgram, char*)) const {
    size_t bytes = 0;
    if (size(program_, &bytes) != Code::Success) return {};
    std::string content(bytes, '\0');
    return copy(program_, content.data()) == Code::Success ? content : std::string();
  }

  const Functions& functions_;
  NvrtcProgram program_ = nullptr;
  Code code_;
};

/// Returns the error of a failed compilation. With -v, ptxas prints statistics in place of errors.
/// So if the log has no error, the text is compiled again without -v.
Error failure(const Functions& functions, const std::string& text, const std::string& architecture,
              Code code, const Compilation& failed) {
  if (code != Code::Compilation)
    return {ErrorCode::Unsupported,
            fmt::format("[nvrtc] {}: {}", functions.nvrtcGetErrorString(code),
                        first_lines(failed.log(), 6))};
  std::string errors = first_errors(failed.log());
  if (errors.empty()) {
    Compilation terse(functions, text);
    terse.run(architecture, false);
    errors = first_errors(terse.log());
  }
  return {ErrorCode::Invalid,
          fmt::format("[nvrtc] the text does not compile for {}: {}", architecture, errors)};
}

}  // namespace

struct Nvrtc::Library {
  Functions functions;
  std::string path;
  int version = 0;
  std::vector<std::string> architectures;
};

std::vector<std::string> nvrtc_places(const OwnFiles& files) {
  std::vector<std::string> places = {"", "/usr/local/cuda/lib64"};
  for (const auto& file : {files.library, files.program})
    if (file) add_near(*file, places);
  add_environment(checkout_directory(), places);
  return places;
}

Result<Nvrtc> Nvrtc::open(const NvrtcOptions& options) {
  std::vector<std::string> places = options.directories;
  if (options.usual_places)
    for (std::string& place : nvrtc_places()) places.push_back(std::move(place));
  std::string path, reason = "no directory has it";
  void* handle = open_library(places, path, reason);
  if (handle == nullptr)
    return fail(ErrorCode::Environment,
                fmt::format("[nvrtc] libnvrtc.so.13, which compiles for CUDA, cannot be opened "
                            "({}): install the Python package 'cuda-toolkit[nvrtc,cudart]==13.0.*' "
                            "beside this one or into .venv, or set CUDA_HOME to a CUDA toolkit",
                            reason));
  auto library = std::make_shared<Library>();
  library->path = path;
  TW_RETURN_IF_ERROR(find_functions(handle, path, library->functions));
  int major = 0, minor = 0, count = 0;
  library->functions.nvrtcVersion(&major, &minor);
  library->version = 1000 * major + 10 * minor;
  library->functions.nvrtcGetNumSupportedArchs(&count);
  std::vector<int> numbers(static_cast<size_t>(count));
  library->functions.nvrtcGetSupportedArchs(numbers.data());
  library->architectures = architecture_names(numbers);
  return Nvrtc(std::move(library));
}

const std::string& Nvrtc::path() const { return library_->path; }
int Nvrtc::version() const { return library_->version; }
const std::vector<std::string>& Nvrtc::architectures() const { return library_->architectures; }

Result<CudaCode> Nvrtc::compile(const std::string& text, const std::string& architecture,
                                bool ptx) const {
  if (!std::ranges::count(architectures(), architecture))
    return fail(ErrorCode::Unsupported,
                fmt::format("[nvrtc] CUDA {}.{} does not compile for '{}', expected one of {}",
                            version() / 1000, version() % 1000 / 10, architecture,
                            join(architectures(), ", ")));
  Compilation compilation(library_->functions, text);
  if (const Code code = compilation.run(architecture, true); code != Code::Success)
    return tl::unexpected(failure(library_->functions, text, architecture, code, compilation));
  CudaCode result;
  result.code = {architecture, compilation.cubin(), ptx ? compilation.ptx() : "", version()};
  result.functions = parse_ptxas_log(compilation.log());
  result.advice = parse_ptxas_advice(compilation.log());
  if (result.code.binary.empty())
    return fail(ErrorCode::Internal, "[nvrtc] the compiler succeeded and gave no binary");
  return result;
}

// A line of the log:
//   ptxas info    : (C7517) warpgroup.wait is injected in around line 62 by compiler ...
std::vector<std::string> parse_ptxas_advice(std::string_view log) {
  constexpr std::string_view mark = "(C7";
  std::vector<std::string> advice;
  std::set<std::string> codes;
  for (const std::string& line : split(log, '\n')) {
    const size_t begin = line.find(mark), end = line.find(')', begin);
    if (begin == std::string::npos || end == std::string::npos) continue;
    const std::string code = line.substr(begin + 1, end - begin - 1);
    if (codes.insert(code).second)
      advice.push_back(fmt::format("{}:{}", code, line.substr(end + 1)));
  }
  return advice;
}

bool is_loss(std::string_view advice) {
  // C7519 says that instructions overlap less than they could, but still overlap.
  return advice.find("Potential Performance Loss") != std::string_view::npos &&
         !advice.starts_with("C7519");
}

// Lines of the log:
//   ptxas info    : Compiling entry function 'f_p0' for 'sm_90a'
//   ptxas info    : Function properties for f_p0
//   ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 72 registers, used 1 barriers, 512 bytes smem
std::vector<CudaFunctionFacts> parse_ptxas_log(std::string_view log) {
  constexpr std::string_view entry = "Compiling entry function '";
  std::vector<CudaFunctionFacts> functions;
  for (const std::string& line : split(log, '\n')) {
    if (const size_t at = line.find(entry); at != std::string::npos) {
      const size_t name = at + entry.size();
      functions.push_back({.name = line.substr(name, line.find('\'', name) - name)});
    }
    if (functions.empty()) continue;
    CudaFunctionFacts& function = functions.back();
    if (line.find("bytes stack frame") != std::string::npos) {
      function.stack_bytes = number_before(line, " bytes stack frame");
      function.spill_store_bytes = number_before(line, " bytes spill stores");
      function.spill_load_bytes = number_before(line, " bytes spill loads");
    }
    if (line.find("Used ") != std::string::npos) {
      function.registers = static_cast<int>(number_before(line, " registers"));
      function.shared_bytes = number_before(line, " bytes smem");
    }
  }
  return functions;
}

}  // namespace tw::codegen
