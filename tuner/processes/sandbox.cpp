// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>

#include "base/text.h"
#include "tuner/processes/guarded_buffer.h"

namespace tw::tuner {
namespace {

// --- Reports: one line and an exit code ---

constexpr std::string_view report_prefix = "[candidate] ";

/// A kind of fault, the exit code of a worker that reports it, and the status of the trial. A crash
/// by a signal has another exit code: 128 + the signal, as in shells.
struct KindRow {
  FaultKind kind;
  int exit_code;
  db::TrialStatus status;
};
constexpr std::array<KindRow, 7> kinds = {{
    {FaultKind::Crash, 100, db::TrialStatus::Crash},
    {FaultKind::OutOfBounds, 101, db::TrialStatus::Oob},
    {FaultKind::StackOverflow, 102, db::TrialStatus::Oob},
    {FaultKind::InputWritten, 103, db::TrialStatus::MutatesInput},
    {FaultKind::Resource, 104, db::TrialStatus::Resource},
    {FaultKind::Lost, 105, db::TrialStatus::Lost},
    {FaultKind::Ended, 106, db::TrialStatus::Lost},
}};
constexpr int signal_exit = 128;

constexpr const KindRow& row_of(FaultKind kind) {
  for (const KindRow& row : kinds)
    if (row.kind == kind) return row;
  return kinds[0];
}

/// A line that is put together without memory allocation, because signal handlers must not
/// allocate.
class Line {
 public:
  Line& text(std::string_view part) {
    for (const char c : part) put(c);
    return *this;
  }
  Line& number(uint64_t value, unsigned base) {
    char digits[20];
    size_t n = 0;
    do {
      digits[n++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (n > 0) put(digits[--n]);
    return *this;
  }
  void write_to(int fd) {
    put('\n');
    // Standard error may be full or closed; the exit code still tells the kind.
    [[maybe_unused]] const ssize_t ignored = ::write(fd, bytes_.data(), size_);
  }

 private:
  void put(char c) {
    if (size_ < bytes_.size()) bytes_[size_++] = c;
  }
  std::array<char, 256> bytes_;
  size_t size_ = 0;
};

/// Several threads of a kernel may fault at once: the first reports, the others wait for the exit.
void report_once() {
  static std::atomic_flag reporting = ATOMIC_FLAG_INIT;
  if (!reporting.test_and_set()) return;
  for (;;) ::pause();
}

// --- Faults, seen from inside the worker ---

/// A system call that no candidate needs. Such a call ends the worker. In a process that runs a
/// driver, some of the calls fail instead.
struct Forbidden {
  int number;
  const char* name;
};
#define TW_CALL(name) \
  Forbidden { SCMP_SYS(name), #name }
constexpr std::array always_forbidden = {
    // other processes
    TW_CALL(setsid), TW_CALL(ptrace), TW_CALL(process_vm_readv), TW_CALL(process_vm_writev),
    TW_CALL(tkill), TW_CALL(rt_sigqueueinfo),
    // ways around the other rules
    TW_CALL(io_uring_setup), TW_CALL(bpf), TW_CALL(perf_event_open), TW_CALL(userfaultfd),
    TW_CALL(unshare), TW_CALL(setns), TW_CALL(mount), TW_CALL(umount2), TW_CALL(chroot),
    TW_CALL(pivot_root), TW_CALL(reboot), TW_CALL(kexec_load), TW_CALL(init_module),
    TW_CALL(finit_module), TW_CALL(add_key), TW_CALL(keyctl)};

/// Changes of the attributes of files, which Landlock does not see.
constexpr std::array file_attributes = {TW_CALL(chown),     TW_CALL(fchown),   TW_CALL(lchown),
                                        TW_CALL(fchownat),  TW_CALL(setxattr), TW_CALL(lsetxattr),
                                        TW_CALL(fsetxattr), TW_CALL(utimensat)};

constexpr std::array network = {TW_CALL(socket), TW_CALL(socketpair), TW_CALL(connect),
                                TW_CALL(bind),   TW_CALL(listen),     TW_CALL(accept),
                                TW_CALL(accept4)};

/// Calls that are allowed only in processes that run compilers. Compiler drivers start programs and
/// raise their stack limit, and linkers make files executable.
constexpr std::array forbidden_unless_building = {TW_CALL(fork),
                                                  TW_CALL(vfork),
                                                  TW_CALL(execve),
                                                  TW_CALL(execveat),
                                                  TW_CALL(setpgid),
                                                  TW_CALL(pidfd_open),
                                                  TW_CALL(pidfd_send_signal),
                                                  TW_CALL(setrlimit),
                                                  TW_CALL(chmod),
                                                  TW_CALL(fchmod),
                                                  TW_CALL(fchmodat)};

/// System calls that write files, which are forbidden in a worker without a scratch directory.
/// Landlock alone would only refuse these calls; with this list they end the worker.
constexpr std::array forbidden_without_scratch = {
    TW_CALL(creat),   TW_CALL(truncate),  TW_CALL(unlink),    TW_CALL(unlinkat),
    TW_CALL(rename),  TW_CALL(renameat),  TW_CALL(renameat2), TW_CALL(mkdir),
    TW_CALL(mkdirat), TW_CALL(rmdir),     TW_CALL(link),      TW_CALL(linkat),
    TW_CALL(symlink), TW_CALL(symlinkat), TW_CALL(mknod),     TW_CALL(mknodat)};

/// Calls that are forbidden only with some arguments.
constexpr std::array sometimes_forbidden = {TW_CALL(clone),    TW_CALL(kill), TW_CALL(tgkill),
                                            TW_CALL(prctl),    TW_CALL(open), TW_CALL(openat),
                                            TW_CALL(prlimit64)};
#undef TW_CALL

std::string_view call_name(int number) {
  for (const Forbidden& call : always_forbidden)
    if (call.number == number) return call.name;
  for (const Forbidden& call : file_attributes)
    if (call.number == number) return call.name;
  for (const Forbidden& call : network)
    if (call.number == number) return call.name;
  for (const Forbidden& call : forbidden_unless_building)
    if (call.number == number) return call.name;
  for (const Forbidden& call : forbidden_without_scratch)
    if (call.number == number) return call.name;
  for (const Forbidden& call : sometimes_forbidden)
    if (call.number == number) return call.name;
  return "a system call";
}

uintptr_t stack_pointer(const void* context) {
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine->gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(machine->sp);
#else
  return (void)machine, 0;
#endif
}

/// True if an access at `address` that faulted was a stack overflow. The address is then near the
/// stack pointer: at most 1 MiB (a large frame) below it, or at most 64 KiB above it. It is above
/// the pointer if a call has moved the pointer beyond the end of the stack.
bool near_stack_pointer(uintptr_t address, uintptr_t pointer) {
  constexpr uintptr_t below = 1 << 20, above = 64 << 10;
  return pointer != 0 && address + below >= pointer && address < pointer + above;
}

struct Access {
  FaultKind kind;
  std::string_view where;
};

Access classify_access(const siginfo_t& info, const void* context) {
  switch (region_of(info.si_addr)) {
    case Region::GuardBefore:
      return {FaultKind::OutOfBounds, ", before the start of a buffer"};
    case Region::GuardAfter:
      return {FaultKind::OutOfBounds, ", past the end of a buffer"};
    case Region::ReadOnly:
      return {FaultKind::InputWritten, ", a write to an input"};
    case Region::Elsewhere:
      break;
  }
  if (near_stack_pointer(reinterpret_cast<uintptr_t>(info.si_addr), stack_pointer(context)))
    return {FaultKind::StackOverflow, ", a stack overflow"};
  return {FaultKind::Crash, ""};
}

void on_fault(int signal, siginfo_t* info, void* context) {
  report_once();
  Line line;
  line.text(report_prefix);
  if (signal == SIGSYS) {
    line.text("forbidden: ").text(call_name(info->si_syscall)).text(" (system call ");
    line.number(static_cast<uint64_t>(info->si_syscall), 10).text(")").write_to(STDERR_FILENO);
    ::_exit(row_of(FaultKind::Resource).exit_code);
  }
  line.text("SIG").text(::sigabbrev_np(signal));
  if (signal == SIGXFSZ) {
    line.text(": a file grew past its limit").write_to(STDERR_FILENO);
    ::_exit(row_of(FaultKind::Resource).exit_code);
  }
  Access access = {FaultKind::Crash, ""};
  if ((signal == SIGSEGV || signal == SIGBUS) && info->si_code != SI_USER &&
      info->si_code != SI_TKILL) {
    access = classify_access(*info, context);
    line.text(" at 0x").number(reinterpret_cast<uintptr_t>(info->si_addr), 16).text(access.where);
  }
  line.write_to(STDERR_FILENO);
  ::_exit(access.kind == FaultKind::Crash ? signal_exit + signal : row_of(access.kind).exit_code);
}

// --- ProcessLimits ---

Status limit(int resource, int64_t value, std::string_view name) {
  rlimit now = {};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  const auto wanted = std::min(static_cast<rlim_t>(value), now.rlim_max);
  const rlimit bound = {wanted, wanted};
  if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &bound) == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[sandbox] {} = {}: {}", name, value, std::strerror(errno)));
}

constexpr bool sanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

Status set_limits(const ProcessLimits& limits, Restrictions* done) {
  TW_RETURN_IF_ERROR(limit(RLIMIT_CORE, 0, "core size"));
  TW_RETURN_IF_ERROR(limit(RLIMIT_FSIZE, limits.file_bytes, "file size"));
  TW_RETURN_IF_ERROR(limit(RLIMIT_NOFILE, limits.open_files, "open files"));
  if (limits.address_space_bytes == 0) return {};
  if (sanitized) {  // the shadow memory of a sanitizer takes terabytes
    done->missing.push_back("address space limit: built with a sanitizer");
    return {};
  }
  return limit(RLIMIT_AS, limits.address_space_bytes, "address space");
}

// --- Landlock: nothing is written outside the scratch directory ---

// LANDLOCK_ACCESS_FS_REFER and LANDLOCK_ACCESS_FS_TRUNCATE, which older headers lack.
constexpr uint64_t refer_right = uint64_t{1} << 13, truncate_right = uint64_t{1} << 14;

/// Returns the rights that Landlock takes away: all that change a file system and that this version
/// of its ABI knows. Reading stays allowed.
uint64_t write_rights(int abi) {
  uint64_t rights = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                    LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  if (abi >= 2) rights |= refer_right;
  if (abi >= 3) rights |= truncate_right;
  return rights;
}

Status allow_writes(int ruleset, const std::string& path, uint64_t rights) {
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = rights;
  rule.parent_fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0)
    return fail(ErrorCode::Environment,
                fmt::format("[sandbox] '{}': {}", path, std::strerror(errno)));
  const long failed =
      ::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  ::close(rule.parent_fd);
  if (failed == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[sandbox] Landlock does not take '{}': {}", path, std::strerror(errno)));
}

/// Paths of the device files by which GPU drivers access GPUs; empty if there are none.
std::vector<std::string> gpu_devices() {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/dev", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with("nvidia") || name == "dri" || name == "kfd")
      paths.push_back(at->path().string());
  }
  return paths;
}

/// Allows the process to name its threads. A driver for CUDA 12.8 or newer writes the names of its
/// threads to /proc/self/task/<thread ID>/comm, and does not start if this is refused.
Status allow_thread_names(int ruleset, uint64_t rights) {
  constexpr const char* threads = "/proc/self/task";
  // A rule applies to an inode. procfs makes a new inode for the directory unless somebody holds it
  // open, so it is held open.
  static const int held = ::open(threads, O_PATH | O_CLOEXEC);
  (void)held;
  return allow_writes(ruleset, threads, rights & (LANDLOCK_ACCESS_FS_WRITE_FILE | truncate_right));
}

Status allow_driver_places(int ruleset, uint64_t rights) {
  for (const std::string& path : gpu_devices())
    TW_RETURN_IF_ERROR(allow_writes(ruleset, path, LANDLOCK_ACCESS_FS_WRITE_FILE));
  return allow_thread_names(ruleset, rights);
}

Status allow_places(int ruleset, const ProcessLimits& limits, uint64_t rights) {
  if (limits.runs_drivers) TW_RETURN_IF_ERROR(allow_driver_places(ruleset, rights));
  if (limits.scratch_dir.empty()) return {};
  TW_RETURN_IF_ERROR(allow_writes(ruleset, limits.scratch_dir, rights));
  return allow_writes(ruleset, "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE);
}

Status confine_writes(const ProcessLimits& limits, Restrictions* done) {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) {
    done->missing.push_back("Landlock: not in this kernel");
    return {};
  }
  // Only the first field of the attributes is passed, because every ABI accepts that size.
  const uint64_t rights = write_rights(static_cast<int>(abi));
  const int ruleset =
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rights, sizeof(rights), 0));
  if (ruleset < 0)
    return fail(ErrorCode::Environment,
                fmt::format("[sandbox] Landlock: {}", std::strerror(errno)));
  Status status = allow_places(ruleset, limits, rights);
  if (status && ::syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
    status =
        fail(ErrorCode::Environment, fmt::format("[sandbox] Landlock: {}", std::strerror(errno)));
  ::close(ruleset);
  done->landlock_abi = static_cast<int>(abi);
  return status;
}

// --- seccomp ---

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

/// Adds rules to a filter and keeps the first failure. A call that an architecture lacks is no
/// failure. forbid() ends the process at the call; refuse() acts as `answer` says; deny_if() and
/// deny_as() make the call fail with `error`.
class Rules {
 public:
  /// `answer` is the action for calls that drivers may try: SCMP_ACT_TRAP or SCMP_ACT_ERRNO.
  Rules(scmp_filter_ctx filter, uint32_t answer) : filter_(filter), answer_(answer) {}
  void forbid(int call) { note(seccomp_rule_add(filter_, SCMP_ACT_TRAP, call, 0)); }
  void forbid_if(int call, scmp_arg_cmp condition) {
    note(seccomp_rule_add(filter_, SCMP_ACT_TRAP, call, 1, condition));
  }
  void refuse(int call) { note(seccomp_rule_add(filter_, answer_, call, 0)); }
  void refuse_if(int call, scmp_arg_cmp condition) {
    note(seccomp_rule_add(filter_, answer_, call, 1, condition));
  }
  void deny_if(int error, int call, scmp_arg_cmp condition) {
    note(seccomp_rule_add(filter_, SCMP_ACT_ERRNO(static_cast<unsigned>(error)), call, 1,
                          condition));
  }
  void deny_as(int error, int call) {
    note(seccomp_rule_add(filter_, SCMP_ACT_ERRNO(static_cast<unsigned>(error)), call, 0));
  }
  int failure() const { return failure_; }

