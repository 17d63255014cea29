// Real processes: one end of a 16 MB transfer is killed or stopped in the middle, over each transport between
// processes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "net/same_host/shared_memory.h"
#include "net/testing.h"
#include "net/transports.h"

namespace leat::net {
namespace {

using std::chrono::milliseconds;
using testing::Recorder;
using testing::RunUntil;

// For a stopped peer; a killed one is detected at once. Long enough that neither end stalls for lack of a
// core.
constexpr Duration kStall = std::chrono::seconds(1);
constexpr Duration kNoStall = std::chrono::seconds(20);
constexpr size_t kPayload = 16 << 20;
constexpr size_t kSegment = 1 << 20;

struct Case {
  std::string kind;  // kind of transport
  int signal;        // sent to the child in the middle
  bool child_sends;  // or receives
};

std::unique_ptr<Transport> MakeTransport(Loop& loop, const Case& test, metrics::Registry* metrics = nullptr) {
  TransportOptions options{
      .token = "t", .stall_timeout = test.signal == SIGSTOP ? kStall : kNoStall, .metrics = metrics};
  if (test.kind == "Tcp") return MakeTcpTransport(loop, options);
  if (test.kind == "UcxNetwork") {
    options.shared_memory = false;
    options.trusted_network = true;
    options.network_transports = "tcp";
  }
  return MakeUcxTransport(loop, options);
}

Spans InSegments(std::span<std::byte> all) {
  Spans spans;
  for (size_t at = 0; at < all.size(); at += kSegment) spans.push_back(all.subspan(at, kSegment));
  return spans;
}

// The peer: connects, sends or receives one message, and sees the connection end.
void Peer(const std::string& address, const Case& test) {
  alarm(120);  // ends even if the test fails
  Loop loop;
  auto transport = MakeTransport(loop, test);
  Recorder recorder;
  recorder.cut = InSegments;
  recorder.on_segment = [&](Connection&, size_t i) {
    if (!test.child_sends && i == 0) raise(test.signal);
  };
  const Bytes payload(kPayload);
  std::unique_ptr<Connection> connection;
  transport->Connect(address, &recorder, std::chrono::seconds(60), [&](auto result) {
    if (!result.ok()) _exit(3);
    connection = std::move(*result);
    if (test.child_sends) {
      connection->Send(1, Bytes(10), {ByteView(payload)});
    } else {
      connection->Send(2, {}, {});
    }
  });
  const bool ended = RunUntil(loop, [&] { return recorder.closed.has_value(); });
  _exit(ended && recorder.violations == 0 ? 0 : 4);
}

// Runs this program again as the peer, because loaded libraries do not survive a fork. UCX settings from the
// environment must not matter.
pid_t StartPeer(const std::string& address, const Case& test) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (const char* shards : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) unsetenv(shards);
  setenv("LEAT_TEST_ADDRESS", address.c_str(), 1);
  setenv("LEAT_TEST_KIND", test.kind.c_str(), 1);
  setenv("LEAT_TEST_SIGNAL", std::to_string(test.signal).c_str(), 1);
  setenv("LEAT_TEST_SENDS", test.child_sends ? "1" : "0", 1);
  setenv("UCX_TLS", "all", 1);
  setenv("UCX_POSIX_USE_PROC_LINK", "n", 1);
  setenv("UCX_POSIX_FIFO_SIZE", "4", 1);
  execl("/proc/self/exe", "net_test", "--gtest_also_run_disabled_tests",
        "--gtest_filter=DISABLED_PeerDeath.Peer", nullptr);
  _exit(5);
}

TEST(DISABLED_PeerDeath, Peer) {
  const auto setting = [](const char* name) {
    const char* const value = getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (setting("LEAT_TEST_ADDRESS").empty()) GTEST_SKIP() << "started by the others";
  Peer(setting("LEAT_TEST_ADDRESS"), {setting("LEAT_TEST_KIND"), std::stoi(setting("LEAT_TEST_SIGNAL")),
                                      setting("LEAT_TEST_SENDS") == "1"});
}

class PeerDeathTest : public ::testing::TestWithParam<Case> {};

TEST_P(PeerDeathTest, TheOtherEndIsNotifiedAndContinues) {
  const Case& test = GetParam();
  Loop loop;
  metrics::Registry metrics;
  auto transport = MakeTransport(loop, test, &metrics);
  const auto& by_ucx = metrics.gauge("leat_net_ucx_connections");
  Recorder hurt;       // connected to the child
  Recorder bystander;  // connected to this process, over the same loop and transport
  std::unique_ptr<Connection> to_child, to_us;
  auto listener = *transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) -> Receiver* {
    if (to_child == nullptr) {
      to_child = std::move(connection);
      return &hurt;
    }
    to_us = std::move(connection);
    return &bystander;
  });
  const pid_t child = StartPeer(listener->address(), test);
  ASSERT_GT(child, 0);

  auto payload = std::make_unique<Bytes>(kPayload);
  std::optional<Status> sent;
  hurt.cut = InSegments;
  bool in_the_middle = false;
  double by_ucx_then = 0;
  hurt.on_segment = [&](Connection&, size_t) {
    if (std::exchange(in_the_middle, true)) return;
    by_ucx_then = by_ucx.value();
    kill(child, test.signal);
  };
  hurt.on_message = [&](Connection& connection) {
    if (test.child_sends) return;
    in_the_middle = true;
    by_ucx_then = by_ucx.value();
    connection.Send(1, Bytes(10), {ByteView(*payload)}, [&](const Status& status) { sent = status; });
  };
  ASSERT_TRUE(RunUntil(loop, [&] { return to_child != nullptr; }));

