// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "codegen/abi.h"
#include "codegen/c_emitter.h"
#include "codegen/command.h"
#include "codegen/cpu_codegen.h"
#include "codegen/link.h"
#include "runtime/library.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::codegen {
namespace {

using schedules::Argument;
using schedules::Buffer;
using PhaseFunction = int32_t(void* const*, void*, int32_t);

struct Folder {
  std::string path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tw_codegen_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

Storage inputs_from(const Program& program, uint64_t seed, bool reals) {
  Random random(seed);
  Storage storage;
  for (const Argument& argument : program.arguments) {
    if (argument.is_output || argument.prepared) continue;
    const Buffer& b = argument.buffer;
    auto& bytes = storage[b.name];
    bytes.resize(static_cast<size_t>(b.bytes()));
    for (int64_t i = 0; i < b.elements(); ++i) {
      const int64_t whole =
          b.type == UInt8 || b.type == Bool ? random.below(4) : random.below(7) - 3;
      if (is_float(b.type)) {
        store_float(b.type, bytes.data(), i,
                    reals ? 4 * random.unit() - 2 : static_cast<double>(whole));
      } else {
        store_int(b.type, bytes.data(), i, whole);
      }
    }
  }
  return storage;
}

/// Returns the source of a main() that reads each input from a file, runs all tasks and writes each
/// output. Buffers have exactly the needed size, so that sanitizers find accesses beyond their
/// ends.
std::string main_for(const Program& program) {
  std::string text =
      "#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char** argv) {\n"
      "  FILE* in = fopen(argv[1], \"rb\");\n  FILE* out = fopen(argv[2], \"wb\");\n"
      "  int32_t task;\n";
  std::string pointers, save;
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const int64_t bytes = program.arguments[i].buffer.bytes();
    // A layout may add elements to an output, which need not be written. They are zero, as in the
    // interpreter.
    const bool is_rounded = !program.arguments[i].layout.is_row_major();
    text += fmt::format("  void* b{} = {}{});\n", i, is_rounded ? "calloc(1, " : "malloc(", bytes);
    pointers += fmt::format("{}b{}", i ? ", " : "", i);
    if (program.arguments[i].is_output) {
      save += fmt::format("  fwrite(b{}, 1, {}, out);\n", i, bytes);
    } else {
      text += fmt::format("  if (fread(b{0}, 1, {1}, in) != {1}) return 2;\n", i, bytes);
    }
  }
  text += fmt::format("  void* buffers[] = {{{}}};\n  void* scratch = aligned_alloc(64, {});\n",
                      pointers, std::max<int64_t>(64, scratch_layout(program).bytes));
  for (size_t i = 0; i < program.phases.size(); ++i)
    text += fmt::format(
        "  for (task = 0; task < {}; ++task) if (k_p{}(buffers, scratch, task)) return 3;\n",
        program.phases[i].tasks(), i);
  text += save;
  for (size_t i = 0; i < program.arguments.size(); ++i) text += fmt::format("  free(b{});\n", i);
  return text + "  free(scratch);\n  fclose(in);\n  return fclose(out) || argc != 3;\n}\n";
}

void write_inputs(const Program& program, const Storage& inputs, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const Argument& argument : program.arguments) {
    if (argument.is_output) continue;
    const auto& bytes = inputs.at(argument.buffer.name);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
}

Storage read_outputs(const Program& program, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Storage outputs;
  for (const Argument& argument : program.arguments) {
    if (!argument.is_output) continue;
    auto& bytes = outputs[argument.buffer.name];
    bytes.resize(static_cast<size_t>(argument.buffer.bytes()));
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  return outputs;
}

/// Returns the inputs together with the results of the preparation, which `run` computes from them.
template <typename Run>
Result<Storage> with_prepared(const Program& program, const Storage& inputs, const Run& run) {
  Storage all = inputs;
  if (!program.preparation) return all;
  TW_TRY(Storage prepared, run(*program.preparation, inputs));
  all.merge(prepared);
  return all;
}

}  // namespace

Storage integer_inputs(const Program& program, uint64_t seed) {
  return inputs_from(program, seed, false);
}
Storage real_inputs(const Program& program, uint64_t seed) {
  return inputs_from(program, seed, true);
}

Result<Storage> run_c(const Program& program, const Storage& given) {
  TW_TRY(const Storage inputs, with_prepared(program, given, run_c));
  TW_TRY(const std::string source, emit_c(program, "k"));
  const Folder folder;
  const auto path = [&](const char* file) { return folder.path + "/" + file; };
  std::ofstream(path("k.c")) << source << main_for(program);
  TW_TRY(
      const std::string compiled,
      // gcc warns of uninitialized elements, as it misses that two conditions exclude each other.
      run_command({"cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-maybe-uninitialized",
                   "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", path("k.c"),
                   "-o", path("k"), "-lm"},
                  60'000'000'000));
  write_inputs(program, inputs, path("in"));
  TW_TRY(const std::string ran, run_command({path("k"), path("in"), path("out")}, 60'000'000'000));
  return read_outputs(program, path("out"));
}

Result<Storage> run_arm(const Program& program, const Storage& given, const std::string& name) {
  TW_TRY(const Storage inputs,
         with_prepared(program, given, [&](const Program& preparation, const Storage& constants) {
           return run_arm(preparation, constants, name);
         }));
  TW_TRY(const Target target, parse_target(name));
  const NamedProgram named{"k", &program};
  TW_TRY(const CompiledObjects compiled, compile_cpu({&named, 1}, target));
  TW_RETURN_IF_ERROR(compiled.programs[0]);
  const Folder folder;
  const auto path = [&](const char* file) { return folder.path + "/" + file; };
  std::ofstream(path("k.o"), std::ios::binary) << compiled.object;
  std::ofstream main(path("main.c"));
  main << "#include <stdint.h>\n";
  for (size_t i = 0; i < program.phases.size(); ++i)
    main << fmt::format("int32_t k_p{}(void* const*, void*, int32_t);\n", i);
  main << main_for(program);
  main.close();
  TW_TRY(const std::string linked, run_command({"aarch64-linux-gnu-gcc", "-static", path("main.c"),
                                                path("k.o"), "-o", path("k")},
                                               60'000'000'000));
  write_inputs(program, inputs, path("in"));
  TW_TRY(const std::string ran,
         run_command({"qemu-aarch64", "-cpu", "max", path("k"), path("in"), path("out")},
                     60'000'000'000));
  return read_outputs(program, path("out"));
}

std::vector<Target> runnable_targets() {
  std::vector<Target> targets = {host_target()};
  for (const char* name : {"x86-64-v3", "x86-64-linux-sse4_1"}) {
    const Target narrower = *parse_target(name);
    if (missing_features(narrower, targets[0]).empty()) targets.push_back(narrower);
  }
  return targets;
}

Storage extreme_inputs(const Program& program) {
  Storage inputs;
  for (const schedules::Argument& argument : program.arguments) {
    if (argument.is_output) continue;
    const DType type = argument.buffer.type;
    std::vector<std::byte>& bytes = inputs[argument.buffer.name];
    bytes.resize(static_cast<size_t>(argument.buffer.bytes()));
    const IntegerLimits limits = integer_limits(type);
    for (int64_t i = 0; i < argument.buffer.elements(); ++i)
      store_int(type, bytes.data(), i, i % 3 == 1 ? limits.largest : limits.least);
  }
  return inputs;
}

Result<Storage> run_object(const Program& program, const Storage& given, const Target& target) {
  TW_TRY(const Storage inputs,
         with_prepared(program, given, [&](const Program& preparation, const Storage& constants) {
           return run_object(preparation, constants, target);
         }));
  const NamedProgram named{"k", &program};
  TW_TRY(const CompiledObjects compiled, compile_cpu({&named, 1}, target));
  TW_RETURN_IF_ERROR(compiled.programs[0]);
  std::vector<std::string> symbols;
  for (size_t i = 0; i < program.phases.size(); ++i) symbols.push_back(phase_symbol("k", i));
  TW_TRY(const std::string shared, link_shared(compiled.object, symbols, target));
  TW_TRY(const runtime::Library library, runtime::Library::load(shared));

  std::vector<tuner::GuardedBuffer> buffers;
  std::vector<void*> pointers;
  for (const Argument& argument : program.arguments) {
    const auto element = static_cast<size_t>(size_bytes(argument.buffer.type));
    TW_TRY(auto buffer, tuner::GuardedBuffer::make(static_cast<size_t>(argument.buffer.bytes()),
                                                   {.alignment = element}));
    const auto input = inputs.find(argument.buffer.name);
    if (!argument.is_output) std::copy(input->second.begin(), input->second.end(), buffer.data());
    if (argument.is_output && !argument.layout.is_row_major())
      std::fill(buffer.data(), buffer.data() + buffer.size(), std::byte{});
    pointers.push_back(buffer.data());
    buffers.push_back(std::move(buffer));
  }
  TW_TRY(auto scratch,
         tuner::GuardedBuffer::make(static_cast<size_t>(scratch_layout(program).bytes)));
  for (size_t i = 0; i < program.phases.size(); ++i) {
    TW_TRY(void* address, library.symbol(symbols[i]));
    const auto function = reinterpret_cast<PhaseFunction*>(address);
    for (int32_t task = 0; task < program.phases[i].tasks(); ++task)
      if (function(pointers.data(), scratch.data(), task) != 0)
        return fail(ErrorCode::Internal, "a task failed");
  }
  Storage outputs;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (program.arguments[i].is_output)
      outputs[program.arguments[i].buffer.name].assign(buffers[i].data(),
                                                       buffers[i].data() + buffers[i].size());
  return outputs;
}

std::string difference(const Program& program, const Storage& expected, const Storage& actual,
                       double relative, double absolute) {
  for (const Argument& argument : program.arguments) {
    if (!argument.is_output) continue;
    const Buffer& b = argument.buffer;
    const void* e = expected.at(b.name).data();
    const void* a = actual.at(b.name).data();
    for (int64_t i = 0; i < b.elements(); ++i) {
      const double x = load_float(b.type, e, i), y = load_float(b.type, a, i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (std::isfinite(x) && std::fabs(x - y) <= relative * std::fabs(x) + absolute) continue;
      return fmt::format("{}[{}] is {}, expected {}", b.name, i, y, x);
    }
  }
  return "";
}

void expect_agreement(const Program& program, const Storage& inputs, double relative,
                      double absolute, const std::vector<Target>& targets) {
  SCOPED_TRACE(to_string(program));
  Storage expected = inputs;
  const Status evaluated = schedules::evaluate(program, expected);
  ASSERT_TRUE(evaluated) << evaluated.error().message;
  const auto from_c = run_c(program, inputs);
  ASSERT_TRUE(from_c) << from_c.error().message;
  EXPECT_EQ(difference(program, expected, *from_c, relative, absolute), "") << "C";
  for (const Target& target : targets) {
    const auto from_object = run_object(program, inputs, target);
    ASSERT_TRUE(from_object) << from_object.error().message;
    // Without FMA, exp rounds once more when it reduces its argument.
    const double slack = target.has("fma") ? relative : 2.5 * relative;
    EXPECT_EQ(difference(program, expected, *from_object, slack, absolute), "")
        << target.to_string();
  }
}

}  // namespace tw::codegen
