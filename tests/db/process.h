// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the test program of db/ (writer.cpp) as a child process. A test can read its output line by
// line and kill it.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tw::db {

/// Reads the lines that one or several processes write to a pipe. Each line must be written by a
/// single write().
class Lines {
 public:
  Lines() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    from_ = fdopen(ends[0], "r");
    to_ = ends[1];
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() {
    close_writing();
    fclose(from_);
  }

  int to() const { return to_; }
  /// Closes this process's write end of the pipe. After that, next() returns nullopt once all
  /// processes that inherited the write end have exited and their lines are read.
  void close_writing() {
    if (to_ >= 0) close(to_);
    to_ = -1;
  }
  /// Returns the next line, or nullopt at the end.
  std::optional<std::string> next() {
    std::string text;
    for (int c; (c = fgetc(from_)) != EOF; text += static_cast<char>(c))
      if (c == '\n') return text;
    return std::nullopt;
  }

 private:
  FILE* from_ = nullptr;
  int to_ = -1;
};

class Process {
 public:
  explicit Process(std::vector<std::string> arguments) : Process(std::move(arguments), nullptr) {}
  /// Starts a process whose output goes to `shared`.
  Process(std::vector<std::string> arguments, Lines& shared)
      : Process(std::move(arguments), &shared) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) kill_and_wait();
    close_stdin();
  }

  /// Returns the next line of the output, or nullopt at the end.
  std::optional<std::string> line() { return output_.next(); }
  std::string rest() {
    std::string text;
    while (const auto next = line()) text += *next + '\n';
    return text;
  }
  void close_stdin() {
    if (stdin_ >= 0) close(stdin_);
    stdin_ = -1;
  }
  void kill_and_wait() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Waits for the end of the process. Returns its exit code, or 128 + signal if a signal killed
  /// it.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  Process(std::vector<std::string> arguments, Lines* shared) {
    int in[2];
    if (pipe2(in, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, (shared ? *shared : output_).to(), 1);
    arguments.insert(arguments.begin(), TW_DB_WRITER);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int failed = posix_spawn(&pid_, TW_DB_WRITER, &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    output_.close_writing();
    stdin_ = in[1];
    if (failed) throw std::runtime_error("cannot start " TW_DB_WRITER);
  }

  pid_t pid_ = -1;
  int stdin_ = -1;
  Lines output_;
};

}  // namespace tw::db
