// SPDX-License-Identifier: Apache-2.0
// A worker that misbehaves on request. Each message is the name of a misdeed in the table below.
// The reply, if there is any, is "done". The first argument says how the worker is confined:
//
//   planted_worker confined [scratch directory]   limits and fault reports as for a candidate
//   planted_worker building <scratch directory>   the same, but programs may be started
//   planted_worker driving <scratch directory>    as for a device, whose driver is in the process
//   planted_worker free                           neither limits nor fault reports

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tuner/processes/frame.h"
#include "tuner/processes/guarded_buffer.h"
#include "tuner/processes/process.h"
#include "tuner/processes/sandbox.h"

namespace tw::tuner {
namespace {

std::string scratch_directory;

void forever() {
  for (;;) asm volatile("");
}

GuardedBuffer buffer(size_t bytes, Align align) {
  auto made = GuardedBuffer::make(bytes, {.align = align});
  TW_CHECK(made.has_value());
  return std::move(*made);
}

/// Returns the address through a volatile pointer, so that the compiler neither warns about the
/// access nor drops it.
volatile char* at(const GuardedBuffer& b, std::ptrdiff_t offset) {
  return reinterpret_cast<volatile char*>(b.data()) + offset;
}

// Signals.
void segv() {
  volatile uintptr_t nowhere = 64;
  *reinterpret_cast<volatile int*>(nowhere) = 1;
}
void ill() { __builtin_trap(); }
// The test wants the processor's trap, not a report of a sanitizer.
__attribute__((no_sanitize("undefined"))) void fpe() {
  volatile int zero = 0;
  volatile int result = 1 / zero;
  (void)result;
  ::raise(SIGFPE);  // for processors that do not trap at a division by zero
}
void bus() {
  const int fd = ::memfd_create("empty", MFD_CLOEXEC);
  auto* page = static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
  volatile char past_the_file = page[0];
  (void)past_the_file;
}
void exit_7() { ::_exit(7); }

// Time.
void loop() {
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  forever();
}
void stop() {
  ::raise(SIGSTOP);
  forever();
}

// Resources.
void eat_memory() {
  std::vector<std::vector<char>> eaten;
  for (;;) eaten.emplace_back(size_t{64} << 20);
}
/// Forks as the C library does, but without the handlers that a sanitizer adds. Their locks would
/// hang the child.
void fork_process() {
  if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) forever();
}
void exec_program() { ::execl("/bin/true", "true", nullptr); }
void open_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
}
void write_home() { std::ofstream(scratch_directory + "/../tilewright_planted_file") << "planted"; }
void write_scratch() { std::ofstream(scratch_directory + "/planted_file") << "planted"; }
void fill_disk() {
  std::ofstream file(scratch_directory + "/planted_file");
  const std::string chunk(1 << 20, 'x');
  for (int i = 0; i < 64 && file; ++i) file << chunk << std::flush;
}
/// Makes calls that drivers try. Each is refused with an error, and the process goes on.
void try_much() {
  const std::string file = scratch_directory + "/planted_file";
  const rlimit files = {32, 32};
  const timespec now[2] = {};
  TW_CHECK(::fork() == -1 && errno == EPERM);
  TW_CHECK(::execl("/bin/true", "true", nullptr) == -1 && errno == EPERM);
  TW_CHECK(::chmod(file.c_str(), 0700) == -1 && errno == EPERM);
  TW_CHECK(::fchmod(STDERR_FILENO, 0700) == -1 && errno == EPERM);
  TW_CHECK(::utimensat(AT_FDCWD, file.c_str(), now, 0) == -1 && errno == EPERM);
  TW_CHECK(::setrlimit(RLIMIT_NOFILE, &files) == -1 && errno == EPERM);
}
void connect_locally() {
  int ends[2];
  TW_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const int local = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {AF_UNIX, "/no/such/service"};
  TW_CHECK(::connect(local, reinterpret_cast<sockaddr*>(&address), sizeof address) == -1 &&
           errno == ENOENT);
}
void name_thread() {
  std::thread([] {
    std::ofstream comm("/proc/self/task/" + std::to_string(::gettid()) + "/comm");
    TW_CHECK(bool(comm << "planted" << std::flush));
  }).join();
}
void open_network() { TW_CHECK(::socket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EACCES); }
void kill_parent() { ::kill(::getppid(), SIGUSR1); }
void trace_parent() { ::syscall(SYS_ptrace, 16, ::getppid(), 0, 0); }
void survive_parent() { ::syscall(SYS_prctl, 1, 0, 0, 0, 0); }

// Accesses outside of a buffer.
void read_past_end() { (void)*at(buffer(4096, Align::End), 4096); }
void write_past_end() { *at(buffer(4096, Align::End), 4096) = 1; }
void read_before_start() { (void)*at(buffer(100, Align::Begin), -1); }
void write_before_start() { *at(buffer(100, Align::Begin), -1) = 1; }
void write_input() {
  GuardedBuffer input = buffer(4096, Align::End);
  TW_CHECK(input.make_read_only().has_value());
  *at(input, 17) = 1;
}
void past_end_on_threads() {
  const GuardedBuffer b = buffer(64, Align::End);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&b] {
      const SignalStack stack;
      *at(b, 64) = 1;
    });
  for (std::thread& thread : threads) thread.join();
}
[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}
void overflow_stack() { std::printf("%d", recurse(1)); }
void overflow_thread_stack() {
  std::thread([] {
    const SignalStack stack;
    std::printf("%d", recurse(1));
  }).join();
}

