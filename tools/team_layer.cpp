// SPDX-License-Identifier: Apache-2.0
#include "tools/team_layer.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/hash.h"
#include "db/published_layer.h"
#include "tools/web/download.h"

namespace tw::tools {
namespace {

// Time for which a copy is used before the server is asked for a newer layer. Layers change only a
// few times a day, and without this pause every run would wait for the server.
constexpr int64_t ask_again_ms = 600'000;
constexpr int64_t manifest_total_ms = 20'000;
constexpr size_t most_key_bytes = 4096, piece_bytes = 64 << 10;

bool is_address(std::string_view name) {
  return name.starts_with("https://") || name.starts_with("http://");
}

/// Splits the path or address of a manifest into its folder, including the last "/", and its file
/// name.
std::pair<std::string, std::string> folder_and_name(const std::string& name) {
  const size_t end = name.rfind('/');
  if (end == std::string::npos) return {"", name};
  return {name.substr(0, end + 1), name.substr(end + 1)};
}

Result<std::string> public_key_of(const TeamLayer& team) {
  if (team.key.empty())
    return fail(ErrorCode::Usage,
                fmt::format("[team] {} has to be signed by a key of the team: name it with "
                            "--team-key",
                            team.name));
  if (is_public_key(team.key)) return team.key;
  std::ifstream in(team.key, std::ios::binary);
  std::string text(most_key_bytes, '\0');
  in.read(text.data(), most_key_bytes);
  text.resize(static_cast<size_t>(in.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (is_public_key(text)) return text;
  return fail(ErrorCode::Usage,
              fmt::format("[team] --team-key {:.100}: the 44 characters of a public key were "
                          "expected, or a file that holds them; `tilewright db key` prints them",
                          team.key));
}

Status read_pieces(const std::string& path, const std::function<bool(std::string_view)>& take) {
  std::ifstream in(path, std::ios::binary);
  std::string piece(piece_bytes, '\0');
  if (!in || std::filesystem::is_directory(path))
    return fail(ErrorCode::Environment, fmt::format("{} cannot be read", path));
  while (in.read(piece.data(), piece_bytes) || in.gcount() > 0)
    if (!take(std::string_view(piece).substr(0, static_cast<size_t>(in.gcount())))) break;
  return {};
}

db::LayerSource source_of(const TeamLayer& team, const std::string& public_key) {
  const auto [folder, manifest] = folder_and_name(team.name);
  const db::FetchFile fetch =
      [folder = folder, manifest = manifest, is_remote = is_address(team.name)](
          const std::string& name, const std::function<bool(std::string_view)>& take) {
        web::DownloadLimits limits;
        if (name == manifest) limits.total_ms = manifest_total_ms;
        return is_remote ? web::download(folder + name, limits, take)
                         : read_pieces(folder + name, take);
      };
  return {manifest, public_key, fetch};
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Returns the name of a layer in canonical form: an address is unchanged, and a path becomes
/// absolute.
std::string whole_name(const std::string& name) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(name, error);
  return is_address(name) || error ? name : path.lexically_normal().string();
}

/// Returns the time, in ms since 1970, at which the server was last asked for the layer, even if it
/// did not answer: the modification time of the file `asked` in the folder of the copy. 0: the
/// server was never asked.
int64_t asked_ms(const std::string& folder) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(folder + "/asked", error);
  if (error) return 0;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::file_clock::to_sys(written).time_since_epoch())
      .count();
}

void note_asked(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::ofstream(folder + "/asked", std::ios::trunc) << '\n';
}

}  // namespace

Result<db::Layer> team_layer(const TeamLayer& team, const db::Waiting& waiting) {
  if (!db::is_published_layer(team.name)) return db::Layer{"team", team.name};
  TW_TRY(const std::string public_key, public_key_of(team));
  const std::string folder = fmt::format("{}/{}", team.copies, short_hash(whole_name(team.name)));
  const std::string kept = db::kept_copy(folder, public_key);
  if (is_address(team.name)) {
    const int64_t age_ms = now_ms() - asked_ms(folder);
    if (!kept.empty() && age_ms >= 0 && age_ms < ask_again_ms) return db::Layer{"team", kept};
    note_asked(folder);
  }
  const db::LayerCopy copy = db::refreshed_copy(folder, source_of(team, public_key), waiting);
  if (copy.problem && waiting.on_message)
    waiting.on_message(fmt::format("the team layer {} {}: {}", team.name,
                                   copy.database.empty() ? "is left out" : "stays as it was copied",
                                   copy.problem->message));
  return db::Layer{"team", copy.database};
}

Result<std::vector<db::Layer>> layers_below(const TeamLayer& team, const std::string& shipped,
                                            const db::Waiting& waiting) {
  std::vector<db::Layer> layers;
  if (!team.name.empty()) {
    TW_TRY(db::Layer layer, team_layer(team, waiting));
    if (!layer.path.empty()) layers.push_back(std::move(layer));
  }
  if (!shipped.empty() && shipped != "none") layers.push_back({"shipped", shipped});
  return layers;
}

}  // namespace tw::tools