 private:
  void note(int result) {
    if (result != 0 && failure_ == 0) failure_ = result;
  }
  scmp_filter_ctx filter_;
  uint32_t answer_;
  int failure_ = 0;
};

void forbid_opening_for_writing(Rules* rules) {
  for (const int flag : {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC}) {
    const auto bits = static_cast<scmp_datum_t>(flag);
    rules->forbid_if(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, bits, bits));
    rules->forbid_if(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, bits, bits));
  }
}

void forbid_processes(Rules* rules) {
  for (const Forbidden& call : forbidden_unless_building) rules->refuse(call.number);
  // A thread is made by clone with CLONE_THREAD. The flags of clone3 are in memory, where a filter
  // cannot read them. So clone3 is reported as missing, and the C library uses clone.
  rules->refuse_if(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  rules->deny_as(ENOSYS, SCMP_SYS(clone3));
  const auto self = static_cast<scmp_datum_t>(::getpid());
  rules->forbid_if(SCMP_SYS(kill), SCMP_A0(SCMP_CMP_NE, self));
  rules->forbid_if(SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_NE, self));
  rules->refuse_if(SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_NE, 0));
}

/// Refuses to make sockets that are not local. All other calls on sockets stay allowed, as every
/// socket is local.
void allow_local_sockets(Rules* rules) {
  for (const int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)})
    rules->deny_if(EACCES, call, SCMP_A0(SCMP_CMP_NE, AF_UNIX));
}