// Misuse of the connection.
void print_1gb() {
  const std::string line(1 << 16, 'x');
  for (int i = 0; i < 1 << 14; ++i)
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return;
  std::fprintf(stderr, "last words\n");
}
void print_forever() {
  const std::string line(1 << 16, 'x');
  while (::write(STDOUT_FILENO, line.data(), line.size()) > 0) {
  }
}
void close_all() {
  for (int fd = 0; fd < 64; ++fd) ::close(fd);
  forever();
}
void garbage() {
  const std::string bytes(1000, 'g');
  (void)!::write(worker_fd, bytes.data(), bytes.size());
}
void huge_frame() {
  const char head[] =
      "twf1\xff\xff\xff\xff"
      "0123456789abcdef";
  (void)!::write(worker_fd, head, sizeof(head) - 1);
  const std::string bytes(1 << 16, 'h');
  while (::write(worker_fd, bytes.data(), bytes.size()) > 0) {
  }
}
void bad_checksum() {
  std::string frame = encode_frame("payload").value();
  frame.back() = '?';
  (void)!::write(worker_fd, frame.data(), frame.size());
}

// Good deeds.
void nothing() {}
void start_threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] {});
  for (std::thread& thread : threads) thread.join();
}
/// Acts as a compiler does in the eyes of the sandbox: starts a program that writes a file and
/// makes it executable.
void build() {
  const std::string file = scratch_directory + "/built";
  TW_CHECK(std::system(("echo x > " + file + " && chmod +x " + file + " 2> /dev/null").c_str()) ==
           0);
}
/// Acts as a compiler that takes all memory. It inherits the address space limit and fails; this
/// process lives on.
void build_without_end() { TW_CHECK(std::system("tail /dev/zero > /dev/null 2> /dev/null") != 0); }
/// Replies with the process ID of a child that would live on, and exits.
void leave_child() {
  const pid_t child = ::fork();
  if (child == 0) forever();
  TW_CHECK(write_frame(worker_fd, std::to_string(child)).has_value());
  ::_exit(0);
}
/// Starts a worker of its own that loops, replies with its process ID, and never returns.
void nest() {
  auto inner = Process::start({.argv = {"/proc/self/exe", "free"}}, monotonic_clock());
  TW_CHECK(inner.has_value() && inner->send("loop").has_value());
  TW_CHECK(write_frame(worker_fd, std::to_string(inner->pid())).has_value());
  forever();
}

struct Deed {
  std::string_view name;
  void (*run)();
};
constexpr Deed deeds[] = {
    {"segv", segv},
    {"ill", ill},
    {"fpe", fpe},
    {"bus", bus},
    {"abort", std::abort},
    {"exit", exit_7},
    {"loop", loop},
    {"stop", stop},
    {"eat_memory", eat_memory},
    {"fork", fork_process},
    {"exec", exec_program},
    {"socket", open_socket},
    {"write_home", write_home},
    {"write_scratch", write_scratch},
    {"fill_disk", fill_disk},
    {"try_much", try_much},
    {"connect_locally", connect_locally},
    {"name_thread", name_thread},
    {"open_network", open_network},
    {"kill_parent", kill_parent},
    {"trace_parent", trace_parent},
    {"survive_parent", survive_parent},
    {"read_past_end", read_past_end},
    {"write_past_end", write_past_end},
    {"read_before_start", read_before_start},
    {"write_before_start", write_before_start},
    {"write_input", write_input},
    {"past_end_on_threads", past_end_on_threads},
    {"overflow_stack", overflow_stack},
    {"overflow_thread_stack", overflow_thread_stack},
    {"print_1gb", print_1gb},
    {"print_forever", print_forever},
    {"close_all", close_all},
    {"garbage", garbage},
    {"huge_frame", huge_frame},
    {"bad_checksum", bad_checksum},
    {"nothing", nothing},
    {"start_threads", start_threads},
    {"build", build},
    {"build_without_end", build_without_end},
    {"leave_child", leave_child},
    {"nest", nest},
};

std::string limits_text() {
  rlimit core = {}, files = {};
  ::getrlimit(RLIMIT_CORE, &core);
  ::getrlimit(RLIMIT_NOFILE, &files);
  return "core " + std::to_string(core.rlim_cur) + " files " + std::to_string(files.rlim_cur);
}

/// Returns the reply to a message. "echo ...", "limits" and "group" are questions; the other
/// messages are misdeeds.
std::string answer(const std::string& message) {
  if (message.starts_with("echo ")) return message.substr(5);
  if (message == "limits") return limits_text();
  if (message == "group") return std::to_string(::getpgrp());
  for (const Deed& deed : deeds) {
    if (deed.name != message) continue;
    deed.run();
    return "done";
  }
  return "unknown deed";
}

Status confine(int argc, char** argv) {
  TW_RETURN_IF_ERROR(report_faults());
  ProcessLimits limits;
  limits.address_space_bytes = int64_t{1} << 30;
  limits.file_bytes = int64_t{8} << 20;
  limits.may_start_programs = argv[1] == std::string_view("building");
  limits.runs_drivers = argv[1] == std::string_view("driving");
  if (argc > 2) limits.scratch_dir = scratch_directory = argv[2];
  TW_TRY(const Restrictions done, restrict_self(limits));
  for (const std::string& missing : done.missing) std::fprintf(stderr, "no %s\n", missing.c_str());
  return {};
}

Status serve(int argc, char** argv) {
  TW_RETURN_IF_ERROR(enter_worker());
  if (argc > 1 && argv[1] != std::string_view("free")) TW_RETURN_IF_ERROR(confine(argc, argv));
  for (;;) {
    TW_TRY(const auto message, read_frame(worker_fd));
    if (!message) return {};
    TW_RETURN_IF_ERROR(write_frame(worker_fd, answer(*message)));
  }
}

}  // namespace
}  // namespace tw::tuner

int main(int argc, char** argv) {
  const auto status = tw::tuner::serve(argc, argv);
  if (status) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
