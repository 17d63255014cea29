#include "control/convert.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "control/testing.h"

namespace leat::control {
namespace {

using protocol::ControlReply;
using protocol::ControlRequest;

TEST(Convert, EveryRequestComesBackWhole) {
  std::array<int, std::variant_size_v<ControlRequest>> seen{};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const auto request = Random<ControlRequest>(seed);
    const auto back = ParseRequest(Serialize(request));
    ASSERT_TRUE(back.ok()) << seed << ": " << back.status().ToString();
    ASSERT_EQ(ToText(*back), ToText(request)) << seed;
    ++seen[request.index()];
  }
  for (const int count : seen) EXPECT_GT(count, 100);
}

TEST(Convert, EveryReplyComesBackWhole) {
  std::array<int, std::variant_size_v<ControlReply>> seen{};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const auto reply = Random<ControlReply>(seed);
    const auto back = ParseReply(Serialize(reply));
    ASSERT_TRUE(back.ok()) << seed << ": " << back.status().ToString();
    ASSERT_EQ(ToText(*back), ToText(reply)) << seed;
    ++seen[reply.index()];
  }
  for (const int count : seen) EXPECT_GT(count, 100);
}

TEST(Convert, ANonFiniteLossIsReported) {
  protocol::WorkerHeartbeat heartbeat;
  heartbeat.progress.loss_sum = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(ParseRequest(Serialize(heartbeat)).ok());
}

// Parsing must fail, and the message must name the field.
void ExpectRefused(const Status& status, const std::string& named) {
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << named;
  EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
}

protocol::Cut GoodCut() {
  protocol::Cut cut;
  cut.end = 100;
  cut.batch_size = 10;
  return cut;
}

TEST(Convert, RequestsThatDoNotFitAreRefusedByName) {
  protocol::JoinRequest join;
  join.role = protocol::Role(9);
  ExpectRefused(ParseRequest(Serialize(join)).status(), "role is 9");
  join = {};
  join.address = std::string(5000, 'a');
  ExpectRefused(ParseRequest(Serialize(join)).status(), "address has 5000 bytes");

  protocol::WorkerHeartbeat worker;
  worker.leases_wanted = 1 << 20;
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "leases_wanted is 1048576");
  worker = {};
  worker.metrics = std::string(5000, 'a');
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "metrics has 5000 bytes");
  worker = {};
  worker.held.resize(1 << 17);
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "131072 held leases");
  worker = {};
  worker.progress.cpu_seconds = -1;
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "cpu_seconds");
  worker.progress.cpu_seconds = std::numeric_limits<double>::infinity();
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "cpu_seconds");
  worker = {};
  worker.progress.scores.resize(2 << 20);
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "scores");
  worker = {};
  worker.progress.share.resize(1 << 17);
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "length of share is 131072");
  worker = {};
  worker.progress.batches.resize(1 << 17);
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "131072 batches");

  protocol::AdminRequest admin;
  admin.kind = protocol::AdminRequest::Kind(9);
  ExpectRefused(ParseRequest(Serialize(admin)).status(), "admin.kind is 9");
  admin.kind = protocol::AdminRequest::Kind::kPause;
  EXPECT_EQ(std::get<protocol::AdminRequest>(*ParseRequest(Serialize(admin))).kind, admin.kind);

  const auto with_open = [](std::vector<protocol::OpenSplit> open, protocol::Position done = {}) {
    protocol::ServerHeartbeat server;
    server.ledgers.push_back({{}, 0, {{done, std::move(open)}}, 0});
    return ParseRequest(Serialize(server)).status();
  };
  auto cut = GoodCut();
  EXPECT_TRUE(with_open({{cut, protocol::RunSet(10)}}).ok());
  ExpectRefused(with_open({{cut, protocol::RunSet(10)}, {cut, protocol::RunSet(10)}}), "overlaps");
  ExpectRefused(with_open({{cut, protocol::RunSet(10)}}, {0, 1}), "overlaps");
  ExpectRefused(with_open({{cut, protocol::RunSet(11, true)}}), "past the end of the cut");
  ExpectRefused(with_open({{cut, protocol::RunSet(65)}}), "words of a set of runs is 2");
  cut.partition = 1;
  ExpectRefused(with_open({{cut, protocol::RunSet(10)}}), "partition of an open split is 1");
  cut = GoodCut();
  cut.batch_size = 0;
  ExpectRefused(with_open({{cut, protocol::RunSet(0)}}), "invalid cut");

  protocol::ServerHeartbeat server;
  server.rejected.emplace().cut = GoodCut();
  EXPECT_TRUE(ParseRequest(Serialize(server)).ok());
  server.rejected->run = 10;
  ExpectRefused(ParseRequest(Serialize(server)).status(), "rejected.run is 10");
  server.rejected->cut.run = 0;
  ExpectRefused(ParseRequest(Serialize(server)).status(), "invalid cut");
  server = {};
  server.failed.push_back({SliceId(1 << 20), Incarnation(1)});
  ExpectRefused(ParseRequest(Serialize(server)).status(), "slice is 1048576");
}

