// SPDX-License-Identifier: Apache-2.0
#include "db/published_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>

#include "base/hash.h"
#include "db/store.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

using testing::HasSubstr;

/// A fixture with the files of a server, and with a copy of the layer that they publish.
class PublishedLayer : public testing::Test {
 protected:
  /// Publishes a layer with these records. Its manifest says that it was made at `created_ms`.
  void publish(const std::vector<Record>& records, int64_t created_ms) {
    publish(records, created_ms, key_);
  }
  void publish(const std::vector<Record>& records, int64_t created_ms, const SigningKey& key) {
    std::string lines;
    for (const Record& record : records) lines += to_json(record) + '\n';
    files_["team.jsonl"] = lines;
    files_["team.layer.json"] = to_json(signed_by(key, {.data = "team.jsonl",
                                                        .sha256 = sha256_hex(lines),
                                                        .bytes = std::ssize(lines),
                                                        .records = std::ssize(records),
                                                        .created_ms = created_ms,
                                                        .program_version = "0.1.0",
                                                        .devices = {"Test CPU"}}));
  }

  LayerCopy refresh() {
    const LayerSource source = {
        "team.layer.json", key_.public_key,
        [&](const std::string& name, const std::function<bool(std::string_view)>& take) -> Status {
          ++fetched_[name];
          if (!files_.contains(name)) return fail(ErrorCode::Environment, "there is no such file");
          const std::string_view text = files_[name];
          // The text comes in pieces, as from a socket.
          for (size_t at = 0; at < text.size(); at += 1000)
            if (!take(text.substr(at, 1000))) return fail(ErrorCode::Environment, "given up");
          return {};
        }};
    return refreshed_copy(folder_ / "copy", source, {});
  }

  /// Returns the hashes of the records in the database of the copy.
  std::set<std::string> answers(const LayerCopy& copy) {
    Store store = open_store(copy.database, OpenMode::ReadOnly);
    return hashes_in(store);
  }

  /// Refreshes the copy, expects that the new layer is refused and that the copy keeps the records
  /// `kept`, and returns the reason.
  std::string refused(const std::set<std::string>& kept) {
    const LayerCopy copy = refresh();
    EXPECT_TRUE(copy.problem);
    EXPECT_EQ(answers(copy), kept);
    EXPECT_EQ(copy.problem ? copy.problem->message.find('\n') : 0, std::string::npos);
    return copy.problem ? copy.problem->message : "";
  }

  Folder folder_;
  const SigningKey key_ = make_signing_key().value();
  std::map<std::string, std::string> files_;
  std::map<std::string, int> fetched_;
};

TEST_F(PublishedLayer, IsCopiedOnceAndAgainWhenItChanged) {
  publish(sample_records(0, 20), 1000);
  EXPECT_EQ(answers(refresh()), hashes_of(sample_records(0, 20)));
  EXPECT_EQ(fetched_["team.jsonl"], 1);
  const LayerCopy again = refresh();
  EXPECT_FALSE(again.problem);
  EXPECT_EQ(fetched_["team.jsonl"], 1) << "it had not changed";
  publish(sample_records(10, 20), 2000);
  const LayerCopy next = refresh();
  EXPECT_FALSE(next.problem);
  EXPECT_EQ(answers(next), hashes_of(sample_records(10, 20)));
  EXPECT_TRUE(std::filesystem::exists(again.database)) << "somebody may be about to open it";
  publish(sample_records(30, 5), 3000);
  const LayerCopy third = refresh();
  EXPECT_FALSE(std::filesystem::exists(again.database)) << "nobody needs it any more";
  EXPECT_TRUE(std::filesystem::exists(next.database));
  EXPECT_EQ(kept_copy(folder_ / "copy", key_.public_key), third.database);
}

TEST_F(PublishedLayer, WithoutACopyThereIsNothing) {
  const LayerCopy copy = refresh();
  ASSERT_TRUE(copy.problem);
  EXPECT_THAT(copy.problem->message, HasSubstr("no such file"));
  EXPECT_EQ(copy.database, "");
  EXPECT_EQ(kept_copy(folder_ / "copy", key_.public_key), "");
}

TEST_F(PublishedLayer, Fault96_TheCopyAnswersWhileTheLayerCannotBeFetched) {
  publish(sample_records(0, 5), 1000);
  (void)refresh();
  files_.clear();
  EXPECT_THAT(refused(hashes_of(sample_records(0, 5))), HasSubstr("no such file"));
}

TEST_F(PublishedLayer, Fault97_AChangedByteIsRefused) {
  publish(sample_records(0, 5), 1000);
  (void)refresh();
  publish(sample_records(5, 5), 2000);
  const std::set<std::string> kept = hashes_of(sample_records(0, 5));
  const std::map<std::string, std::string> whole = files_;
  for (const auto& [name, text] : whole)
    for (size_t at = 0; at < text.size(); at += 1 + text.size() / 150) {
      files_ = whole;
      files_[name][at] ^= 1;
      // A change of white space in the manifest does not change its meaning, so it is not refused.
      if (name == "team.layer.json" && std::isspace(static_cast<unsigned char>(text[at]))) continue;
      EXPECT_NE(refused(kept), "") << name << " at " << at;
    }
  files_ = whole;
  EXPECT_EQ(answers(refresh()), hashes_of(sample_records(5, 5)));
}

