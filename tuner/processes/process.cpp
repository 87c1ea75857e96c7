// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tw::tuner {
namespace {

constexpr int64_t second_ns = 1'000'000'000;
/// Time to wait for the exit of a worker that closed its connection. Such a worker is normally
/// exiting: the system closes its descriptors a moment before it ends.
constexpr int64_t dying_ns = second_ns;
/// Longest time to wait for the end of a killed worker. SIGKILL works within a millisecond unless
/// the kernel itself is stuck, for instance in a driver.
constexpr int64_t unkillable_ns = 5 * second_ns;
constexpr size_t chunk_bytes = 64 << 10;
/// Longest time until the deadline's clock is read again. The clock may jump in a test, so a wait
/// until the deadline could be too long.
constexpr int64_t look_ns = second_ns / 10;
/// Most bytes of output that are read between two looks at the deadline, so that a worker that
/// prints without end cannot keep receive() past its deadline.
constexpr size_t drain_bytes = 1 << 20;

Error system_error(std::string_view what,
                   std::string_view fix = "raise the limit or end what uses it up") {
  return Error{ErrorCode::Environment,
               fmt::format("[worker] {}: {}; {}", what, std::strerror(errno), fix)};
}

/// A descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// The pairs of descriptors between a worker and its parent; all close on exec.
struct Connection {
  Fd parent_channel, child_channel, parent_output, child_output;
};

/// Replaces a descriptor by a copy that has a number above worker_fd. The child sets its
/// descriptors 0 to worker_fd one after the other, and would overwrite a descriptor with such a
/// number before it is copied.
Status move_up(Fd* fd) {
  const int moved = ::fcntl(fd->get(), F_DUPFD_CLOEXEC, worker_fd + 1);
  if (moved < 0) return tl::unexpected(system_error("no descriptor left"));
  *fd = Fd(moved);
  return {};
}

Result<Connection> connect() {
  int channel[2], output[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0)
    return tl::unexpected(system_error("socketpair"));
  Connection c;
  c.parent_channel = Fd(channel[0]);
  c.child_channel = Fd(channel[1]);
  if (::pipe2(output, O_CLOEXEC) != 0) return tl::unexpected(system_error("pipe"));
  c.parent_output = Fd(output[0]);
  c.child_output = Fd(output[1]);
  TW_RETURN_IF_ERROR(move_up(&c.child_channel));
  TW_RETURN_IF_ERROR(move_up(&c.child_output));
  for (const int fd : {c.parent_channel.get(), c.parent_output.get()})
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return c;
}

/// File actions and attributes of posix_spawn(), which the child applies between vfork and exec.
class SpawnPlan {
 public:
  explicit SpawnPlan(const Connection& c) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, c.child_output.get(), 1);
    posix_spawn_file_actions_adddup2(&actions_, c.child_output.get(), 2);
    posix_spawn_file_actions_adddup2(&actions_, c.child_channel.get(), worker_fd);
    posix_spawn_file_actions_addclosefrom_np(&actions_, worker_fd + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

timespec to_timespec(int64_t ns) {
  ns = std::max<int64_t>(ns, 0);
  return {static_cast<time_t>(ns / second_ns), static_cast<long>(ns % second_ns)};
}

}  // namespace

Process::Process(ProcessOptions options, Clock clock)
    : options_(std::move(options)), clock_(std::move(clock)) {}

Result<Process> Process::start(ProcessOptions options, Clock clock) {
  if (options.argv.empty())
    return fail(ErrorCode::Internal, "[worker] an empty command, a program's path expected");
  Process process(std::move(options), std::move(clock));
  TW_RETURN_IF_ERROR(process.spawn());
  return process;
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  kill();
  options_ = std::move(other.options_);
  clock_ = std::move(other.clock_);
  pid_ = std::exchange(other.pid_, -1);
  pidfd_ = std::exchange(other.pidfd_, -1);
  channel_ = std::exchange(other.channel_, -1);
  output_ = std::exchange(other.output_, -1);
  outgoing_ = std::move(other.outgoing_);
  reader_ = std::move(other.reader_);
  tail_ = std::move(other.tail_);
  return *this;
}

Process::~Process() { kill(); }

Status Process::spawn() {
  TW_TRY(Connection connection, connect());
  const SpawnPlan plan(connection);
  const auto argv = pointers(options_.argv);
  const auto environment = pointers(options_.environment);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0], plan.actions(), plan.attributes(), argv.data(),
                                  options_.environment.empty() ? environ : environment.data());
  if (error != 0) {
    errno = error;
    return tl::unexpected(system_error(fmt::format("'{}' cannot be started", options_.argv[0]),
                                       "check that the program is installed whole"));
  }
  pid_ = pid;
  channel_ = connection.parent_channel.release();
  output_ = connection.parent_output.release();
  outgoing_.clear();
  reader_ = {};
  tail_.clear();
  // The system call is made directly, because <sys/pidfd.h> of glibc 2.36 has no C linkage.
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd_ >= 0) return {};
  const Error failed = system_error("pidfd_open");
  kill();
  return tl::unexpected(failed);
}