int add_rules(scmp_filter_ctx filter, const ProcessLimits& limits) {
  Rules rules(filter, limits.runs_drivers ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_TRAP);
  for (const Forbidden& call : always_forbidden) rules.forbid(call.number);
  for (const Forbidden& call : file_attributes) rules.refuse(call.number);
  if (limits.runs_drivers)
    allow_local_sockets(&rules);
  else
    for (const Forbidden& call : network) rules.forbid(call.number);
  rules.forbid_if(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG));
  if (!limits.may_start_programs) forbid_processes(&rules);
  if (limits.scratch_dir.empty()) {
    for (const Forbidden& call : forbidden_without_scratch) rules.forbid(call.number);
    forbid_opening_for_writing(&rules);
    rules.deny_as(ENOSYS, SCMP_SYS(openat2));  // its flags are in memory, as those of clone3
  }
  return rules.failure();
}

std::atomic<bool> calls_are_forbidden = false;

Status forbid_calls(const ProcessLimits& limits, Restrictions* done) {
  const Filter filter(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (!filter) {
    done->missing.push_back("seccomp: no filter for this architecture");
    return {};
  }
  seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1);
  if (const int failure = add_rules(filter.get(), limits); failure != 0)
    return fail(ErrorCode::Environment,
                fmt::format("[sandbox] seccomp rule: {}", std::strerror(-failure)));
  if (const int failure = seccomp_load(filter.get()); failure != 0)
    done->missing.push_back(fmt::format("seccomp: {}", std::strerror(-failure)));
  else
    calls_are_forbidden = done->seccomp = true;
  return {};
}