TEST_F(PublishedLayer, Fault97_ATruncatedOrPaddedFileIsRefused) {
  publish(sample_records(0, 5), 1000);
  (void)refresh();
  publish(sample_records(5, 5), 2000);
  const std::set<std::string> kept = hashes_of(sample_records(0, 5));
  const std::map<std::string, std::string> whole = files_;
  files_["team.jsonl"].pop_back();
  EXPECT_THAT(refused(kept), HasSubstr("ends after"));
  files_["team.jsonl"] = "";
  EXPECT_THAT(refused(kept), HasSubstr("ends after 0 bytes"));
  files_["team.jsonl"] = whole.at("team.jsonl") + "x";
  EXPECT_THAT(refused(kept), HasSubstr("longer than its manifest says"));
  files_["team.layer.json"].resize(100);
  EXPECT_THAT(refused(kept), HasSubstr("cannot be read"));
  files_["team.layer.json"] = std::string(100'000, ' ') + whole.at("team.layer.json");
  EXPECT_THAT(refused(kept), HasSubstr("longer than 64 KiB"));
  files_["team.layer.json"] = std::string(60'000, '[');
  EXPECT_THAT(refused(kept), HasSubstr("cannot be read"));
}

TEST_F(PublishedLayer, Fault98_AnOldLayerDoesNotReplaceANewerOne) {
  publish(sample_records(0, 5), 1000);
  (void)refresh();
  const std::map<std::string, std::string> old = files_;
  publish(sample_records(5, 5), 2000);
  (void)refresh();
  files_ = old;
  EXPECT_THAT(refused(hashes_of(sample_records(5, 5))), HasSubstr("older than the copy"));
}

TEST_F(PublishedLayer, Fault98_AnotherKeyIsRefused) {
  publish(sample_records(0, 5), 1000);
  (void)refresh();
  const SigningKey other = make_signing_key().value();
  publish(sample_records(5, 5), 2000, other);
  EXPECT_THAT(refused(hashes_of(sample_records(0, 5))), HasSubstr(other.public_key));
  // The manifest claims the team's key, but is signed by the other.
  std::string& manifest = files_["team.layer.json"];
  manifest.replace(manifest.find(other.public_key), other.public_key.size(), key_.public_key);
  EXPECT_THAT(refused(hashes_of(sample_records(0, 5))), HasSubstr("signature"));
}

TEST_F(PublishedLayer, Fault97_ACopyThatIsDamagedIsNotUsed) {
  publish(sample_records(0, 5), 1000);
  const LayerCopy copy = refresh();
  write_bytes(folder_ / "copy/manifest", "{}");
  EXPECT_EQ(kept_copy(folder_ / "copy", key_.public_key), "");
  EXPECT_EQ(answers(refresh()), hashes_of(sample_records(0, 5))) << "it is fetched again";
  std::filesystem::remove(copy.database);
  EXPECT_EQ(answers(refresh()), hashes_of(sample_records(0, 5)));
  write_bytes(copy.database, std::string(8192, 'x'));
  EXPECT_EQ(answers(refresh()), hashes_of(sample_records(0, 5)));
}

TEST_F(PublishedLayer, Fault27_TheManifestNamesNoOtherFolder) {
  for (const char* data : {"../secret", "a/b", "/etc/passwd", "..", "", "x?y", "http:\\\\host"}) {
    const LayerManifest manifest = signed_by(
        key_, {.data = data, .sha256 = std::string(64, 'a'), .bytes = 1, .created_ms = 1});
    EXPECT_FALSE(parse_manifest(to_json(manifest), key_.public_key)) << data;
  }
}

TEST_F(PublishedLayer, AFolderThatCannotBeWrittenIsAProblem) {
  publish(sample_records(0, 5), 1000);
  write_bytes(folder_ / "copy", "a file");
  EXPECT_TRUE(refresh().problem);
}

TEST_F(PublishedLayer, SeveralMayBringItUpToDateAtOnce) {
  publish(sample_records(0, 50), 1000);
  const std::string manifest = files_["team.layer.json"], lines = files_["team.jsonl"];
  const LayerSource source = {
      "team.layer.json", key_.public_key,
      [&](const std::string& name, const std::function<bool(std::string_view)>& take) -> Status {
        take(name == "team.jsonl" ? lines : manifest);
        return {};
      }};
  std::vector<std::future<LayerCopy>> copies;
  for (int i = 0; i < 6; ++i)
    copies.push_back(std::async(std::launch::async,
                                [&] { return refreshed_copy(folder_ / "copy", source, {}); }));
  for (auto& copy : copies) {
    const LayerCopy one = copy.get();
    EXPECT_FALSE(one.problem);
    EXPECT_EQ(answers(one), hashes_of(sample_records(0, 50)));
  }
}

TEST_F(PublishedLayer, IsKnownByItsName) {
  EXPECT_TRUE(is_published_layer("https://host/team.layer.json"));
  EXPECT_TRUE(is_published_layer("/mnt/team.layer.json"));
  EXPECT_FALSE(is_published_layer("team.db"));
  EXPECT_FALSE(is_published_layer("postgresql://user@host/team"));
}

}  // namespace
}  // namespace tw::db
