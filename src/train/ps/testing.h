// Helpers for tests of this folder: a server with all slices of a small job, and pushes to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/fault/testing.h"
#include "net/frames/frame.h"
#include "net/inproc/testing.h"
#include "net/testing.h"
#include "net/transports.h"
#include "train/ps/client.h"
#include "train/ps/server_shell.h"

namespace leat::ps::testing {

inline constexpr NodeId kServer(1), kWorker(9);
inline constexpr Incarnation kIncarnation(7);
inline constexpr float kInitial = 5;

inline optim::InitSpec Constant(float value) {
  optim::InitSpec init;
  init.kind = optim::InitKind::kConstant;
  init.value = value;
  return init;
}

// All values start as kInitial. Two of the variables do not end at a cache line.
inline protocol::SliceTable SmallTable() {
  return protocol::MakeSlices({{"w", Shape{13, 17}, Constant(kInitial)},
                               {"b", Shape{5}, Constant(kInitial)},
                               {"v", Shape{64}, Constant(kInitial)}},
                              1, 2);
}
inline protocol::SliceTable LargeTable(int64_t elements) {
  return protocol::MakeSlices({{"w", Shape{elements}, Constant(kInitial)}}, 1, 1);
}

inline std::vector<SliceId> AllSlices(const protocol::SliceTable& table) {
  std::vector<SliceId> slices;
  for (uint32_t i = 0; i < table.slices.size(); ++i) slices.emplace_back(i);
  return slices;
}

// The coordinator's orders for server `node`: host these slices, newly initialized.
inline protocol::ServerHeartbeatReply Orders(NodeId node, const std::vector<SliceId>& slices) {
  protocol::ServerHeartbeatReply reply;
  protocol::View& view = reply.view.emplace();
  view.generation = Generation(3);
  view.members = {{node, protocol::Role::kServer, 0, "there"}, {kWorker, protocol::Role::kWorker, 0, ""}};
  reply.start = {{0, 0}, {0, 0}};
  for (const SliceId slice : slices) reply.orders.push_back({slice, kIncarnation, "", "", 0});
  return reply;
}

// A server on its loop, listening.
struct ServerEnd {
  ServerEnd(net::Loop& loop, net::Transport& transport, const protocol::SliceTable& table, NodeId node,
            const std::vector<SliceId>& slices, const protocol::StrategyConfig& strategy = {},
            Duration parked_timeout = std::chrono::seconds(3))
      : shell(loop,
              {.table = table,
               .optimizer = {.kind = optim::Kind::kSgd, .learning_rate = 1},
               .strategy = strategy},
              parked_timeout) {
    shell.machine().OnJoined(node);
    shell.OnHeartbeatReply(Orders(node, slices));
    auto listening = transport.Listen("127.0.0.1:0", [this](std::unique_ptr<net::Connection> connection) {
      ++accepted;
      return shell.Adopt(std::move(connection));
    });
    EXPECT_TRUE(listening.ok()) << listening.status().ToString();
    listener = std::move(*listening);
  }
  const std::string& address() const { return listener->address(); }

  ServerShell shell;
  int accepted = 0;
  std::unique_ptr<net::Listener> listener;
};

// A push of one batch to the given slices. A batch has one event, so `batch` can be up to 999.
inline protocol::PushRequest Batch(uint32_t batch, const std::vector<SliceId>& slices,
                                   protocol::Disposition disposition = protocol::Disposition::kGradient) {
  protocol::PushRequest request;
  request.worker = kWorker;
  request.generation = Generation(3);
  request.disposition = disposition;
  request.cut.end = 1000;
  request.cut.batch_size = 1;
  request.run = batch;
  request.events = disposition == protocol::Disposition::kGradient ? 1 : 0;
  for (const SliceId slice : slices) request.slices.push_back({slice, kIncarnation, 0});
  return request;
}

inline bool All(std::span<const float> numbers, float value) {
  return std::ranges::all_of(numbers, [value](float x) { return x == value; });
}

// The transport between the two ends, each on its own loop.
struct TransportKind {
  std::string name;
  std::function<std::unique_ptr<net::Transport>(net::Loop&, std::shared_ptr<net::InprocHub>,
                                                net::TransportOptions)>
      make;
};
inline auto TransportKinds() {
  return ::testing::Values(
      TransportKind{
          "tcp",
          [](net::Loop& loop, const std::shared_ptr<net::InprocHub>&, net::TransportOptions options) {
            return net::MakeTcpTransport(loop, std::move(options));
          }},
      TransportKind{"inproc",
                    [](net::Loop& loop, std::shared_ptr<net::InprocHub> hub, net::TransportOptions options) {
                      return net::MakeInprocTransport(loop, std::move(hub), std::move(options));
                    }});
}
inline std::string NameOf(const ::testing::TestParamInfo<TransportKind>& way) {
  return way.param.name;
}

class PsTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  std::unique_ptr<net::Transport> Make(net::Loop& loop, net::TransportOptions options = {}) {
    options.token = "secret";
    return GetParam().make(loop, hub, std::move(options));
  }
  bool Run(const std::function<bool()>& condition) {
    return net::testing::RunUntil({&server_loop, &client_loop}, condition);
  }
  // Runs until nothing is in transit.
  void Settle() {
    for (int i = 0; i < 10; ++i) {
      server_loop.RunOnce(Duration(0));
      client_loop.RunOnce(std::chrono::milliseconds(1));
    }
  }

  std::shared_ptr<net::InprocHub> hub = std::make_shared<net::InprocHub>();
  net::Loop server_loop, client_loop;
};

// Two servers on loops of their own. The first one has all slices.
class TwoServersTest : public PsTest {
 protected:
  static constexpr NodeId kOther{2};

  TwoServersTest()
      : here_transport(Make(server_loop)),
        there_transport(Make(client_loop)),
        here(server_loop, *here_transport, table, kServer, AllSlices(table)),
        there(client_loop, *there_transport, table, kOther, {}) {}

  const protocol::SliceTable table = SmallTable();
  std::unique_ptr<net::Transport> here_transport, there_transport;
  ServerEnd here, there;
};

// A connection on which a test sends frames by hand.
class Peer : public net::Receiver {
 public:
  void Connect(net::Transport& transport, const std::string& address) {
    transport.Connect(address, this, std::chrono::seconds(10), [this](auto connection) {
      if (connection.ok()) connection_ = std::move(*connection);
    });
  }
  bool connected() const { return connection_ != nullptr; }
  void Send(wire::FrameType type, Bytes header, Bytes payload) {
    const auto held = std::make_shared<Bytes>(std::move(payload));
    std::vector<ByteView> parts;
    if (!held->empty()) parts.push_back(*held);
    connection_->Send(static_cast<uint8_t>(type), std::move(header), std::move(parts),
                      [held](const Status&) {});
  }
  const Status& closed() const { return closed_; }

  net::Places OnHeader(net::Connection&, uint8_t, ByteView, uint64_t) override { return net::Spans(); }
  void OnMessage(net::Connection&) override {}
  void OnClosed(net::Connection&, const Status& why) override {
    closed_ = why;
    connection_.reset();
  }

 private:
  std::unique_ptr<net::Connection> connection_;
  Status closed_;
};

}  // namespace leat::ps::testing
