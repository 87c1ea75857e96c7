// SPDX-License-Identifier: Apache-2.0
#include "codegen/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

extern char** environ;

namespace tw::codegen {
namespace {

constexpr size_t most_output = size_t{64} << 20;
constexpr size_t tail_bytes = 2048;

tl::unexpected<Error> environment(const std::string& tool, const std::string& what) {
  return fail(ErrorCode::Environment, fmt::format("[{}] {}", tool, what));
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) == 0) read = ends[0], write = ends[1];
  }
  Pipe(const Pipe&) = delete;
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

pid_t spawn(const std::vector<std::string>& argv, const Pipe& out, const Pipe& err, int& error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, 1);
  posix_spawn_file_actions_adddup2(&actions, err.write, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  // The output of tools is parsed, so they must not translate it.
  std::string language = "LC_ALL=C";
  std::vector<char*> variables = {language.data()};
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("LC_ALL=")) variables.push_back(*variable);
  variables.push_back(nullptr);
  error = posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes, arguments.data(),
                       variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

/// Appends what can be read; closes the end at its end of file.
void drain(int& end, std::string& text) {
  std::array<char, 65536> chunk;
  const ssize_t count = read(end, chunk.data(), chunk.size());
  if (count > 0) {
    text.append(chunk.data(), static_cast<size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    Pipe::close_end(end);
  }
}

enum class End { Finished, TimedOut, TooLong, Stopped };

// Time between two questions to the stop token.
constexpr int64_t question_ms = 100;

/// Reads both streams until they are closed and the process has ended, or something is wrong.
End follow(pid_t pid, Pipe& out, Pipe& err, int64_t timeout_ns, const StopToken& stop,
           std::string& output, std::string& tail) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  while (out.read >= 0 || err.read >= 0 || process >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    std::array<pollfd, 3> ends = {pollfd{out.read, POLLIN, 0}, pollfd{err.read, POLLIN, 0},
                                  pollfd{process, POLLIN, 0}};
    if (left <= 0 || stop.is_stopped()) {
      Pipe::close_end(process);
      return left <= 0 ? End::TimedOut : End::Stopped;
    }
    if (poll(ends.data(), ends.size(), static_cast<int>(std::min(left, question_ms))) <= 0)
      continue;
    if (ends[0].revents) drain(out.read, output);
    if (ends[1].revents) drain(err.read, tail);
    if (ends[2].revents) Pipe::close_end(process);
    if (tail.size() > 4 * tail_bytes) tail.erase(0, tail.size() - tail_bytes);
    if (output.size() > most_output) {
      Pipe::close_end(process);
      return End::TooLong;
    }
  }
  return End::Finished;
}

/// Returns nullopt if the exit status is unknown, because this process ignores SIGCHLD or another
/// part of it has waited for the command.
std::optional<int> reap(pid_t pid, bool kill_it) {
  if (kill_it) kill(-pid, SIGKILL);
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  return reaped == pid ? std::optional(status) : std::nullopt;
}

/// True if a signal that this process did not send ended the program, for example because the user
/// stopped all processes of a run, or because memory ran out.
bool was_stopped(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGKILL;
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

}  // namespace

Result<std::string> run_command(const std::vector<std::string>& argv, int64_t timeout_ns,
                                const StopToken& stop) {
  const std::string& tool = argv.at(0);
  Pipe out, err;
  if (out.read < 0 || err.read < 0)
    return environment(tool, fmt::format("no pipe can be made: {}", std::strerror(errno)));
  int error = 0;
  const pid_t pid = spawn(argv, out, err, error);
  if (pid < 0) {
    const bool is_binutils = tool.ends_with("ld") || tool.ends_with("objdump");
    return environment(tool,
                       fmt::format("it cannot be started ({}): install it{}", std::strerror(error),
                                   is_binutils ? " (Debian: binutils)" : ""));
  }
  Pipe::close_end(out.write);
  Pipe::close_end(err.write);
  std::string output, tail;
  const End end = follow(pid, out, err, timeout_ns, stop, output, tail);
  const std::optional<int> status = reap(pid, end != End::Finished);
  if (tail.size() > tail_bytes) tail.erase(0, tail.size() - tail_bytes);
  const std::string said = tail.empty() ? "" : ": " + std::string(trim(tail));
  if (end == End::Stopped) return stopped(*stop.reason(), tool);
  if (end == End::TimedOut)
    return environment(tool, fmt::format("it ran longer than {} ms and was ended{}",
                                         timeout_ns / 1'000'000, said));
  if (end == End::TooLong) return environment(tool, "it printed too much and was ended");
  if (!status)
    return environment(
        tool,
        "its exit status is unknown, because this process ignores SIGCHLD or waits for all "
        "children: reset SIGCHLD to SIG_DFL, and wait only for your own children");
  if (was_stopped(*status))
    return fail(ErrorCode::TryLater, fmt::format("[{}] it {}{}", tool, describe(*status), said));
  if (*status != 0) return environment(tool, fmt::format("it {}{}", describe(*status), said));
  return output;
}

Result<MemoryFile> MemoryFile::create(const char* name, std::string_view content) {
  const int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0)
    return environment(name,
                       fmt::format("no file in memory can be made: {}", std::strerror(errno)));
  MemoryFile file(descriptor, fmt::format("/proc/{}/fd/{}", getpid(), descriptor));
  while (!content.empty()) {
    const ssize_t count = write(descriptor, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return environment(
          name, fmt::format("a file in memory cannot be written: {}", std::strerror(errno)));
    content.remove_prefix(static_cast<size_t>(count));
  }
  return file;
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<std::string> MemoryFile::content() const {
  std::string bytes;
  std::array<char, 65536> chunk;
  for (;;) {
    const ssize_t count =
        pread(descriptor_, chunk.data(), chunk.size(), static_cast<off_t>(bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return environment(path_, std::strerror(errno));
    if (count == 0) return bytes;
    bytes.append(chunk.data(), static_cast<size_t>(count));
  }
}

}  // namespace tw::codegen