/// Returns the last report in the output of a worker; nullopt if there is none.
std::optional<std::string> report_in(const std::string& tail) {
  std::optional<std::string> report;
  for (const std::string& line : split(tail, '\n'))
    if (const size_t at = line.find(report_prefix); at != std::string::npos)
      report = line.substr(at + report_prefix.size());
  return report;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

Fault classify_signal(int signal) {
  if (signal == SIGKILL) return {FaultKind::Lost, "killed by the system, as when memory runs out"};
  if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
    return {FaultKind::Ended, fmt::format("ended from outside by {}", signal_name(signal))};
  if (signal == SIGSYS || signal == SIGXFSZ || signal == SIGXCPU)
    return {FaultKind::Resource, signal_name(signal)};
  return {FaultKind::Crash, signal_name(signal)};
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
}  // namespace tw::tuner
/// LeakSanitizer calls this function when the program ends. Its check for leaks is turned off if
/// system calls are forbidden, because the check stops all threads by ptrace, which is forbidden.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return tw::tuner::calls_are_forbidden; }
namespace tw::tuner {
#endif

Result<Restrictions> restrict_self(const ProcessLimits& limits) {
  struct stat info = {};
  const std::string& scratch = limits.scratch_dir;
  if (!scratch.empty() && (::stat(scratch.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)))
    return fail(
        ErrorCode::Environment,
        fmt::format("[sandbox] scratch directory '{}' is not there; create it or name another",
                    scratch));
  Restrictions done;
  const std::filesystem::directory_iterator threads("/proc/self/task");
  if (const auto count = std::distance(begin(threads), end(threads)); count > 1)
    done.missing.push_back(fmt::format("Landlock: on {} threads that ran before", count - 1));
  TW_RETURN_IF_ERROR(set_limits(limits, &done));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    done.missing.push_back(fmt::format("no_new_privs: {}", std::strerror(errno)));
  TW_RETURN_IF_ERROR(confine_writes(limits, &done));
  TW_RETURN_IF_ERROR(forbid_calls(limits, &done));
  return done;
}

Status report_faults() {
  static const SignalStack* const main_stack = new SignalStack;  // in use until the process ends
  (void)main_stack;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGXFSZ})
    if (::sigaction(signal, &action, nullptr) != 0)
      return fail(ErrorCode::Environment,
                  fmt::format("[sandbox] {}: {}", signal_name(signal), std::strerror(errno)));
  std::set_new_handler(
      [] { exit_with(FaultKind::Resource, "out of memory within its address space limit"); });
  return {};
}

