// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/threads.h"

#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

/// Returns a product with its operands in shared memory and extents that no tile divides.
Schedule threaded_product() {
  const auto compute = dsl::parse_compute(R"(input a: f32[10, 7]
weight b: f32[7, 9]
c: f32[m=10, n=9] = sum(k=7) a[m, k] * b[k, n])");
  return Schedule(*compute)
      .split("c", "m", 8)
      .split("c", "m.1", 2)
      .split("c", "n", 4)
      .split("c", "k", 3)
      .reorder("c", {"m.0", "n.0", "k.0", "m.1.0", "n.1", "k.1", "m.1.1"})
      .cache_write("c", "n.0")
      .cache_operand("c", 1, "k.0", {"k.1", "m.1.0", "m.1.1"})
      .cache_operand("c", 2, "k.0", {"k.1", "n.1"})
      .parallel("c", "m.0")
      .parallel("c", "n.0")
      .bind("c", "m.1.0")
      .bind("c", "n.1")
      .fuse("a@c", "k.1", "m.1.0")
      .bind("a@c", "k.1*m.1.0")
      .bind("b@c", "k.1");
}

Expr thread_index(const std::string& text) { return dsl::parse_expr(text).value(); }
Stmt threads(const std::string& variable, int64_t count, Block body) {
  return {Loop{variable, Expr(0), Expr(count), LoopKind::Thread, block(std::move(body))}};
}
Stmt store(const std::string& buffer, const std::string& index, const std::string& value = "1.0") {
  return {Assign{buffer, {thread_index(index)}, thread_index(value), Combine::None}};
}
Stmt allocate(const std::string& name, int64_t elements, Scope scope, Block body) {
  return {Allocate{{name, Float32, {elements}, scope}, block(std::move(body))}};
}
Expr element(const std::string& buffer, const std::string& index) {
  return dsl::read(buffer, {thread_index(index)}, Float32);
}
Stmt copy(const std::string& to, const std::string& index, const Expr& value) {
  return {Assign{to, {thread_index(index)}, value, Combine::None}};
}

/// Returns a program without phases and with one argument, the output `out`.
Program with_output(int64_t elements) {
  Argument out;
  out.buffer = {"out", Float32, {elements}, Scope::Argument};
  out.shape = {elements};
  out.layout = dsl::Layout::row_major(1);
  out.is_output = true;
  Program program;
  program.arguments.push_back(out);
  return program;
}

/// Returns "legal", or the first line of the reason why the phase is illegal.
std::string thread_verdict(Block body, const Limits& limits = {}) {
  const Status status = check_threads({"p", {}, block(std::move(body))}, limits);
  return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
}

/// Returns the body without its n-th barrier. `n` is decremented for each barrier that is met.
Block without(const Block& body, int& n) {
  Block result;
  for (const Stmt& stmt : body) {
    if (const Block* inner = body_of(stmt)) {
      result.push_back(with_body(stmt, block(without(*inner, n))));
    } else if (!stmt.as<Barrier>() || n-- != 0) {
      result.push_back(stmt);
    }
  }
  return result;
}

int count_barriers(const Block& body) {
  int count = 0;
  for_each(body, [&](const Stmt& stmt) { count += stmt.as<Barrier>() != nullptr; });
  return count;
}

