#include "net/rpc/client.h"
#include "net/rpc/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "net/security/refusal_log.h"
#include "net/testing.h"
#include "net/tls/testing.h"

namespace leat::control {
namespace {

using namespace std::chrono_literals;
using protocol::ControlReply;
using protocol::ControlRequest;

// Answers a join with its pid as the node, everything else with an empty reply of its kind.
void Echo(ControlRequest request, std::function<void(ControlReply)> reply) {
  if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) {
    protocol::JoinReply r;
    r.node = NodeId(static_cast<uint64_t>(join->pid));
    r.job = join->host;
    return reply(r);
  }
  if (std::holds_alternative<protocol::WorkerHeartbeat>(request))
    return reply(protocol::WorkerHeartbeatReply{});
  if (std::holds_alternative<protocol::ServerHeartbeat>(request))
    return reply(protocol::ServerHeartbeatReply{});
  if (std::holds_alternative<protocol::BotsHeartbeat>(request)) return reply(protocol::BotsHeartbeatReply{});
  if (std::holds_alternative<protocol::StatusRequest>(request)) return reply(protocol::StatusReply{"{}"});
  reply(protocol::AdminReply{Status(Code::kStale, "late")});
}

std::unique_ptr<ControlServer> StartOrDie(ControlServer::Handler handler,
                                          const std::string& token = "token") {
  auto server = ControlServer::Start("127.0.0.1:0", token, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  return server.ok() ? std::move(*server) : nullptr;
}

Duration Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::steady_clock::now() - start;
}

TEST(Control, AnswersEveryKindOfRequest) {
  const auto server = StartOrDie(Echo);
  EXPECT_NE(server->address(), "127.0.0.1:0");
  const auto client = ControlClient::Make(server->address(), "token");
  protocol::JoinRequest join;
  join.pid = 77;
  join.host = std::string(3 << 20, 'x');
  const auto too_long = client->Call(join, 10s);
  EXPECT_EQ(too_long.status().code(), Code::kInvalidArgument) << too_long.status().ToString();
  join.host = "here";
  const auto joined = client->Call(join, 10s);
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_EQ(std::get<protocol::JoinReply>(*joined).node, NodeId(77));
  EXPECT_EQ(std::get<protocol::JoinReply>(*joined).job, "here");
  EXPECT_TRUE(client->Call(protocol::WorkerHeartbeat{}, 10s).ok());
  EXPECT_TRUE(client->Call(protocol::ServerHeartbeat{}, 10s).ok());
  EXPECT_TRUE(client->Call(protocol::BotsHeartbeat{}, 10s).ok());
  EXPECT_EQ(std::get<protocol::StatusReply>(*client->Call(protocol::StatusRequest{}, 10s)).json, "{}");
  EXPECT_EQ(std::get<protocol::AdminReply>(*client->Call(protocol::AdminRequest{}, 10s)).status,
            Status(Code::kStale, "late"));
}

TEST(Control, AfterAFailureTheNextAddressIsTried) {
  auto first = StartOrDie(Echo);
  const auto second = StartOrDie(Echo);
  const std::string address = first->address();
  const auto client = ControlClient::Make(address + "," + second->address(), "token");
  EXPECT_TRUE(client->Call(protocol::StatusRequest{}, 10s).ok());
  EXPECT_EQ(client->address(), address);
  first.reset();
  // A call that is under way when the connection is lost is not repeated.
  EXPECT_TRUE(client->Call(protocol::StatusRequest{}, 10s).ok() ||
              client->Call(protocol::StatusRequest{}, 10s).ok());
  EXPECT_EQ(client->address(), second->address());

  // A listener that accepts connections and says nothing, like a stopped coordinator.
  const net::testing::BareListener stopped;
  const auto other = ControlClient::Make(stopped.address() + "," + second->address(), "token");
  EXPECT_TRUE(other->Call(protocol::StatusRequest{}, 20s).ok());
  EXPECT_EQ(other->address(), second->address());
  // Calls with less time than one attempt takes try the next address, too.
  const auto hasty = ControlClient::Make(stopped.address() + "," + second->address(), "token");
  EXPECT_FALSE(hasty->Call(protocol::StatusRequest{}, 200ms).ok());
  EXPECT_EQ(hasty->address(), second->address());
  EXPECT_TRUE(hasty->Call(protocol::StatusRequest{}, 10s).ok());
  EXPECT_EQ(
      ControlClient::Make(address + ",b", "token")->Call(protocol::StatusRequest{}, 10s).status().code(),
      Code::kInvalidArgument);
}

TEST(Control, ATokenIsAnyBytes) {
  const std::string token("\0\xff\n token", 9);
  const auto server = StartOrDie(Echo, token);
  EXPECT_TRUE(ControlClient::Make(server->address(), token)->Call(protocol::StatusRequest{}, 10s).ok());
}

TEST(Control, AWrongTokenNeverReachesTheHandler) {
  std::atomic<int> handled = 0;
  const auto server = StartOrDie([&](ControlRequest request, std::function<void(ControlReply)> reply) {
    ++handled;
    Echo(std::move(request), std::move(reply));
  });
  for (const char* token : {"", "t", "tokem", "token2", "TOKEN"}) {
    const auto reply = ControlClient::Make(server->address(), token)->Call(protocol::StatusRequest{}, 10s);
    EXPECT_EQ(reply.status().code(), Code::kPermissionDenied) << reply.status().ToString();
    EXPECT_NE(reply.status().message().find(server->address()), std::string::npos);
  }
  EXPECT_EQ(handled, 0);
}

TEST(Control, APortInUseIsRefusedAndNamed) {
  const auto server = StartOrDie(Echo);
  const auto second = ControlServer::Start(server->address(), "token", Echo);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_EQ(second.status().message(), "cannot listen on " + server->address() + ": Address already in use");
}

TEST(Control, BadAddressesAreNamed) {
  for (const char* address :
       {"", "localhost", "127.0.0.1:", "127.0.0.1:65536", ":80", "[::1:80", "http://x:80"}) {
    const auto server = ControlServer::Start(address, "token", Echo);
    EXPECT_EQ(server.status().code(), Code::kInvalidArgument) << address;
    EXPECT_NE(server.status().message().find("'" + std::string(address) + "'"), std::string::npos);
    const auto reply = ControlClient::Make(address, "token")->Call(protocol::StatusRequest{}, 1s);
    EXPECT_EQ(reply.status().code(), Code::kInvalidArgument) << address;
  }
  const auto elsewhere = ControlServer::Start("192.0.2.1:0", "token", Echo);
  EXPECT_EQ(elsewhere.status().code(), Code::kInvalidArgument) << elsewhere.status().ToString();
}

void ExpectServed(const std::string& address) {
  const auto server = ControlServer::Start(address, "token", Echo);
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  const auto reply = ControlClient::Make((*server)->address(), "token")->Call(protocol::StatusRequest{}, 10s);
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
}

TEST(Control, LocalhostIsServedToo) {
  ExpectServed("localhost:0");
}

TEST(Control, Ipv6IsServedToo) {
  const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in6 here{.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  const bool bound = probe >= 0 && bind(probe, reinterpret_cast<const sockaddr*>(&here), sizeof(here)) == 0;
  if (probe >= 0) close(probe);
  if (!bound) GTEST_SKIP() << AllowedSkip("ipv6");
  ExpectServed("[::1]:0");
}

TEST(Control, NoServerIsUnavailableWithinTheDeadline) {
  std::string address;
  { address = StartOrDie(Echo)->address(); }
  const auto client = ControlClient::Make(address, "token");
  const auto start = std::chrono::steady_clock::now();
  const auto reply = client->Call(protocol::StatusRequest{}, 200ms);
  EXPECT_EQ(reply.status(), Status(Code::kUnavailable, address + " could not be reached within 0.2 s"));
  EXPECT_GE(Since(start), 190ms);
  EXPECT_LT(Since(start), 60s);
}

TEST(Control, ACallWaitsForACoordinatorThatStartsLater) {
  std::string address;
  { address = StartOrDie(Echo)->address(); }
  const auto client = ControlClient::Make(address, "token");
  EXPECT_FALSE(client->Call(protocol::StatusRequest{}, 50ms).ok());
  std::unique_ptr<ControlServer> server;
  std::thread later([&] {
    EXPECT_FALSE(client->Call(protocol::StatusRequest{}, 20ms).ok());
    auto started = ControlServer::Start(address, "token", Echo);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server = std::move(*started);
  });
  const auto reply = client->Call(protocol::StatusRequest{}, 10s);
  EXPECT_TRUE(reply.ok()) << reply.status().ToString();
  later.join();
}

TEST(Control, ReconnectsToACoordinatorThatCameBack) {
  auto server = StartOrDie(Echo);
  const std::string address = server->address();
  const auto client = ControlClient::Make(address, "token");
  for (int slice_incarnation = 0; slice_incarnation < 3; ++slice_incarnation) {
    const auto reply = client->Call(protocol::StatusRequest{}, 10s);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    server.reset();
    auto again = ControlServer::Start(address, "token", Echo);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    server = std::move(*again);
  }
}

// Keeps the reply callbacks given to its handler.
class Keeper {
 public:
  ControlServer::Handler Handler() {
    return [this](ControlRequest, std::function<void(ControlReply)> reply) {
      std::lock_guard lock(mutex_);
      replies_.push_back(std::move(reply));
      changed_.notify_all();
    };
  }
  void WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, 60s, [&] { return replies_.size() >= count; }));
  }
  std::vector<std::function<void(ControlReply)>> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(replies_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void(ControlReply)>> replies_;
};