Status Process::send(std::string_view message) {
  if (!running()) return fail(ErrorCode::Environment, "[worker] it has ended; restart it first");
  TW_TRY(const std::string frame, encode_frame(message));
  outgoing_ += frame;
  flush();
  return {};
}

Outcome Process::receive(const Deadline& deadline) {
  TW_CHECK(running());
  for (;;) {
    flush();
    // The check if the worker has ended is made before the read. So a reply that the worker sent
    // just before its end still counts.
    const bool exited = exited_within(0);
    read_channel();
    drain_output();
    auto reply = reader_.next();
    if (!reply) return garbled(reply.error().message);
    if (reply->has_value()) return Reply{std::move(**reply)};
    if (exited) return reap();
    if (channel_ < 0) return lost_channel(deadline);
    if (deadline.stop.is_stopped()) {
      kill();
      return Cancelled{tail_};
    }
    const int64_t remaining_ns = deadline.at_ns - clock_();
    if (remaining_ns <= 0) {
      kill();
      return TimedOut{tail_};
    }
    deadline.tell_of_waiting();
    wait_for_events(remaining_ns);
  }
}

Status Process::restart() {
  kill();
  return spawn();
}

void Process::kill() {
  if (!running()) return;
  reap();
}

void Process::flush() {
  while (!outgoing_.empty() && channel_ >= 0) {
    const ssize_t n = ::send(channel_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return outgoing_.clear();  // the reading side is gone, which receive() reports
    outgoing_.erase(0, static_cast<size_t>(n));
  }
}

void Process::read_channel() {
  std::array<char, chunk_bytes> chunk;
  // The reader never holds more than the largest frame and one or two chunks, whatever the worker
  // sends.
  while (channel_ >= 0 && reader_.pending() < max_frame_bytes + chunk_bytes) {
    const ssize_t n = ::recv(channel_, chunk.data(), chunk.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      ::close(std::exchange(channel_, -1));
      return;
    }
    reader_.feed({chunk.data(), static_cast<size_t>(n)});
  }
}

void Process::drain_output() {
  std::array<char, chunk_bytes> chunk;
  for (size_t drained = 0; output_ >= 0 && drained < drain_bytes;) {
    const ssize_t n = ::read(output_, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      ::close(std::exchange(output_, -1));
      return;
    }
    drained += static_cast<size_t>(n);
    tail_.append(chunk.data(), static_cast<size_t>(n));
    if (tail_.size() > options_.tail_bytes) tail_.erase(0, tail_.size() - options_.tail_bytes);
  }
}

void Process::wait_for_events(int64_t timeout_ns) {
  const short channel_events = outgoing_.empty() ? POLLIN : POLLIN | POLLOUT;
  std::array<pollfd, 3> events = {pollfd{channel_, channel_events, 0}, pollfd{output_, POLLIN, 0},
                                  pollfd{pidfd_, POLLIN, 0}};
  const timespec timeout = to_timespec(std::min(timeout_ns, look_ns));
  ::ppoll(events.data(), events.size(), &timeout, nullptr);
}

bool Process::exited_within(int64_t timeout_ns) const {
  const timespec timeout = to_timespec(timeout_ns);
  pollfd event = {pidfd_, POLLIN, 0};
  int ready;
  do {
    ready = ::ppoll(&event, 1, &timeout, nullptr);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// Kills the whole process group, and then reaps the worker. While the worker is not reaped, no
/// other process can get its process ID, so the signal reaches no foreign process.
Died Process::reap() {
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  Died died;
  siginfo_t info = {};
  if (pidfd_ < 0 || exited_within(unkillable_ns)) {
    const auto id = static_cast<id_t>(pid_);
    int failed;
    do {
      failed = ::waitid(P_PID, id, &info, WEXITED);
    } while (failed != 0 && errno == EINTR);
    died.is_unknown = failed != 0;
  }
  if (info.si_code == CLD_EXITED) died.exit_code = info.si_status;
  if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) died.signal = info.si_status;
  drain_output();
  died.tail = tail_;
  forget();
  return died;
}

Outcome Process::garbled(std::string message) {
  kill();
  return Garbled{std::move(message), tail_};
}

Outcome Process::lost_channel(const Deadline& deadline) {
  const int64_t remaining_ns = std::max<int64_t>(deadline.at_ns - clock_(), 0);
  if (exited_within(std::min(remaining_ns, dying_ns))) return reap();
  return garbled("[worker] it closed its connection and went on running");
}

void Process::forget() {
  for (int* fd : {&channel_, &output_, &pidfd_})
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
  pid_ = -1;
}

Status enter_worker() {
  // The order of the calls matters. If the parent dies after the first call, the system kills this
  // process. If the parent died before that call, this process has another parent by now. The
  // socket still names the original parent as the process at its other end.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(worker_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return fail(ErrorCode::Environment,
                "[worker] descriptor 3 is no connection; workers are started by the tuner only");
  if (peer.pid != ::getppid())
    return fail(ErrorCode::Environment, "[worker] the tuner that started it is gone");
  return {};
}

}  // namespace tw::tuner