  // The bystander exchanges messages all the time.
  Recorder at_home;
  std::unique_ptr<Connection> other_end;
  int rounds = 0;
  at_home.on_message = [&](Connection& connection) {
    ++rounds;
    connection.Send(1, Bytes(10), {});
  };
  bystander.on_message = [](Connection& connection) { connection.Send(2, Bytes(10), {}); };
  transport->Connect(listener->address(), &at_home, std::chrono::seconds(60), [&](auto result) {
    other_end = std::move(*result);
    other_end->Send(1, Bytes(10), {});
  });

  ASSERT_TRUE(RunUntil(loop, [&] { return in_the_middle; }));
  if (test.kind != "Tcp") {
    EXPECT_GE(by_ucx_then, 1) << "it goes another way";
  }
  const int rounds_then = rounds;
  const Time begin = loop.Now();
  ASSERT_TRUE(RunUntil(loop, [&] { return hurt.closed.has_value(); }));
  const Duration took = loop.Now() - begin;
  if (test.signal == SIGSTOP) {
    EXPECT_EQ(hurt.closed->code(), Code::kDeadlineExceeded) << hurt.closed->ToString();
    EXPECT_GT(took, kStall / 2);
    EXPECT_LT(took, kNoStall / 2);
    EXPECT_GT(rounds, rounds_then + 20) << "a stopped peer blocks the others";
  } else {
    EXPECT_LT(took, kNoStall / 2);
    EXPECT_EQ(hurt.closed->code(), Code::kUnavailable) << hurt.closed->ToString();
  }
  if (test.child_sends) {
    EXPECT_TRUE(hurt.messages.empty());
  } else {
    ASSERT_TRUE(sent.has_value());
    EXPECT_FALSE(sent->ok());
    payload.reset();
  }
  const int after = rounds + 20;
  EXPECT_TRUE(RunUntil(loop, [&] { return rounds >= after; }));
  EXPECT_FALSE(at_home.closed.has_value());

  // A child that was only stopped sees the connection closed and exits normally.
  to_child.reset();
  kill(child, SIGCONT);
  int status = 0;
  ASSERT_TRUE(RunUntil(loop, [&] { return waitpid(child, &status, WNOHANG) == child; }));
  if (test.signal == SIGSTOP) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  } else {
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string prefix = "leat-ucx-" + std::to_string(child) + "-";
    EXPECT_FALSE(entry.path().filename().string().starts_with(prefix)) << entry.path();
  }
}

// Killed or stopped while it reads shared payloads.
class PeerDeathSharedPayloadTest : public ::testing::TestWithParam<Case> {};

TEST_P(PeerDeathSharedPayloadTest, ThePayloadIsHeldUntilThePeerCannotReadIt) {
  const Case& test = GetParam();
  Loop loop;
  auto transport = MakeTransport(loop, test);
  Recorder hurt;
  std::unique_ptr<Connection> to_child;
  auto listener = *transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) -> Receiver* {
    to_child = std::move(connection);
    return &hurt;
  });
  const Buffer payload = MakeSharedBuffer(kPayload);
  bool told = false;
  hurt.on_message = [&](Connection& connection) {
    connection.Send(1, Bytes(10), {ByteView(payload.bytes())},
                    [&told, payload](const Status&) { told = true; });
  };
  const pid_t child = StartPeer(listener->address(), test);
  ASSERT_GT(child, 0);
  ASSERT_TRUE(RunUntil(loop, [&] { return hurt.closed.has_value(); }));
  to_child.reset();
  if (test.signal == SIGSTOP) {
    EXPECT_EQ(hurt.closed->code(), Code::kDeadlineExceeded) << hurt.closed->ToString();
    EXPECT_TRUE(payload.shared());
    kill(child, SIGCONT);
  } else {
    EXPECT_EQ(hurt.closed->code(), Code::kUnavailable) << hurt.closed->ToString();
  }
  EXPECT_TRUE(RunUntil(loop, [&] { return !payload.shared(); }));
  EXPECT_FALSE(told);
  int status = 0;
  ASSERT_TRUE(RunUntil(loop, [&] { return waitpid(child, &status, WNOHANG) == child; }));
  if (test.signal == SIGSTOP) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PeerDeathSharedPayloadTest,
                         ::testing::Values(Case{"Ucx", SIGKILL, false}, Case{"Ucx", SIGSTOP, false}),
                         [](const auto& instance) {
                           return instance.param.signal == SIGKILL ? "Killed" : "Stopped";
                         });

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* kind : {"Tcp", "Ucx", "UcxNetwork"}) {
    for (const int signal : {SIGKILL, SIGSTOP}) {
      for (const bool sends : {true, false}) cases.push_back({kind, signal, sends});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, PeerDeathTest, ::testing::ValuesIn(Cases()), [](const auto& instance) {
  return instance.param.kind + (instance.param.signal == SIGKILL ? "Killed" : "Stopped") +
         (instance.param.child_sends ? "Sending" : "Receiving");
});

}  // namespace
}  // namespace leat::net
