// SPDX-License-Identifier: Apache-2.0
#include "codegen/link.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "codegen/command.h"

namespace tw::codegen {
namespace {

using testing::HasSubstr;

class Link : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tw_link_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string object_of(const std::string& source) {
    std::ofstream(folder_ + "/x.c") << source;
    const auto compiled = run_command({"cc", "-O1", "-fPIC", "-ffunction-sections", "-c",
                                       folder_ + "/x.c", "-o", folder_ + "/x.o"},
                                      60'000'000'000);
    EXPECT_TRUE(compiled) << compiled.error().message;
    std::ifstream file(folder_ + "/x.o", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string fake_linker(const std::string& body) {
    const std::string path = folder_ + "/ld";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  std::string folder_;
};

TEST_F(Link, KeepsWhatTheSymbolsNeed) {
  const std::string object = object_of("int f(void) { return 1; } int g(void) { return 2; }");
  const auto shared = link_shared(object, {"f"}, host_target());
  ASSERT_TRUE(shared) << shared.error().message;
  const auto file = MemoryFile::create("shared", *shared);
  const auto symbols = run_command({"nm", "-D", "--defined-only", file->path()}, 10'000'000'000);
  ASSERT_TRUE(symbols);
  EXPECT_THAT(*symbols, HasSubstr(" T f"));
  EXPECT_THAT(*symbols, testing::Not(HasSubstr(" T g")));
}

TEST_F(Link, ObjectsImportMemoryFunctionsOnly) {
  const std::string object = object_of("double log(double); double f(double x) { return log(x); }");
  const auto shared = link_shared(object, {"f"}, host_target());
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, ErrorCode::Invalid);
  EXPECT_THAT(shared.error().message, HasSubstr("needs the symbol 'log'"));
  const std::string clears = object_of(
      "void f(char* p, unsigned long n) { while (n--) *p++ = 0; }\n"
      "void* memset(void*, int, unsigned long);\n"
      "void* g(void* p) { return memset(p, 0, 4096); }");
  EXPECT_TRUE(link_shared(clears, {"g"}, host_target()));
}

TEST_F(Link, MissingSymbolsAreNamed) {
  const auto shared = link_shared(object_of("int f(void) { return 1; }"), {"g"}, host_target());
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, ErrorCode::Invalid);
  EXPECT_THAT(shared.error().message, HasSubstr("g"));
}

TEST_F(Link, Fault42_LinkerThatFails) {
  const std::string object = object_of("int f(void) { return 1; }");
  struct Case {
    std::string linker, expected;
  };
  const std::string missing = folder_ + "/none";
  for (const Case& c :
       {Case{missing, "cannot be started"},
        Case{fake_linker("echo disk full >&2; exit 1"), "exited with 1: disk full"}}) {
    const auto shared = link_shared(object, {"f"}, host_target(), {.linker = c.linker});
    ASSERT_FALSE(shared);
    EXPECT_EQ(shared.error().code, ErrorCode::Environment);
    EXPECT_THAT(shared.error().message, HasSubstr(c.expected));
  }
}

TEST_F(Link, Fault42_LinkerThatCrashesHangsOrWritesNothing) {
  struct Case {
    std::string body, expected;
  };
  for (const Case& c :
       {Case{"kill -SEGV $$", "ended by signal 11"}, Case{"sleep 600", "ran longer than 200 ms"},
        Case{"exec 1>&- 2>&-; sleep 600", "ran longer than 200 ms"},
        Case{"exit 0", "wrote 0 bytes that are no ELF file"},
        Case{"exec yes", "printed too much|ran longer"}}) {
    const LinkOptions options{.linker = fake_linker(c.body), .timeout_ns = 200'000'000};
    const auto shared = link_shared("", {"f"}, host_target(), options);
    ASSERT_FALSE(shared) << c.body;
    EXPECT_EQ(shared.error().code, ErrorCode::Environment) << c.body;
    EXPECT_THAT(shared.error().message, testing::ContainsRegex(c.expected));
  }
}

TEST_F(Link, Fault84_ALinkerThatIsToldToEndIsNobodysFault) {
  for (const char* signal : {"TERM", "INT", "HUP", "KILL"}) {
    const LinkOptions options{.linker = fake_linker(std::string("kill -") + signal + " $$")};
    const auto shared = link_shared("", {"f"}, host_target(), options);
    ASSERT_FALSE(shared) << signal;
    EXPECT_EQ(shared.error().code, ErrorCode::TryLater) << shared.error().message;
  }
}

}  // namespace
}  // namespace tw::codegen
