// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/frame.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "base/random.h"

namespace tw::tuner {
namespace {

struct Pair {
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0); }
  ~Pair() {
    close_end(0);
    close_end(1);
  }
  void close_end(int i) {
    if (fds[i] >= 0) ::close(fds[i]);
    fds[i] = -1;
  }
  int fds[2];
};

std::string random_bytes(Random& random, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  for (char& b : bytes) b = static_cast<char>(random.below(256));
  return bytes;
}

TEST(FrameReader, TakesPiecesOfAnySize) {
  Random random(1);
  std::vector<std::string> payloads;
  std::string stream;
  for (const int64_t size : {0, 1, 23, 24, 25, 5000}) {
    payloads.push_back(random_bytes(random, size));
    stream += encode_frame(payloads.back()).value();
  }
  FrameReader reader;
  std::vector<std::string> got;
  for (size_t at = 0; at < stream.size();) {
    const auto piece = static_cast<size_t>(random.below(100));
    reader.feed(std::string_view(stream).substr(at, piece));
    at += piece;
    for (auto next = reader.next().value(); next; next = reader.next().value())
      got.push_back(*next);
  }
  EXPECT_EQ(got, payloads);
  EXPECT_EQ(reader.pending(), 0u);
}

TEST(FrameReader, Fault40_AnyFlippedByteIsNoticed) {
  const std::string good = encode_frame("a payload").value();
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 1;
    FrameReader reader;
    reader.feed(bad);
    const auto next = reader.next();
    // With a flipped length, the reader waits for more bytes or the checksum fails. It never
    // returns a payload.
    EXPECT_TRUE(!next || !next->has_value()) << at;
  }
}

TEST(FrameReader, Fault40_GarbageIsNoticedAtItsFirstByte) {
  FrameReader reader;
  reader.feed("x");
  ASSERT_FALSE(reader.next());
}

TEST(FrameReader, Fault40_OversizedLengthIsRefusedBeforeItsBytesCome) {
  std::string head = encode_frame("").value();
  head[4] = head[5] = head[6] = head[7] = '\xff';
  FrameReader reader;
  reader.feed(head);
  const auto next = reader.next();
  ASSERT_FALSE(next);
  EXPECT_NE(next.error().message.find("4294967295"), std::string::npos) << next.error().message;
}

TEST(Frame, RefusesToSendWhatNobodyWouldAccept) {
  EXPECT_FALSE(encode_frame(std::string(max_frame_bytes + 1, 'x')));
}

TEST(Frame, BlockingFunctionsCarryMoreThanTheSocketHolds) {
  Random random(2);
  const std::string payload = random_bytes(random, 3 << 20);
  Pair pair;
  std::thread writer([&] { EXPECT_TRUE(write_frame(pair.fds[0], payload)); });
  const auto got = read_frame(pair.fds[1]);
  writer.join();
  ASSERT_TRUE(got && got->has_value());
  EXPECT_TRUE(**got == payload);
}

TEST(Frame, ReadsNothingPastItsFrame) {
  Pair pair;
  ASSERT_TRUE(write_frame(pair.fds[0], "one"));
  ASSERT_TRUE(write_frame(pair.fds[0], "two"));
  EXPECT_EQ(read_frame(pair.fds[1]).value(), "one");
  EXPECT_EQ(read_frame(pair.fds[1]).value(), "two");
}

TEST(Frame, EndBetweenFramesIsNoErrorEndInsideIs) {
  Pair clean;
  clean.close_end(0);
  EXPECT_EQ(read_frame(clean.fds[1]).value(), std::nullopt);

  const std::string frame = encode_frame("payload").value();
  for (const size_t cut : {size_t{3}, frame.size() - 1}) {
    Pair cut_short;
    ASSERT_EQ(::write(cut_short.fds[0], frame.data(), cut), static_cast<ssize_t>(cut));
    cut_short.close_end(0);
    EXPECT_FALSE(read_frame(cut_short.fds[1])) << cut;
  }
}

TEST(Frame, WritingToAClosedPeerIsAnErrorNotASignal) {
  Pair pair;
  pair.close_end(1);
  EXPECT_FALSE(write_frame(pair.fds[0], "x"));
}

TEST(Frame, SignalsThatInterruptDoNoHarm) {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {};  // without SA_RESTART, so calls return EINTR
  ::sigaction(SIGUSR1, &action, &before);
  Pair pair;
  std::atomic<bool> done{false};
  std::string got;
  std::thread reader([&] {
    got = read_frame(pair.fds[1]).value().value();
    done = true;
  });
  const std::string frame = encode_frame("interrupted").value();
  for (const char byte : frame) {
    for (int i = 0; i < 20; ++i) ::pthread_kill(reader.native_handle(), SIGUSR1);
    ASSERT_EQ(::write(pair.fds[0], &byte, 1), 1);
  }
  reader.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(got, "interrupted");
}

}  // namespace
}  // namespace tw::tuner
