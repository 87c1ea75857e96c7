// SPDX-License-Identifier: Apache-2.0
#pragma once
// A function that may fail returns Result<T>; conditions that only a bug can violate are
// TW_CHECKed.
//
// An Error's message reads `[operation] what was given, what was expected, what to do` and is shown
// to a person as it stands. Its code is the exit code of the program, so a failure keeps its
// meaning from the innermost function to the shell. Values of these types are immutable and safe to
// share between threads.

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace tw {

/// The program's exit codes; docs/cli.md lists them for users.
enum class ErrorCode {
  Internal = 1,
  Usage = 2,
  Unsupported = 3,
  Database = 4,
  Invalid = 5,      ///< a model, artifact or file whose content is wrong
  NoCandidate = 6,  ///< tuning found no valid candidate
  Environment = 7,  ///< driver, compiler or library missing
  NotCompiled = 8,  ///< a record exists, its kernel does not: the message carries the compile line
  TryLater = 75,
  Interrupted = 130,
};

struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string message;
  friend bool operator==(const Error&, const Error&) = default;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

/// Ends the process: an invariant of ours does not hold. Unreachable from user input.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view note);

}  // namespace tw

#define TW_CHECK(condition, ...)                                                          \
  do {                                                                                    \
    if (!(condition)) ::tw::check_failed(#condition, __FILE__, __LINE__, "" __VA_ARGS__); \
  } while (false)

#define TW_CONCAT_INNER(a, b) a##b
#define TW_CONCAT(a, b) TW_CONCAT_INNER(a, b)

/// TW_TRY(auto x, make_x()): binds the value, or returns the error from the calling function.
#define TW_TRY(declaration, ...)                                                              \
  auto TW_CONCAT(tw_result_, __LINE__) = (__VA_ARGS__);                                       \
  if (!TW_CONCAT(tw_result_, __LINE__))                                                       \
    return ::tl::unexpected<::tw::Error>(std::move(TW_CONCAT(tw_result_, __LINE__)).error()); \
  declaration = std::move(TW_CONCAT(tw_result_, __LINE__)).value()

#define TW_RETURN_IF_ERROR(...)                                           \
  do {                                                                    \
    if (auto tw_status = (__VA_ARGS__); !tw_status)                       \
      return ::tl::unexpected<::tw::Error>(std::move(tw_status).error()); \
  } while (false)
