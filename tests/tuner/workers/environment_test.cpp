// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/environment.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

namespace tw::tuner {
namespace {

/// Environment variables that a test sets. The destructor restores them.
class Variables {
 public:
  Variables() = default;
  Variables(const Variables&) = delete;
  ~Variables() {
    for (const auto& [name, value] : before_) put(name, value);
  }
  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* now = ::getenv(name.c_str());
    before_.try_emplace(name, now ? std::optional<std::string>(now) : std::nullopt);
    put(name, value);
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  std::map<std::string, std::optional<std::string>> before_;
};

class Surrounding : public testing::Test {
 protected:
  Surrounding() {
    for (const char* name :
         {"XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CUDA_HOME", "CUDA_PATH"})
      variables_.set(name, std::nullopt);
    variables_.set("HOME", "/home/somebody");
  }
  Variables variables_;
};

TEST_F(Surrounding, ThisProgramIsTheWorker) {
  const Environment environment = default_environment();
  ASSERT_EQ(environment.worker.size(), 2u);
  EXPECT_TRUE(std::filesystem::equivalent(environment.worker[0], "/proc/self/exe"));
  EXPECT_EQ(environment.worker[1], "worker");
  EXPECT_EQ(environment.interrupts, nullptr);
  const int64_t now_ns = environment.clock();
  EXPECT_GE(environment.clock(), now_ns);
  EXPECT_GT(environment.now_ms(), 1'600'000'000'000);
  EXPECT_FALSE(environment.program_version.empty());
}

TEST_F(Surrounding, AHostHasOneNameAndEachSessionItsOwn) {
  const Environment one = default_environment(), other = default_environment();
  EXPECT_EQ(one.host, other.host);
  EXPECT_NE(one.session, other.session);
  EXPECT_THAT(one.session, testing::MatchesRegex("[0-9a-f]{16}"));
}

TEST_F(Surrounding, CudaIsLookedForWhereItsVariablesSay) {
  EXPECT_TRUE(default_environment().cuda_directories.empty());
  variables_.set("CUDA_HOME", "/opt/cuda");
  variables_.set("CUDA_PATH", "/opt/other");
  EXPECT_THAT(default_environment().cuda_directories,
              testing::ElementsAre("/opt/cuda/lib64", "/opt/other/lib64"));
}

TEST_F(Surrounding, PlacesFollowTheXdgSpecification) {
  EXPECT_EQ(default_places().database, "/home/somebody/.local/share/tilewright/tilewright.db");
  EXPECT_EQ(default_places().cache, "/home/somebody/.cache/tilewright");
  EXPECT_EQ(default_places().configuration, "/home/somebody/.config/tilewright.toml");
  EXPECT_EQ(default_places().fallback, "");
  variables_.set("XDG_DATA_HOME", "/data");
  variables_.set("XDG_CACHE_HOME", "relative");  // relative paths are ignored
  EXPECT_EQ(default_places().database, "/data/tilewright/tilewright.db");
  EXPECT_EQ(default_places().cache, "/home/somebody/.cache/tilewright");
}

TEST_F(Surrounding, ShippedRecordsLieBesideTheProgram) {
  const std::filesystem::path prefix = testing::TempDir() + "tw-shipped-prefix";
  std::filesystem::create_directories(prefix / "share" / "tilewright");
  const std::string program = prefix / "bin" / "tilewright",
                    file = prefix / "share/tilewright/shipped.db";
  std::filesystem::remove(file);
  EXPECT_EQ(shipped_database(program), "");
  std::ofstream(file) << "records";
  EXPECT_EQ(shipped_database(program), file);
  std::filesystem::remove_all(prefix);
}

TEST_F(Surrounding, Fault70_WithoutAHomeFilesLieInATemporaryDirectoryAndThatIsSaid) {
  variables_.set("HOME", std::nullopt);
  const Places places = default_places();
  EXPECT_THAT(places.database, testing::StartsWith("/tmp/tilewright-"));
  EXPECT_THAT(places.cache, testing::StartsWith("/tmp/tilewright-"));
  EXPECT_EQ(places.configuration, "");
  EXPECT_THAT(places.fallback, testing::HasSubstr("HOME is not set"));
}

}  // namespace
}  // namespace tw::tuner
