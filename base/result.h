// SPDX-License-Identifier: Apache-2.0
#pragma once
// A function that may fail returns Result<T>, which holds a value or an Error. TW_CHECK checks
// conditions that only a bug can violate.
//
// An Error's message reads `[operation] what was given, what was expected, what to do` and is shown
// to users unchanged. An Error's code is the exit code of the program, so a failure keeps its
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
  /// the database has a schedule, but no compiled kernel; the message has the compile command
  NotCompiled = 8,
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

/// Prints the condition, its place in the source and `note`, then ends the process. TW_CHECK calls
/// this function when its condition is false. Only a bug leads here; input of a user never does.
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               std::string_view note);

}  // namespace tw

#define TW_CHECK(condition, ...)                                                          \
  do {                                                                                    \
    if (!(condition)) ::tw::check_failed(#condition, __FILE__, __LINE__, "" __VA_ARGS__); \
  } while (false)

#define TW_CONCAT_INNER(a, b) a##b
#define TW_CONCAT(a, b) TW_CONCAT_INNER(a, b)

/// TW_TRY(auto x, make_x()) declares `x` with the value of the result. If the result is an error,
/// the calling function returns that error.
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