TEST(Control, ASilentHandlerEndsInTheDeadline) {
  Keeper keeper;
  const auto server = StartOrDie(keeper.Handler());
  const auto client = ControlClient::Make(server->address(), "token");
  const auto reply = client->Call(protocol::StatusRequest{}, 1s);
  EXPECT_EQ(reply.status(),
            Status(Code::kDeadlineExceeded, server->address() + " did not answer within 1 s"));
  for (const auto& late : keeper.Take()) late(protocol::StatusReply{"late"});
}

TEST(Control, RepliesMayComeLaterTwiceAndFromAnyThread) {
  Keeper keeper;
  const auto server = StartOrDie(keeper.Handler());
  const auto client = ControlClient::Make(server->address(), "token");
  constexpr int kCalls = 8;  // as many as a connection may have
  std::vector<std::thread> callers;
  std::atomic<int> answered = 0;
  for (int i = 0; i < kCalls; ++i) {
    callers.emplace_back([&] {
      const auto reply = client->Call(protocol::StatusRequest{}, 20s);
      if (reply.ok() && std::get<protocol::StatusReply>(*reply).json == "first") ++answered;
    });
  }
  keeper.WaitFor(kCalls);
  for (const auto& reply : keeper.Take()) {
    reply(protocol::StatusReply{"first"});
    reply(protocol::StatusReply{"second"});
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(answered, kCalls);
}

// Long before their deadlines.
TEST(Control, TheServerStopsWhileCallsWait) {
  Keeper keeper;
  auto server = StartOrDie(keeper.Handler());
  const auto client = ControlClient::Make(server->address(), "token");
  std::thread caller(
      [&] { EXPECT_EQ(client->Call(protocol::StatusRequest{}, 120s).status().code(), Code::kUnavailable); });
  keeper.WaitFor(1);
  const auto start = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(Since(start), 30s);
  caller.join();
  EXPECT_LT(Since(start), 60s);
  for (const auto& reply : keeper.Take()) reply(protocol::StatusReply{"after the server"});
}

TEST(Control, AReplyGivenJustBeforeTheServerStopsIsSent) {
  for (int i = 0; i < 20; ++i) {
    Keeper keeper;
    auto server = StartOrDie(keeper.Handler());
    const auto client = ControlClient::Make(server->address(), "token");
    std::thread caller([&] {
      const auto reply = client->Call(protocol::StatusRequest{}, 20s);
      EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    });
    keeper.WaitFor(1);
    for (const auto& reply : keeper.Take()) reply(protocol::StatusReply{"stop"});
    server.reset();
    caller.join();
  }
}

TEST(Control, AbortEndsCallsUnderWayAndLaterOnes) {
  Keeper keeper;
  const auto server = StartOrDie(keeper.Handler());
  const auto client = ControlClient::Make(server->address(), "token");
  std::thread caller(
      [&] { EXPECT_EQ(client->Call(protocol::StatusRequest{}, 20s).status().code(), Code::kAborted); });
  keeper.WaitFor(1);
  client->Abort();
  caller.join();
  EXPECT_EQ(client->Call(protocol::StatusRequest{}, 20s).status().code(), Code::kAborted);
}

TEST(Control, ARefusalIsItsStatus) {
  const auto server = StartOrDie([](ControlRequest, std::function<void(ControlReply)> reply) {
    reply(protocol::Refusal{Status(Code::kFailedPrecondition, "not now")});
  });
  const auto client = ControlClient::Make(server->address(), "token");
  EXPECT_EQ(client->Call(protocol::StatusRequest{}, 10s).status(),
            Status(Code::kFailedPrecondition, "not now"));
}

TEST(Control, RepliesThatBelongToAnotherRequestOrToNoneAreErrors) {
  const protocol::ControlReply answers[] = {
      protocol::AdminReply{},
      protocol::Refusal{},  // without an error
      protocol::StatusReply{std::string(5 << 20, 'x')},
      protocol::StatusReply{"{}"},
  };
  std::atomic<size_t> next = 0;
  const auto server =
      StartOrDie([&](ControlRequest, std::function<void(ControlReply)> reply) { reply(answers[next++]); });
  const auto client = ControlClient::Make(server->address(), "token");
  const auto call = [&] { return client->Call(protocol::StatusRequest{}, 10s).status().code(); };
  EXPECT_EQ(call(), Code::kInvalidArgument);
  EXPECT_EQ(call(), Code::kInvalidArgument);
  EXPECT_EQ(call(), Code::kResourceExhausted);
  EXPECT_EQ(call(), Code::kOk);
}

// gRPC owns the sockets, so the server has to notice when they end.
bool Names(const Status& status, std::string_view reason) {
  return status.message().find(reason) != std::string::npos;
}

TEST(Control, ConnectionsAreLimitedAndRoomIsMadeAgain) {
  auto started = ControlServer::Start("127.0.0.1:0", "token", Echo, {.connections_of_host = 3});
  ASSERT_TRUE(started.ok());
  std::vector<std::unique_ptr<ControlClient>> clients;
  const auto call = [&](Duration deadline) {
    clients.push_back(ControlClient::Make((*started)->address(), "token"));
    return clients.back()->Call(protocol::StatusRequest{}, deadline).status();
  };
  for (int round = 0; round < 5; ++round) {
    while (clients.size() < 3) EXPECT_TRUE(call(30s).ok()) << round;
    // A busy host may not answer the first attempt within a short deadline.
    Status full;
    for (Duration deadline = 300ms; deadline < 60s && !Names(full, "too many connections"); deadline *= 4) {
      full = call(deadline);
      EXPECT_EQ(full.code(), Code::kUnavailable);
      clients.pop_back();
    }
    EXPECT_TRUE(Names(full, "too many connections")) << full.message();
    for (auto& client : clients) EXPECT_TRUE(client->Call(protocol::StatusRequest{}, 30s).ok()) << round;
    clients.erase(clients.begin());
    EXPECT_TRUE(call(30s).ok()) << round;
    if (round % 2 == 0) clients.clear();
  }
}

// ---- with TLS

class TlsControlTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> roles = {"coordinator"},
             std::vector<std::string> hosts = {"127.0.0.1"}) {
    auto started = ControlServer::Start("127.0.0.1:0", "token", Echo, ControlServer::Limits(),
                                        authority.Identity(std::move(roles), std::move(hosts)));
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server = std::move(*started);
  }
  std::unique_ptr<ControlClient> Client(const std::string& role) {
    return ControlClient::Make(server->address(), "token", authority.Identity({role}));
  }

  net::testing::TestAuthority authority;
  std::unique_ptr<ControlServer> server;
};

