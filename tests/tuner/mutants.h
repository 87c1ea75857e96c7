// SPDX-License-Identifier: Apache-2.0
#pragma once
// Broken kernels as a table. Each row says in C how a correct kernel is made wrong.
//
// A body may use `good()`, which runs all tasks of the correct kernel's last phase on the buffers;
// `elsewhere(p)`, which does the same but writes the output to `p`; the output `out` of N elements
// of type T; the inputs `in0` (of N0 elements) and `in_last` (of N_LAST elements); `scratch`;
// `fresh`, an array with room for an output; and `task`, the index of the task. There is one task,
// or two in rows whose name begins with "race".

#include <string_view>

namespace tw::tuner {

enum class Suits { Any, Float, Int32, Signed, HasScratch };

struct Mutant {
  int fault;  ///< row of the list of faults
  std::string_view name;
  std::string_view statuses;  ///< any of these, separated by spaces
  Suits suits;
  std::string_view body;
};

inline constexpr Mutant mutants[] = {
    // Crashes.
    {34, "null", "crash", Suits::Any, "*(volatile int*)8 = 1;"},
    {34, "wild", "crash", Suits::Any, "*(volatile int*)0x123456789000 = 1;"},
    {34, "trap", "crash", Suits::Any, "__builtin_trap();"},
    {34, "divides_by_zero", "crash", Suits::Any, "volatile int zero = 0, one = 1; one /= zero;"},
    {34, "aborts", "crash", Suits::Any, "abort();"},
    {34, "bus", "crash", Suits::Any, "raise(SIGBUS);"},
    {34, "killed", "lost", Suits::Any, "raise(SIGKILL);"},
    {34, "terminated", "lost", Suits::Any, "raise(SIGTERM);"},
    {34, "jumps_to_null", "crash", Suits::Any, "void (*volatile f)(void) = 0; f();"},
    {34, "exits_0", "crash", Suits::Any, "good(); _exit(0);"},
    {34, "exits_7", "crash", Suits::Any, "_exit(7);"},
    {34, "exits_with_handlers", "crash", Suits::Any, "exit(0);"},
    {34, "returns_failure", "crash", Suits::Any, "good(); return 1;"},
    {34, "crashes_late", "crash", Suits::Any,
     "static int calls; good(); if (++calls > 5) abort();"},
    // Endless kernels.
    {35, "loops", "timeout", Suits::Any, "for (;;) __asm__ volatile(\"\");"},
    {35, "loops_deaf", "timeout", Suits::Any,
     "signal(SIGTERM, SIG_IGN); signal(SIGINT, SIG_IGN); for (;;) __asm__ volatile(\"\");"},
    {35, "stops_itself", "timeout", Suits::Any, "raise(SIGSTOP); for (;;) pause();"},
    {35, "sleeps", "timeout", Suits::Any, "good(); sleep(1000);"},
    // Forbidden uses of processes, sockets, files, and memory.
    {36, "forks", "resource", Suits::Any, "good(); if (fork() == 0) for (;;) pause();"},
    {36, "forks_bare", "resource", Suits::Any, "syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); good();"},
    {36, "executes", "resource", Suits::Any, "execl(\"/bin/true\", \"true\", (char*)0);"},
    {36, "opens_socket", "resource", Suits::Any, "good(); socket(AF_INET, SOCK_STREAM, 0);"},
    {36, "writes_file", "resource", Suits::Any,
     "good(); open(\"/tmp/tilewright_planted\", O_WRONLY | O_CREAT, 0600);"},
    {36, "removes_file", "resource", Suits::Any, "good(); unlink(\"/tmp/tilewright_planted\");"},
    {36, "signals_parent", "resource", Suits::Any, "good(); kill(getppid(), SIGUSR1);"},
    {36, "eats_memory", "resource", Suits::Any, "for (;;) _Znwm(1ul << 28);"},
    {36, "eats_memory_unchecked", "resource crash", Suits::Any,
     "for (;;) *(volatile char*)malloc(1ul << 28) = 1;"},
    // Accesses out of bounds.
    {37, "reads_past_input", "oob", Suits::Any, "good(); (void)*(volatile const char*)(in0 + N0);"},
    {37, "reads_past_last_input", "oob", Suits::Any,
     "good(); (void)*(volatile const char*)(in_last + N_LAST);"},
    {37, "reads_past_output", "oob", Suits::Any, "good(); (void)*(volatile const char*)(out + N);"},
    {37, "reads_vector_past_input", "oob", Suits::Any,
     "char v[64]; good(); for (int i = 0; i < 64; ++i) v[i] = ((volatile const char*)(in0 + N0 - "
     "1))[i];"
     " (void)v;"},
    {37, "reads_far_past_input", "oob", Suits::Any,
     "good(); (void)*(volatile const char*)(in0 + N0 + 999);"},
    {37, "reads_before_input", "oob", Suits::Any,
     "good(); (void)*(volatile const char*)(in0 - 1);"},
    {37, "reads_before_last_input", "oob", Suits::Any,
     "good(); (void)*(volatile const char*)(in_last - 1);"},
    {37, "reads_before_output", "oob", Suits::Any,
     "good(); (void)*(volatile const char*)(out - 1);"},
    {37, "writes_past_output", "oob", Suits::Any, "good(); out[N] = 1;"},
    {37, "writes_byte_past_output", "oob", Suits::Any,
     "good(); ((volatile char*)(out + N))[0] = 1;"},
    {37, "writes_before_output", "oob", Suits::Any, "good(); out[-1] = 1;"},
    {37, "writes_row_before_output", "oob", Suits::Any,
     "good(); memset(out - 20, 0, 20 * sizeof(T));"},
    {37, "writes_far_past_output", "oob", Suits::Any, "good(); out[N + 5000] = 1;"},
    {37, "writes_past_scratch", "oob", Suits::HasScratch,
     "good(); ((volatile char*)scratch)[SCRATCH] = 1;"},
    {37, "reads_before_scratch", "oob", Suits::HasScratch,
     "good(); (void)((volatile char*)scratch)[-1];"},
    {37, "overflows_stack", "oob", Suits::Any, "out[0] = (T)recurse(1);"},
    {37, "huge_frame", "oob crash", Suits::Any,
     "volatile char* frame = (volatile char*)alloca(64 << 20); for (long i = (64 << 20) - 1; i > "
     "0; i -= 4096)"
     " frame[i] = 1;"},
    // Wrong results.
    {38, "first_element", "wrong", Suits::Any, "good(); out[0] += 1;"},
    {38, "middle_element", "wrong", Suits::Any, "good(); out[N / 2] += 1;"},
    {38, "last_element", "wrong", Suits::Any, "good(); out[N - 1] += 1;"},
    {38, "last_tile", "wrong", Suits::Any,
     "good(); for (int i = N - N / 8; i < N; ++i) out[i] = 0;"},
    {38, "odd_positions", "wrong", Suits::Any,
     "good(); for (int i = 1; i < N; i += 2) out[i] += 1;"},
    {38, "all_zeros", "wrong", Suits::Any, "memset(out, 0, N * sizeof(T));"},
    {38, "constant", "wrong", Suits::Any, "for (int i = 0; i < N; ++i) out[i] = 1;"},
    {38, "negated", "wrong", Suits::Any, "good(); for (int i = 0; i < N; ++i) out[i] = -out[i];"},
    {38, "doubled", "wrong", Suits::Any, "good(); for (int i = 0; i < N; ++i) out[i] *= 2;"},
    {38, "shifted", "wrong", Suits::Any, "good(); memmove(out + 1, out, (N - 1) * sizeof(T));"},
    {38, "swapped", "wrong", Suits::Any,
     "good(); T t = out[0]; out[0] = out[N - 1]; out[N - 1] = t;"},
    {38, "reversed", "wrong", Suits::Any,
     "elsewhere(fresh); for (int i = 0; i < N; ++i) out[i] = fresh[N - 1 - i];"},
    {38, "slightly_off", "wrong", Suits::Any,
     "good(); for (int i = 0; i < N; ++i) out[i] += out[i] / 10000;"},
    {38, "clamped_at_zero", "wrong", Suits::Signed,
     "good(); for (int i = 0; i < N; ++i) if (out[i] < 0) out[i] = 0;"},
    {38, "saturates_16_bits", "wrong", Suits::Int32,
     "good(); for (int i = 0; i < N; ++i) if (out[i] > 32767) out[i] = 32767;"},
    {38, "low_bit", "wrong", Suits::Int32,
     "good(); for (int i = 0; i < N; ++i) if (out[i] > 1000) out[i] ^= 1;"},
    {38, "half_precision", "wrong", Suits::Float,
     "good(); for (int i = 0; i < N; ++i) { uint32_t u; memcpy(&u, out + i, 4); u &= 0xffff0000; "
     "memcpy(out + i, &u, 4); }"},
    {38, "not_a_number", "wrong", Suits::Float, "good(); out[N - 1] = NAN;"},
    {38, "infinite", "wrong", Suits::Float, "good(); out[0] = INFINITY;"},
    {38, "stale_everywhere", "wrong", Suits::Any, ""},
    {38, "stale_first", "wrong", Suits::Any,
     "elsewhere(fresh); memcpy(out + 1, fresh + 1, (N - 1) * sizeof(T));"},
    {38, "stale_last", "wrong", Suits::Any,
     "elsewhere(fresh); memcpy(out, fresh, (N - 1) * sizeof(T));"},
    {38, "stale_odd", "wrong", Suits::Any,
     "elsewhere(fresh); for (int i = 0; i < N; i += 2) out[i] = fresh[i];"},
    {38, "accumulates", "wrong", Suits::Any,
     "elsewhere(fresh); for (int i = 0; i < N; ++i) out[i] += fresh[i];"},
    {38, "maximum_with_old", "wrong nondeterministic", Suits::Any,
     "elsewhere(fresh); for (int i = 0; i < N; ++i) if (!(out[i] >= fresh[i])) out[i] = fresh[i];"},
    {38, "minimum_with_old", "wrong nondeterministic", Suits::Any,
     "elsewhere(fresh); for (int i = 0; i < N; ++i) if (!(out[i] <= fresh[i])) out[i] = fresh[i];"},
    {38, "race_on_an_element", "wrong nondeterministic", Suits::Any,
     "if (task == 0) good(); else out[0] = 0;"},
    {38, "race_accumulates", "wrong nondeterministic", Suits::Any,
     "if (task == 0) { good(); for (int i = 0; i < N; ++i) out[i] -= 1; } else "
     "for (int i = 0; i < N; ++i) out[i] += 1;"},
    {38, "race_reads_neighbour", "wrong nondeterministic", Suits::Any,
     "if (task == 0) { good(); out[N - 1] = 0; } else { elsewhere(fresh); out[N - 1] = out[0] == "
     "fresh[0] ? "
     "fresh[N - 1] : 0; }"},
    {38, "uninitialised_stack", "wrong nondeterministic", Suits::Any,
     "good(); out[0] += left_on_stack();"},
    {38, "uninitialised_scratch", "wrong nondeterministic", Suits::HasScratch,
     "T t; memcpy(&t, (char*)scratch + SCRATCH - sizeof t, sizeof t); if (t != 0) good(); out[0] "
     "+= t;"},
    // Changed inputs, and results that vary from call to call.
    {39, "writes_input", "mutates_input", Suits::Any, "good(); ((char*)in0)[0] = 0;"},
    {39, "writes_input_end", "mutates_input", Suits::Any,
     "good(); ((char*)(in_last + N_LAST))[-1] = 0;"},
    {39, "writes_input_and_restores", "mutates_input", Suits::Any,
     "volatile char* p = (volatile char*)in0; char old = *p; *p = 1; good(); *p = old;"},
    {39, "adds_time", "wrong nondeterministic", Suits::Any,
     "good(); out[0] += (T)(__builtin_ia32_rdtsc() & 0xfffff);"},
    {39, "adds_rand", "wrong nondeterministic", Suits::Any,
     "good(); out[0] += (T)(1 + rand() % 1000);"},
    {39, "counts_calls", "wrong nondeterministic", Suits::Any,
     "static int calls; good(); out[N / 2] += (T)calls++;"},
    {39, "wrong_after_five_calls", "wrong", Suits::Any,
     "static int calls; good(); if (++calls > 5) out[0] += 1;"},
    {39, "flickers", "wrong nondeterministic", Suits::Float,
     "static int calls; good(); uint32_t u; memcpy(&u, out, 4); u ^= (uint32_t)(calls++ & 1); "
     "memcpy(out, &u, 4);"},
    {39, "depends_on_address", "wrong nondeterministic", Suits::Any,
     "good(); out[0] += (T)(((uintptr_t)buffers[0] >> 12 & 1023) + 1);"},
    // Abuse of the connection to the tuner, and of the output.
    {40, "prints_forever", "timeout", Suits::Any,
     "static char line[65536]; for (;;) (void)!write(1, line, sizeof line);"},
    {40, "prints_1gb_and_dies", "crash timeout", Suits::Any,
     "static char line[65536]; for (int i = 0; i < 16384; ++i) (void)!write(2, line, sizeof line); "
     "abort();"},
    {40, "closes_connection", "crash", Suits::Any, "good(); close(3);"},
    {40, "closes_all", "crash", Suits::Any, "good(); for (int fd = 0; fd < 64; ++fd) close(fd);"},
    {40, "writes_garbage", "lost", Suits::Any,
     "good(); (void)!write(3, \"garbage that is no frame at all\", 31);"},
    {40, "writes_huge_length", "lost", Suits::Any,
     "good(); (void)!write(3, \"twf1\\xff\\xff\\xff\\xff"
     "0123456789abcdef\", 24);"},
    {40, "writes_half_a_frame", "lost timeout", Suits::Any,
     "good(); (void)!write(3, \"twf1\", 4);"},
    {40, "replaces_connection", "crash timeout", Suits::Any, "good(); dup2(1, 3);"},
    {40, "steals_requests", "timeout", Suits::Any,
     "static char b[64]; for (;;) (void)!read(3, b, sizeof b);"},
};

}  // namespace tw::tuner