TEST(Threads, AProductThroughSharedMemoryIsRight) {
  const auto program = threaded_product().program();
  ASSERT_TRUE(program) << program.error().message;
  const Block& body = *program->phases[0].body;
  EXPECT_EQ(threads_of(body), 16);
  EXPECT_EQ(shared_bytes(body), (3 * 8 + 3 * 4) * 4);
  EXPECT_EQ(thread_bytes(body), 2 * 4);  // of c.acc[4, 4, 2] each thread has two
  EXPECT_EQ(numbered_dimensions(body).at("c.acc"), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(disagreement(threaded_product().compute(), *program), std::nullopt);
}

// If there are no thread loops, a warp shares the terms of a sum, provided that all its threads can
// read them. This holds if no thread of the block has computed the terms.
TEST(Threads, AWarpSharesASumOfInputs) {
  const auto threads_after = [](const char* declarations, const char* steps) {
    const auto compute = dsl::parse_compute(declarations);
    const auto schedule = parse_schedule(*compute, std::string("tw1\n") + steps);
    EXPECT_TRUE(schedule) << schedule.error().message;
    return threads_of(*schedule->program()->phases.back().body);
  };
  const char* sum = "input a: f32[64]; out: f32[] = sum(k=64) a[k]";
  EXPECT_EQ(threads_after(sum, ""), 1);
  EXPECT_EQ(threads_after(sum, "bind out k"), 32);
  EXPECT_EQ(threads_after(sum, "split out k 64\ncache_write out k.0\nbind out k.1"), 32);
  const char* rows = "input a: f32[4, 64]; out: f32[i=4] = sum(k=64) a[i, k]";
  EXPECT_EQ(threads_after(rows, "parallel out i\ncache_write out i\nbind out k"), 32);
  EXPECT_EQ(threads_after(rows, "bind out k"), 1);  // in the loop over rows
  const char* computed =
      "input a: f32[4, 64]; t: f32[i=4, k=64] = a[i, k] * 2.0; out: f32[i=4] = sum(k=64) t[i, k]";
  EXPECT_EQ(threads_after(computed, "parallel out i\ncompute_at t out i\nbind out k"), 1);
}

TEST(Threads, EachThreadOfAWarpHasThePrivateBuffers) {
  const auto compute = dsl::parse_compute(
      "input a: f32[4, 64]; t: f32[j=2000] = f32(j); s: f32[i=4] = sum(j=2000) t[j]; "
      "out: f32[i=4] = sum(k=64) a[i, k]; z: f32[i=4] = out[i] + s[i]");
  const std::string steps =
      "tw1\nepilogue z out\nparallel out i\ncompute_at s out i\ncompute_at t out i\n";
  EXPECT_TRUE(parse_schedule(*compute, steps)->program());
  const auto program = parse_schedule(*compute, steps + "bind out k")->program();
  ASSERT_FALSE(program);
  EXPECT_NE(program.error().message.find("keeps 8064 bytes in a thread, at most 4096"),
            std::string::npos)
      << program.error().message;
}

TEST(Threads, EachBarrierIsNeeded) {
  const Program program = threaded_product().program().value();
  const Block& body = *program.phases[0].body;
  const int barriers = count_barriers(body);
  ASSERT_EQ(barriers, 2);
  for (int i = 0; i < barriers; ++i) {
    int n = i;
    Program racy = program;
    racy.phases[0].body = block(without(body, n));
    EXPECT_EQ(count_barriers(*racy.phases[0].body), barriers - 1);
    const auto found = disagreement(threaded_product().compute(), racy);
    ASSERT_TRUE(found);
    EXPECT_NE(found->find("by two threads without a barrier between"), std::string::npos) << *found;
    EXPECT_EQ(thread_verdict(*racy.phases[0].body),
              "[threads] stage 'p': threads read what others write, without a barrier between");
  }
}

TEST(Threads, BarriersSeparateWhatWouldMeet) {
  const Block body = {allocate("s", 8, Scope::Shared,
                               {threads("t", 8, {store("s", "t")}),
                                threads("u", 8, {copy("out", "u", element("s", "7 - u"))})})};
  EXPECT_EQ(thread_verdict(body),
            "[threads] stage 'p': threads read what others write, without a barrier "
            "between");
  EXPECT_EQ(count_barriers(place_barriers(body)), 1);
  EXPECT_EQ(thread_verdict(place_barriers(body)), "legal");
  EXPECT_EQ(count_barriers(place_barriers(place_barriers(body))), 1);
}

TEST(Threads, OneOfSeveralReadersThatWritesMeetsTheOthers) {
  Program program = with_output(2);
  const auto run = [&](Block between) {
    Block body = {threads("t", 2, {store("s", "t")}),
                  {Barrier{}},
                  threads("u", 2, {copy("out", "u", element("s", "0"))})};
    body.insert(body.end(), between.begin(), between.end());
    body.push_back(threads("v", 1, {store("s", "0")}));
    program.phases = {{"p", {}, block({allocate("s", 2, Scope::Shared, body)})}};
    Storage storage;
    return evaluate(program, storage);
  };
  EXPECT_TRUE(run({{Barrier{}}}));
  const Status racy = run({});
  ASSERT_FALSE(racy);
  EXPECT_NE(racy.error().message.find("without a barrier between"), std::string::npos);
}

TEST(Threads, AnElementOfAPrivateBufferIsReadByTheThreadThatWroteIt) {
  Program program = with_output(4);
  const auto run = [&](const std::string& index) {
    program.phases = {
        {"p",
         {},
         block({allocate("s", 4, Scope::Register,
                         {threads("t", 4, {store("s", "t")}),
                          {Barrier{}},
                          threads("u", 4, {copy("out", "u", element("s", index))})})})}};
    Storage storage;
    return evaluate(program, storage);
  };
  EXPECT_TRUE(run("u"));
  const Status other = run("3 - u");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("is private to another thread"), std::string::npos);
}

