// SPDX-License-Identifier: Apache-2.0
#include "codegen/elf.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "tests/codegen/gpu_runs.h"

namespace tw::codegen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// Returns an attribute of the section ".nv.info" that has two numbers as its value.
std::string attribute(uint8_t kind, uint32_t first, uint32_t second) {
  constexpr uint8_t sized = 4;
  return bytes_of(sized) + bytes_of(kind) + bytes_of(uint16_t{8}) + bytes_of(first) +
         bytes_of(second);
}

/// Returns an ELF object with the symbols "first" and "second", and with the section ".nv.info".
std::string cubin_with(const std::string& attributes) {
  struct Section {
    const char* name;
    uint32_t link;
    std::string contents;
  };
  Elf64_Sym first = {}, second = {};
  first.st_name = 1;
  second.st_name = 7;
  const std::string symbols = bytes_of(Elf64_Sym{}) + bytes_of(first) + bytes_of(second);
  const std::vector<Section> sections = {{"", 0, ""},
                                         {".strtab", 0, std::string("\0first\0second\0", 14)},
                                         {".symtab", 1, symbols},
                                         {".nv.info", 2, attributes},
                                         {".shstrtab", 0, ""}};
  std::string names, contents, headers;
  std::vector<uint32_t> name_at;
  for (const Section& section : sections) {
    name_at.push_back(static_cast<uint32_t>(names.size()));
    names += std::string(section.name) + '\0';
  }
  for (size_t i = 0; i < sections.size(); ++i) {
    const std::string& own = i + 1 == sections.size() ? names : sections[i].contents;
    Elf64_Shdr header = {};
    header.sh_name = name_at[i];
    header.sh_link = sections[i].link;
    header.sh_offset = sizeof(Elf64_Ehdr) + contents.size();
    header.sh_size = own.size();
    headers += bytes_of(header);
    contents += own;
  }
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = sizeof header + contents.size();
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = static_cast<Elf64_Half>(sections.size() - 1);
  return bytes_of(header) + contents + headers;
}

TEST(Elf, ACubinTellsTheRegistersOfItsFunctions) {
  constexpr uint8_t registers = 0x2f, stack = 0x12;
  // An attribute of the format 1 has no value after its header of four bytes.
  const std::string flag("\1\x36\0\0", 4);
  EXPECT_THAT(
      registers_of_cubin(cubin_with(attribute(registers, 2, 40) + flag + attribute(stack, 1, 16) +
                                    attribute(registers, 1, 168))),
      ElementsAre(Pair("first", 168), Pair("second", 40)));
  EXPECT_THAT(registers_of_cubin(cubin_with(attribute(registers, 99, 40))), IsEmpty());
}

TEST(Elf, WhatIsCutOffIsLeftOut) {
  const std::string one = attribute(0x2f, 2, 40), two = one + attribute(0x2f, 1, 168);
  for (size_t size = one.size(); size < two.size(); ++size)
    EXPECT_THAT(registers_of_cubin(cubin_with(two.substr(0, size))),
                ElementsAre(Pair("second", 40)))
        << size;
  const std::string whole = cubin_with(two);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(registers_of_cubin(whole.substr(0, size)), IsEmpty()) << size;
  for (const char* text : {"", "no ELF", "__kernel void f() {}"})
    EXPECT_THAT(registers_of_cubin(text), IsEmpty());
}

TEST(Elf, TheRegistersAreThoseThatPtxasReports) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << "[SKIP] " << nvrtc.error().message;
  constexpr const char* text = R"(
extern "C" __global__ void few(float* x) { x[threadIdx.x] += 1.0f; }
extern "C" __global__ void many(const float* x, float* y, int n) {
  float sum[40] = {};
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < 40; ++i) sum[i] += x[k * 40 + i] * x[k];
#pragma unroll
  for (int i = 0; i < 40; ++i) y[i] = sum[i];
})";
  for (const char* architecture : {"sm_80", "sm_90a", "sm_120"}) {
    const auto compiled = nvrtc->compile(text, architecture);
    ASSERT_TRUE(compiled) << compiled.error().message;
    std::map<std::string, int> reported;
    for (const CudaFunctionFacts& function : compiled->functions)
      reported[function.name] = function.registers;
    EXPECT_GT(reported["many"], reported["few"]);
    EXPECT_EQ(registers_of_cubin(compiled->code.binary), reported) << architecture;
  }
}

}  // namespace
}  // namespace tw::codegen
