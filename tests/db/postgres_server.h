// SPDX-License-Identifier: Apache-2.0
#pragma once
// A PostgreSQL server that belongs to a test. It is a fresh cluster in a folder of /tmp, reached
// over a Unix socket. PostgreSQL refuses to run as root, so if the test is root the server runs as
// nobody. The server ends with its test.

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "db/engine/postgres_connection.h"

namespace tw::db {

class PostgresServer {
 public:
  /// Returns the server that all tests of a process share. The first call starts it.
  static PostgresServer& shared() {
    static PostgresServer server;
    return server;
  }

  PostgresServer() {
    std::string name = "/tmp/tw-postgres-XXXXXX";
    folder_ = mkdtemp(name.data());
    if (geteuid() == 0 && chown(folder_.c_str(), nobody, nobody) != 0)
      throw std::runtime_error("chown " + folder_);
    const pid_t setup = spawn({TW_POSTGRES_BIN "/initdb", "-D", folder_ + "/data", "-U", "owner",
                               "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"},
                              nullptr);
    int status = 0;
    waitpid(setup, &status, 0);
    if (status != 0) throw std::runtime_error("initdb failed");
    start();
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;
  ~PostgresServer() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void start() {
    int log[2];
    if (pipe2(log, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pid_ = spawn({TW_POSTGRES_BIN "/postgres", "-D", folder_ + "/data", "-k", folder_, "-c",
                  "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c",
                  "log_min_messages=log", "-c", "log_checkpoints=off"},
                 log);
    close(log[1]);
    log_ = fdopen(log[0], "r");
    std::string line;
    for (int c; (c = fgetc(log_)) != EOF; line = c == '\n' ? "" : line + static_cast<char>(c))
      if (line.ends_with("ready to accept connections")) return;
    throw std::runtime_error("postgres did not start");
  }

  /// Stops the server at once, as a power loss would.
  void stop() {
    if (pid_ <= 0) return;
    kill(pid_, SIGQUIT);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    fclose(log_);
  }

  std::string address(const std::string& database, const std::string& user = "owner") const {
    return fmt::format("postgresql://{}@/{}?host={}", user, database, folder_);
  }

  /// Runs SQL as the owner of the cluster.
  void run(const std::string& database, const std::string& sql) const {
    auto connection = PostgresConnection::open(address(database), {});
    const Status status =
        connection ? (*connection)->execute(sql) : tl::unexpected(connection.error());
    if (!status) throw std::runtime_error(sql + ": " + status.error().message);
  }

  /// Makes a database and returns its address.
  std::string make_database() {
    const std::string name = fmt::format("test{}", ++databases_);
    run("postgres", "CREATE DATABASE " + name);
    return address(name);
  }
  /// Returns the name of the database that make_database() made last.
  std::string last_database() const { return fmt::format("test{}", databases_); }

 private:
  static constexpr uid_t nobody = 65534;

  /// Starts a program. Its messages go into the pipe, or nowhere if `log` is null. Returns its PID.
  static pid_t spawn(std::vector<std::string> arguments, const int* log) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid > 0) return pid;
    if (geteuid() == 0 &&
        (setgroups(0, nullptr) != 0 || setgid(nobody) != 0 || setuid(nobody) != 0))
      _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    const int out = log ? log[1] : open("/dev/null", O_WRONLY);
    if (chdir("/") != 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(1);
    execv(argv[0], argv.data());
    _exit(1);
  }

  std::string folder_;
  pid_t pid_ = -1;
  FILE* log_ = nullptr;
  int databases_ = 0;
};

}  // namespace tw::db