TEST_F(TlsControlTest, EachRoleMayAskWhatItsCertificateSays) {
  Start();
  const auto worker = Client("worker");
  const auto admin = Client("admin");
  const auto observer = Client("observer");
  EXPECT_TRUE(worker->Call(protocol::WorkerHeartbeat{}, 10s).ok());
  EXPECT_TRUE(admin->Call(protocol::AdminRequest{}, 10s).ok());
  for (const auto& client : {worker.get(), admin.get(), observer.get()})
    EXPECT_TRUE(client->Call(protocol::StatusRequest{}, 10s).ok());
  const auto stop = worker->Call(protocol::AdminRequest{}, 10s);
  EXPECT_EQ(stop.status().code(), Code::kPermissionDenied);
  EXPECT_EQ(stop.status().message(),
            "the certificate is for the role worker, this needs one for admin, pool");
  EXPECT_EQ(worker->Call(protocol::ServerHeartbeat{}, 10s).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(observer->Call(protocol::AdminRequest{}, 10s).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(observer->Call(protocol::JoinRequest{}, 10s).status().code(), Code::kPermissionDenied);
  EXPECT_TRUE(worker->Call(protocol::WorkerHeartbeat{}, 10s).ok()) << "it is still connected";
}

TEST_F(TlsControlTest, RequestsThatTheCertificateDoesNotAllowAreLogged) {
  Start();
  testing::internal::CaptureStdout();
  const auto worker = Client("worker");
  const auto observer = Client("observer");
  EXPECT_TRUE(worker->Call(protocol::WorkerHeartbeat{}, 10s).ok());
  EXPECT_FALSE(worker->Call(protocol::AdminRequest{}, 10s).ok());
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(observer->Call(protocol::JoinRequest{}, 10s).ok());
  const std::string log = testing::internal::GetCapturedStdout();
  std::istringstream text(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), net::RefusalLog::kLines) << "a flood is a few lines:\n" << log;
  const std::string refused = ".* " + server->address() + " refused 127\\.0\\.0\\.1:[0-9]+: ";
  EXPECT_THAT(lines[0], testing::MatchesRegex(refused + "admin request: the certificate is for the role "
                                                        "worker, this needs one for admin, pool"));
  EXPECT_THAT(lines[1], testing::MatchesRegex(refused + "join as a worker: the certificate is for the role "
                                                        "observer, this needs one for worker"));
}

TEST_F(TlsControlTest, LargeMessagesBothWays) {
  const std::string status(3 << 20, 's');
  auto started = ControlServer::Start(
      "127.0.0.1:0", "token",
      [&](const ControlRequest&, const std::function<void(ControlReply)>& reply) {
        reply(protocol::StatusReply{status});
      },
      ControlServer::Limits(), authority.Identity({"coordinator"}));
  ASSERT_TRUE(started.ok()) << started.status().ToString();
  server = std::move(*started);
  const auto worker = Client("worker");
  for (int i = 0; i < 3; ++i) {
    const auto answered = worker->Call(protocol::StatusRequest{}, 10s);
    ASSERT_TRUE(answered.ok()) << answered.status().ToString();
    EXPECT_EQ(std::get<protocol::StatusReply>(*answered).json, status);
    // The server has read it all, and names its limit.
    protocol::WorkerHeartbeat heartbeat;
    heartbeat.progress.scores = Bytes(3 << 20);
    const auto refused = worker->Call(heartbeat, 10s);
    EXPECT_EQ(refused.status().message(),
              "control request: worker.progress.scores has 3145728 bytes, at most 1048576");
  }
}

TEST_F(TlsControlTest, DifferencesAreTheErrorOfTheFirstCall) {
  Start();
  const auto refused = [&](const std::unique_ptr<ControlClient>& client, const std::string& why) {
    const auto answer = client->Call(protocol::StatusRequest{}, 10s);
    EXPECT_EQ(answer.status().code(), Code::kFailedPrecondition);
    EXPECT_EQ(answer.status().message(), "cannot connect to " + server->address() + ": " + why);
  };
  refused(ControlClient::Make(server->address(), "token"),
          "the peer requires TLS; start this side with --security");
  EXPECT_EQ(ControlClient::Make(server->address(), "other", authority.Identity({"worker"}))
                ->Call(protocol::StatusRequest{}, 10s)
                .status()
                .code(),
            Code::kPermissionDenied);
  Start({"worker"});
  refused(Client("worker"), "the peer's certificate is for the role worker, here it must be for coordinator");
  Start({"coordinator"}, {"10.0.0.5"});
  refused(Client("worker"), "the peer's certificate is not for the host 127.0.0.1");
  server = StartOrDie(Echo);
  refused(Client("worker"), "the peer does not use TLS");
}

TEST_F(TlsControlTest, AClientConnectsAgainAfterTheServerHasGone) {
  Start();
  const auto worker = Client("worker");
  EXPECT_TRUE(worker->Call(protocol::WorkerHeartbeat{}, 10s).ok());
  const std::string address = server->address();
  const auto begin = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(Since(begin), 5s);
  EXPECT_EQ(worker->Call(protocol::WorkerHeartbeat{}, 500ms).status().code(), Code::kUnavailable);
  auto again = ControlServer::Start(address, "token", Echo, ControlServer::Limits(),
                                    authority.Identity({"coordinator"}));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(worker->Call(protocol::WorkerHeartbeat{}, 10s).ok());
}

}  // namespace
}  // namespace leat::control