TEST(Convert, RepliesThatDoNotFitAreRefusedByName) {
  ExpectRefused(ParseReply(Serialize(protocol::Refusal{})).status(), "without an error");
  protocol::JoinReply join;
  join.heartbeat_interval = Duration(-1);
  ExpectRefused(ParseReply(Serialize(join)).status(), "heartbeat_interval_ns is -1");
  join = {};
  join.probe.assign(1 << 13, 'x');
  ExpectRefused(ParseReply(Serialize(join)).status(), "probe");

  protocol::WorkerHeartbeatReply worker;
  auto cut = GoodCut();
  cut.end = 0;
  protocol::Lease lease;
  lease.cut = cut;
  lease.missing = protocol::RunSet(10);
  worker.leases = {lease};
  ExpectRefused(ParseReply(Serialize(worker)).status(), "invalid cut");

  lease.cut = GoodCut();
  const auto with = [&lease](auto change) {
    protocol::WorkerHeartbeatReply reply;
    reply.leases = {lease};
    change(&reply.leases[0]);
    return ParseReply(Serialize(reply)).status();
  };
  EXPECT_TRUE(with([](protocol::Lease*) {}).ok());
  ExpectRefused(with([](protocol::Lease* l) { l->lane = 1; }), "lease.lane of 1 of which 1 are needed is 1");
  ExpectRefused(with([](protocol::Lease* l) { l->width = 0; }), "lease.lane");
  ExpectRefused(with([](protocol::Lease* l) { l->needed = 2; }), "lease.lane");
  ExpectRefused(with([](protocol::Lease* l) { l->first_step = ~uint64_t{0}; }), "lease.first_step");
  ExpectRefused(with([](protocol::Lease* l) { l->rate = 0; }), "lease.rate is 0.0");
  ExpectRefused(with([](protocol::Lease* l) { l->rate = 1001; }), "lease.rate is 1001.0");
  ExpectRefused(with([](protocol::Lease* l) { l->labels = {8, 7}; }), "labels.begin with labels.end 7 is 8");
  EXPECT_TRUE(with([](protocol::Lease* l) { l->labels = {7, 7}; }).ok());
  ExpectRefused(with([](protocol::Lease* l) { l->assigned = protocol::RunSet(128); }),
                "words of a set of runs");
  const auto other_runs = [](protocol::Lease* l) {
    l->id = 77;
    l->missing.Add(3);
    l->assigned = protocol::RunSet(10);
    l->assigned.Add(4);
  };
  ExpectRefused(with(other_runs), "lease.id is 77");

  protocol::Round round;
  round.lanes = {{GoodCut(), protocol::RunSet(10, true)}, {GoodCut(), protocol::RunSet(10, true)}};
  const auto with_round = [&round](auto change) {
    protocol::WorkerHeartbeatReply reply;
    reply.rounds = {round};
    change(&reply.rounds[0]);
    return ParseReply(Serialize(reply)).status();
  };
  EXPECT_TRUE(with_round([](protocol::Round*) {}).ok());
  const auto none = [](protocol::Round* r) { r->lanes.clear(); };
  ExpectRefused(with_round(none), "number of lanes of a round is 0");
  const auto many = [](protocol::Round* r) { r->lanes.resize(4097, r->lanes[0]); };
  ExpectRefused(with_round(many), "4097 lanes of a round");
  const auto uneven = [](protocol::Round* r) {
    r->lanes[1].assigned = protocol::RunSet(10);
    r->lanes[1].assigned.Add(3);
  };
  ExpectRefused(with_round(uneven), "number of runs of a lane is 1");
  const auto empty = [](protocol::Round* r) {
    for (auto& part : r->lanes) part.assigned = protocol::RunSet(10);
  };
  ExpectRefused(with_round(empty), "number of runs of a lane is 0");
  const auto other_size = [](protocol::Round* r) { r->lanes[0].assigned = protocol::RunSet(65, true); };
  ExpectRefused(with_round(other_size), "words of a set of runs is 2");
  const auto late = [](protocol::Round* r) { r->first_step = ~uint64_t{0}; };
  ExpectRefused(with_round(late), "round.first_step");
  ExpectRefused(with_round([](protocol::Round* r) { r->rate = -1; }), "round.rate is -1.0");
  const auto one_labelled = [](protocol::Round* r) { r->lanes[1].labels = {3, 4}; };
  ExpectRefused(with_round(one_labelled), "number of labels of a round is 1");
  const auto wrong_labels = [](protocol::Round* r) {
    for (auto& part : r->lanes) part.labels = {4, 3};
  };
  ExpectRefused(with_round(wrong_labels), "labels.begin with labels.end 3 is 4");

  protocol::ServerHeartbeatReply server;
  server.orders.emplace_back().file = std::string(5000, 'f');
  ExpectRefused(ParseReply(Serialize(server)).status(), "order.file has 5000 bytes");
  server = {};
  server.view.emplace().members.emplace_back().role = protocol::Role(200);
  ExpectRefused(ParseReply(Serialize(server)).status(), "role is 200");
}