SignalStack::SignalStack() {
  constexpr size_t bytes = 64 << 10;  // the registers of AVX-512 and AMX alone take 11 KiB
  memory_ = std::make_unique<char[]>(bytes);
  stack_t stack = {};
  stack.ss_sp = memory_.get();
  stack.ss_size = bytes;
  ::sigaltstack(&stack, nullptr);
}

SignalStack::~SignalStack() {
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
}

db::TrialStatus status_of(FaultKind kind) { return row_of(kind).status; }

Fault classify(const Died& died) {
  if (died.signal != 0) return classify_signal(died.signal);
  if (died.is_unknown)
    return {FaultKind::Ended,
            "how the worker ended is unknown, because this program ignores SIGCHLD or waits for "
            "all children: reset SIGCHLD to SIG_DFL, and wait only for your own children"};
  if (died.exit_code < 0) return {FaultKind::Crash, "the worker could not be ended"};
  const std::string report = report_in(died.tail).value_or("");
  for (const KindRow& row : kinds)
    if (row.exit_code == died.exit_code) return {row.kind, report};
  if (died.exit_code > signal_exit && died.exit_code < signal_exit + SIGRTMIN)
    return {FaultKind::Crash, report.empty() ? signal_name(died.exit_code - signal_exit) : report};
  return {FaultKind::Crash, fmt::format("the worker exited with code {}", died.exit_code)};
}

void exit_with(FaultKind kind, std::string_view detail) {
  report_once();
  Line().text(report_prefix).text(detail).write_to(STDERR_FILENO);
  ::_exit(row_of(kind).exit_code);
}

}  // namespace tw::tuner