TEST(Threads, ALoopMeetsItsNextIteration) {
  const Block body = {
      allocate("s", 8, Scope::Shared,
               {{Loop{"i", Expr(0), Expr(3), LoopKind::Serial,
                      block({threads("t", 8, {store("s", "t")}),
                             threads("u", 8, {copy("out", "u", element("s", "7 - u"))})})}}})};
  EXPECT_EQ(count_barriers(place_barriers(body)), 2);
}

/// Returns a body in which thread 0 stores s[0]. Then a loop of three iterations follows, in each
/// of which threads read s[0] and store elements of `out`. `more` is appended to the body of the
/// loop.
Block rows_of_outputs(const char* index, int64_t begin = 0, const Block& more = {}) {
  Block body = {threads("t", 8, {copy("out", index, element("s", "0"))})};
  body.insert(body.end(), more.begin(), more.end());
  return {allocate(
      "s", 1, Scope::Shared,
      {store("s", "0"), {Loop{"i", Expr(begin), Expr(begin + 3), LoopKind::Serial, block(body)}}})};
}

TEST(Threads, ABarrierThatOnlyTheFirstIterationNeedsStandsBeforeTheLoop) {
  const Block placed = place_barriers(rows_of_outputs("i * 8 + t"));
  const Block& inside = *placed[0].as<Allocate>()->body;
  ASSERT_EQ(inside.size(), 3u);
  EXPECT_TRUE(inside[1].as<Barrier>());
  EXPECT_EQ(count_barriers(placed), 1);
  EXPECT_EQ(thread_verdict(placed), "legal");
}

TEST(Threads, ALoopThatNeedsItsBarriersHasNoneBefore) {
  const Block placed = place_barriers(rows_of_outputs("i * 8 + t", 0, {store("s", "0")}));
  const Block& inside = *placed[0].as<Allocate>()->body;
  ASSERT_EQ(inside.size(), 2u);
  EXPECT_EQ(count_barriers(*inside[1].as<Loop>()->body), 2);
}

TEST(Threads, ElementsThatMayBeStoredTwiceAreStoredInOrder) {
  EXPECT_EQ(count_barriers(place_barriers(rows_of_outputs("i * 8 + t", 2))), 1);
  const Block read = {threads("u", 8, {copy("more", "u", element("out", "u"))})};
  EXPECT_GT(count_barriers(place_barriers(rows_of_outputs("i * 8 + t", 0, read))), 1);
  for (const char* index : {"i * 7 + t", "t", "i * 8 + t / 2"}) {
    const Block placed = place_barriers(rows_of_outputs(index));
    const auto* loop = placed[0].as<Allocate>()->body->back().as<Loop>();
    EXPECT_EQ(count_barriers(*loop->body), 1) << index;
  }
}

TEST(Threads, WhatOneReadsNeedsNone) {
  const Block body = {threads("t", 8, {copy("out", "t", element("in", "t"))}),
                      threads("u", 8, {copy("more", "u", element("in", "7 - u"))})};
  EXPECT_EQ(count_barriers(place_barriers(body)), 0);
}

TEST(Threads, NestsArePerfect) {
  EXPECT_EQ(thread_verdict({threads("t", 4, {threads("u", 4, {store("out", "t * 4 + u")})})}),
            "legal");
  EXPECT_EQ(
      thread_verdict({threads("t", 4, {store("out", "t"), threads("u", 4, {store("out", "u")})})}),
      "[threads] thread loops contain each other directly, or not at all");
}

TEST(Threads, ThereAreOnlySoMany) {
  Limits limits;
  limits.threads = 64;
  EXPECT_EQ(
      thread_verdict({threads("t", 8, {threads("u", 8, {store("out", "t * 8 + u")})})}, limits),
      "legal");
  EXPECT_EQ(thread_verdict({threads("t", 65, {store("out", "t")})}, limits),
            "[threads] 65 threads, a task has at most 64");
}

TEST(Threads, MemoryHasLimits) {
  Limits limits;
  limits.shared_bytes = 64;
  limits.thread_bytes = 16;
  const auto with = [&](int64_t elements, Scope scope) {
    return thread_verdict({allocate("s", elements, scope, {threads("t", 4, {store("s", "t")})})},
                          limits);
  };
  EXPECT_EQ(with(16, Scope::Shared), "legal");
  EXPECT_EQ(with(17, Scope::Shared),
            "[threads] stage 'p' shares 80 bytes between its threads, at most 64");
  const Block own = {threads("t", 4, {allocate("r", 5, Scope::Register, {store("r", "4")})})};
  EXPECT_EQ(thread_verdict(own, limits),
            "[threads] stage 'p' keeps 20 bytes in a thread, at most 16");
}

