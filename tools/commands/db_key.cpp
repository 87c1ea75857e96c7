// SPDX-License-Identifier: Apache-2.0
// tilewright db key: makes a pair of keys. A team signs the database layers that it publishes with
// the private key; users check them with the public key.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/signature.h"
#include "tools/flags/db_flags.h"
#include "tools/flags/quote.h"
#include "tools/reports/report.h"

namespace tw::tools {
namespace {

/// Writes a new file that only its owner can read. Fails with Usage if the file exists, and with
/// Environment if it cannot be written; no partly written file remains.
Status write_private(const std::string& text, const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 && errno == EEXIST)
    return fail(ErrorCode::Usage,
                fmt::format("[key] --output {}: there is a file of that name, and a key that is "
                            "lost cannot be made again; choose another name",
                            shell_quoted(path)));
  const bool is_written = file >= 0 &&
                          ::write(file, text.data(), text.size()) == std::ssize(text) &&
                          ::fsync(file) == 0;
  const int problem = errno;
  if (file >= 0) ::close(file);
  if (is_written) return {};
  if (file >= 0) ::unlink(path.c_str());  // a part of a key is useless
  return fail(ErrorCode::Environment, fmt::format("[key] {} cannot be written: {}",
                                                  shell_quoted(path), std::strerror(problem)));
}

}  // namespace

Result<int> key_command(const DbFlags& f, const Surroundings&) {
  if (f.output.empty())
    return fail(ErrorCode::Usage, "[key] --output is missing: it names the file of the new key");
  TW_TRY(const SigningKey key, make_signing_key());
  TW_RETURN_IF_ERROR(write_private(key.pem, f.output));
  if (f.format == Format::Json)
    TW_RETURN_IF_ERROR(
        print_json("db key", {{"output", f.output}, {"public_key", key.public_key}}));
  else
    TW_RETURN_IF_ERROR(print(key.public_key + "\n"));
  note(
      fmt::format("{} signs layers (`db ship --sign`): keep it secret; whoever uses them names "
                  "the line above with --team-key",
                  shell_quoted(f.output)));
  return 0;
}

}  // namespace tw::tools