TEST(Convert, NothingAndNoiseAreRefused) {
  EXPECT_EQ(ParseRequest("").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ParseReply("").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ParseRequest(std::string(kMaxMessageBytes + 1, '\0')).status().code(), Code::kInvalidArgument);
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(rng.Below(200), '\0');
    for (char& c : bytes) c = static_cast<char>(rng());
    (void)ParseRequest(bytes).ok();
    (void)ParseReply(bytes).ok();
  }
}

// Real messages with a few changed bytes: parsing succeeds or fails, without undefined behaviour.
TEST(Convert, DamagedMessagesAreTakenOrRefusedButNeverMore) {
  Rng rng(4);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::string bytes = Serialize(Random<ControlRequest>(seed));
    std::string reply = Serialize(Random<ControlReply>(seed));
    for (std::string* text : {&bytes, &reply}) {
      if (text->empty()) continue;
      for (int n = 0; n < 4; ++n) (*text)[rng.Below(text->size())] = static_cast<char>(rng());
      text->resize(text->size() - rng.Below(2));
    }
    if (const auto parsed = ParseRequest(bytes); parsed.ok()) {
      EXPECT_EQ(ToText(*ParseRequest(Serialize(*parsed))), ToText(*parsed));
    }
    if (const auto parsed = ParseReply(reply); parsed.ok()) {
      EXPECT_EQ(ToText(*ParseReply(Serialize(*parsed))), ToText(*parsed));
    }
  }
}

}  // namespace
}  // namespace leat::control