TEST(Threads, RegistersAreAThreadsOwn) {
  const auto with = [](Block uses) {
    return thread_verdict({allocate("r", 8, Scope::Register, std::move(uses))});
  };
  EXPECT_EQ(with({threads("t", 8, {store("r", "t")}),
                  threads("t", 8, {copy("out", "t", element("r", "t"))})}),
            "legal");
  // Two thread loops with the same extent number the same threads, whatever their variables are
  // called.
  EXPECT_EQ(with({threads("t", 8, {store("r", "t")}),
                  threads("u", 8, {copy("out", "u", element("r", "u"))})}),
            "legal");
  EXPECT_EQ(with({threads("t", 8, {store("r", "t")}),
                  threads("u", 4, {copy("out", "u", element("r", "u"))})}),
            "[threads] elements of 'r' pass from one thread to another");
  EXPECT_EQ(with({threads("t", 8, {store("r", "t")}),
                  threads("u", 2, {threads("v", 4, {copy("out", "u", element("r", "v"))})})}),
            "[threads] 'r' is a thread's own, but loop 'u' does not index it");
  EXPECT_EQ(with({threads("t", 8, {store("r", "7 - t")})}),
            "[threads] 'r' is a thread's own, but loop 't' does not index it");
}

TEST(Threads, AWarpReducesWhatAllThreadsSee) {
  const auto reduce = [](const std::string& to, const Expr& value, Combine combine = Combine::Sum) {
    return Stmt{Loop{"j", Expr(0), Expr(8), LoopKind::Reduce,
                     block(single({Assign{"out", {thread_index(to)}, value, combine}}))}};
  };
  const auto partial = [&](Scope scope, Stmt last) {
    return thread_verdict(
        {allocate("s", 8, scope, {threads("t", 8, {store("s", "t")}), {Barrier{}}, last})});
  };
  EXPECT_EQ(partial(Scope::Shared, reduce("0", element("s", "j"))), "legal");
  EXPECT_EQ(partial(Scope::Register, reduce("0", element("s", "j"))),
            "[threads] a warp reduces 's' together, which each thread has for itself");
  EXPECT_EQ(partial(Scope::Shared, reduce("j", element("s", "j"))),
            "[threads] what a warp reduces together is one combination into one element");
  EXPECT_EQ(partial(Scope::Shared, reduce("0", element("s", "j"), Combine::None)),
            "[threads] what a warp reduces together is one combination into one element");
  EXPECT_EQ(partial(Scope::Shared, threads("u", 8, {reduce("0", element("s", "j"))})),
            "[threads] what a warp reduces together stands outside of thread loops");
}

// The reduction by a warp reads an element that only thread 0 writes, so that a barrier is needed.
TEST(Threads, AReductionWaitsForWhatOneThreadWrote) {
  const Block both = {
      store("s", "i"),
      {Loop{"j", Expr(0), Expr(8), LoopKind::Reduce,
            block(single({Assign{"out", {thread_index("i")}, element("s", "j"), Combine::Sum}}))}}};
  const Block body = {allocate("s", 8, Scope::Shared,
                               {threads("t", 8, {store("s", "t")}),
                                {Barrier{}},
                                {Loop{"i", Expr(0), Expr(3), LoopKind::Serial, block(both)}}})};
  EXPECT_EQ(thread_verdict(body),
            "[threads] stage 'p': threads read what others write, without a barrier between");
  // A barrier is placed between store and reduction, and another before the next iteration's store.
  const Block placed = place_barriers(body);
  EXPECT_EQ(count_barriers(placed), 3);
  EXPECT_EQ(thread_verdict(placed), "legal");
}

TEST(Threads, WhatIsSharedIsNotInsideANest) {
  EXPECT_EQ(thread_verdict({threads("t", 8, {allocate("s", 8, Scope::Shared, {store("s", "t")})})}),
            "[threads] 's' is shared, but each thread would have one");
  EXPECT_EQ(thread_verdict({threads("t", 8, {store("out", "t"), {Barrier{}}})}),
            "[threads] a barrier that only some threads reach");
}

}  // namespace
}  // namespace tw::schedules
