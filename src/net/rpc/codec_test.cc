#include "net/rpc/codec.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/encoding/printable.h"
#include "base/fields/files/testing.h"
#include "base/rng.h"
#include "protocol/random/testing.h"

namespace leat::control {
namespace {

using protocol::ControlReply;
using protocol::ControlRequest;
using std::chrono::seconds;

template <class Message, class Parse>
void ExpectAllComeBack(Parse parse) {
  std::array<int, std::variant_size_v<Message>> seen{};
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const auto message = fields::Random<Message>(seed);
    const auto back = parse(Serialize(message));
    ASSERT_TRUE(back.ok()) << seed << ": " << back.status().ToString();
    ASSERT_EQ(fields::ToText(*back), fields::ToText(message)) << seed;
    if (seed % 20 == 0) {
      ASSERT_EQ(fields::CodecFault(message, seed), "");
    }
    ++seen[message.index()];
  }
  for (const int count : seen) EXPECT_GT(count, 100);
}

TEST(Codec, EveryRequestComesBackWhole) {
  ExpectAllComeBack<ControlRequest>(ParseRequest);
}

TEST(Codec, EveryReplyComesBackWhole) {
  ExpectAllComeBack<ControlReply>(ParseReply);
}

TEST(Codec, ANonFiniteLossIsReported) {
  protocol::WorkerHeartbeat heartbeat;
  heartbeat.progress.loss_sum = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(ParseRequest(Serialize(heartbeat)).ok());
}

// ---- the bytes of each message, made by hand: all fields differ from those of a new struct

protocol::Cut SmallCut(uint32_t partition) {
  return {partition, {0, 900}, {1, 40}, 70, 0x0102030405060708, 10, 0x1112131415161718, 2};
}
protocol::RunSet Runs(uint32_t first) {
  protocol::RunSet runs(2);
  runs.Add(first);
  return runs;
}
protocol::View SmallView() {
  return {Generation(4),
          {{NodeId(5), protocol::Role::kServer, 1, "a:1", protocol::Member::State::kDraining}},
          {{NodeId(5), Incarnation(6), true}, {}},
          {":7", ""}};
}
protocol::CoordinatorSet SmallSet() {
  return {2, 3, {0x21, 0x2200000000000000}};
}
protocol::SliceOrder SmallOrder() {
  return {SliceId(1), Incarnation(2), "/d", "f", 0x31, 3};
}
protocol::ShardReport SmallShard() {
  return {1, Status(Code::kUnavailable, "no"), "s", 300, 0x41, {{SliceId(2), Incarnation(3)}}};
}
protocol::PartitionLedger SmallLedger(uint32_t partition) {
  return {{0, 900}, {{SmallCut(partition), Runs(1)}}};
}
std::vector<protocol::ClockSample> SmallClock() {
  return {{seconds(1), Duration(-2), Duration(3)}};
}

std::vector<ControlRequest> Requests() {
  using namespace protocol;  // NOLINT: the messages
  JoinRequest join{Role::kBots, "1.2", "a:1", "h", 77, 0x51, MpiRank{1, 2}, 0x52, 0x53, "b", true};
  join.place = {"s", "z", "c"};
  join.round_trip = Duration(64);
  join.attempts = 9;
  WorkerHeartbeat worker{NodeId(1), "a:1", 2, Generation(3), 4, {5}, {6, 7}};
  worker.claims = {{8, 9, {1, 2}, 3, 4}};
  worker.leaving = worker.can_rescore = true;
  worker.waiting = true;
  worker.unreachable = {NodeId(10)};
  worker.rescoring = {11};
  worker.unsent = {{12, 13}};
  worker.progress = {1, 2, 0.5, 3, 1.5, 4, 5, 2.5, 3.5, 4.5, 5.5, 6, 7, 6.5, 7.5, 8};
  worker.progress.scores = *FromHex("aa");
  worker.progress.true_scores = *FromHex("bb");
  worker.progress.feed_bytes = 9;
  worker.progress.feed_retries = 10;
  worker.progress.push_retries = 11;
  worker.progress.last_dead_letter = "dl";
  worker.progress.unjoined = 12;
  worker.progress.lost_to_retention = 13;
  worker.progress.first_batch = 14;
  worker.progress.batches = {{15, 8.5, 16, 9.5}};
  worker.progress.share = *FromHex("cc");
  worker.progress.server_waits = {{17, 10.5}};
  worker.member_report = {1,
                          true,
                          true,
                          2,
                          3,
                          {SmallLedger(0)},
                          4,
                          "why",
                          SmallShard(),
                          5,
                          RejectedRun{NodeId(6), SmallCut(7), 1}};
  worker.member_report->skipped = 8;
  worker.member_report->waiting = worker.member_report->started = true;
  worker.elector = {1, 2, 3};
  worker.gradients = *FromHex("dd");
  ServerHeartbeat server{NodeId(1), "a:1", 2, Generation(3)};
  server.ledgers = {{{{SliceId(1), Incarnation(2)}}, 3, {SmallLedger(5)}, 4, 5, true}};
  server.report = 6;
  server.part = 7;
  server.more = server.leaving = true;
  server.failed = {{SliceId(8), Incarnation(9)}};
  server.failure = "why";
  server.shard = SmallShard();
  server.consecutive_rejected = 10;
  server.rejected = {NodeId(6), SmallCut(7), 1};
  server.progress = {1, 2, 3, 4, 5, 6, {7, 8}, 9, 10, 0.5, 11, 12, 13, 14};
  server.moves = {{11, MoveReport::Stage::kFailed, "full"}};
  server.traffic = {{SliceId(12), 13, 14}};
  server.lost_replicas = {{{SliceId(15), Incarnation(16)}, 17}};
  server.version = 18;
  server.elector = {1, 2, 3};
  FeedHeartbeat feed{NodeId(1), 2, 3, true, 0.5};
  feed.publishers = {{1, 2, 3, {{SmallCut(1), Runs(0)}}, 4, Status(Code::kDataLoss, "gone")}};
  feed.term = 4;
  feed.metrics = "a:1";
  return {join,
          worker,
          server,
          BotsHeartbeat{NodeId(1), 2, true, 0.5, 3, "a:1"},
          StatusRequest{true},
          AdminRequest{AdminRequest::Kind::kScale, NodeId(1), WorkerRange{2, 3}, 4, Role::kFeed, 5},
          KeepAlive{NodeId(1), 2, "a:1", Duration(64)},
          JobRequest{"1.2"},
          feed,
          Promise{NodeId(1), 2, 0x61, true, 3, SmallSet()},
          FollowRequest{0x62, 1, 2, 3, 4, 5},
          SpansRequest{NodeId(1), 2, 3, *FromHex("ee"), true, SmallClock(), 4},
          TimelineRequest{TimelineRequest::Kind::kFetch, Duration(64), 1, 2},
          ServeHeartbeat{NodeId(1), 2, Generation(3), true, {1, 2, 3, 4, 5, 0.5, 1.5}, "a:1"},
          PoolRequest{PoolRequest::Kind::kSubmit, "{}"}};
}

std::vector<ControlReply> Replies() {
  using namespace protocol;  // NOLINT: the messages
  const Status no(Code::kStale, "no");
  JoinReply join{no, 1, NodeId(2), 3, "job", Duration(64), Duration(65), "/p", "c", ":1"};
  Lease lease{1, SmallCut(2), Runs(0), 3, 1, 4, 2, RunSet(2, true), 0.5f, LabelRange{5, 6}};
  Lease alone = lease;
  alone.assigned = {};
  alone.labels = {};
  WorkerHeartbeatReply worker{1, true, true, true, SmallView(), {lease, alone}, {2}, {lease}};
  worker.group = {1, SmallView().members, true, 2, NodeId(3), {SmallOrder()}};
  worker.rounds = {{1, 0.5f, {{SmallCut(1), Runs(0), LabelRange{2, 3}}}}};
  worker.start = {{1, 2}};
  worker.checkpoint = {1, "/d", 2};
  worker.transfers = ":1";
  worker.probe = "/p";
  worker.probe_content = "c";
  worker.coordinators = SmallSet();
  worker.waiting = worker.gradients_wanted = true;
  worker.record = {1, Duration(64)};
  ServerHeartbeatReply server{1, true, true, true, SmallView(), {{1, 2}}, {SmallOrder()}};
  server.checkpoint = {1, "/d", 2};
  server.report = 3;
  server.part = 4;
  server.transfers = ":1";
  server.moves = {{1, NodeId(2), "a:1", {{SliceId(3), Incarnation(4)}}, 5, MoveOrder::Kind::kHandOver}};
  server.incoming = {6};
  server.replicated = {{1, NodeId(2), "a:1", {{SliceId(3), Incarnation(4)}}}};
  server.replicas = {{5, NodeId(6), "", {}}};
  server.probe = "/p";
  server.probe_content = "c";
  server.coordinators = SmallSet();
  server.waiting = true;
  server.record = {1, Duration(64)};
  FollowReply follow{1, 2, 3, 4, *FromHex("ff"), 5, true, true, 6, 7, {{1, 2}}, ":1"};
  TimelineReply timeline{no, 1, Duration(64), seconds(1), seconds(2), 2};
  timeline.processes = {{NodeId(1), "worker 0", "h", 77, SmallClock(), 2, "late"}};
  timeline.node = NodeId(3);
  timeline.spans = *FromHex("ee");
  return {Refusal{no},
          join,
          worker,
          server,
          BotsHeartbeatReply{true, true, 1, {"a:1"}},
          StatusReply{"{}"},
          AdminReply{no},
          KeepAliveReply{true, true, {"a:1"}, true},
          JobReply{no, "job", {":1", ":2"}},
          FeedHeartbeatReply{true, true, true, {{1, 2, 3, 4, true}}, 5, {"a:1"}},
          PromiseReply{300},
          follow,
          SpansReply{no, seconds(1)},
          timeline,
          ServeHeartbeatReply{1, true, true, true, SmallView()},
          PoolReply{no, "{}"},
          Candidacy{1, 0x63, SmallSet()}};
}

const std::vector<std::string> kRequestBytes = {
    "010303312e3203613a3101689a015100000000000000010102520000000000000053000000000000000162010173017a0163"
    "800109",
    "020103613a310203040105020607010809010203040101010a01010b010c0d0102000000000000e03f03000000000000f83f"
    "040500000000000004400000000000000c400000000000001240000000000000164006070000000000001a40000000000000"
    "1e400801aa01bb090a0b02646c0c0d0e010f000000000000214010000000000000234001cc01110000000000002540010101"
    "01020301008407010000"
    "840701284608070605040302010a18171615141312110202000000000000000403776879010105026e6f0173ac0241000000"
    "000000000102030501060700840701284608070605040302010a1817161514131211020108010101020301dd",
    "030103613a310203010101020301008407010500840701284608070605040302010a18171615141312110202000000000000"
    "0004050106070101080903776879010105026e6f0173ac024100000000000000010203010a01060700840701284608070605"
    "040302010a18171615141312110201010203040506020708090a000000000000e03f0b0c0d0e010b020466756c6c010c0d0e"
    "010f101112010203",
    "04010201000000000000e03f0303613a31",
    "0501",
    "06050101020301040405",
    "07010203613a318001",
    "0803312e32",
    "0901020301000000000000e03f0101020103010100840701284608070605040302010a181716151413121102010000000000"
    "0000040704676f6e650403613a31",
    "0a01026100000000000000010302030221000000000000000000000000000022",
    "0b62000000000000000102030405",
    "0c01020301ee010180a8d6b907030604",
    "0d0180010102",
    "0e010203010102030405000000000000e03f000000000000f83f03613a31",
    "0f01027b7d",
};

const std::vector<std::string> kReplyBytes = {
    "0106026e6f",
    "0206026e6f010203036a6f6280018201022f700163023a31",
    "030101010101040105010103613a31010205060100000002023a370002010200840701284608070605040302010a18171615"
    "14131211020100000000000000030104020103000000000000000000003f010506010200840701284608070605040302010a"
    "181716151413121102010000000000000003010402000000003f00010201010200840701284608070605040302010a181716"
    "1514131211020100000000000000030104020103000000000000000000003f01050601010105010103613a31010102030101"
    "02022f64016631000000000000000301010000003f010100840701284608070605040302010a181716151413121102010000"
    "00000000000102030101020101022f6402023a31022f70016301020302210000000000000000000000000000220101018001"
    "01",
    "040101010101040105010103613a31010205060100000002023a3700010102010102022f6401663100000000000000030101"
    "022f64020304023a3101010203613a310103040502010601010203613a310103040105060000022f70016301020302210000"
    "000000000000000000000000220101018001",
    "050101010103613a31",
    "06027b7d",
    "0706026e6f",
    "0801010103613a3101",
    "0906026e6f036a6f6202023a31023a32",
    "0a010101010102030401050103613a31",
    "0bac02",
    "0c0102030401ff0501010607010102023a31",
    "0e06026e6f80a8d6b907",
    "0f06026e6f01800180a8d6b90780d0acf30e02010108776f726b6572203001689a010180a8d6b907030602046c6174650301"
    "ee",
    "100101010101040105010103613a31010205060100000002023a3700",
    "1106026e6f027b7d",
    "0d01630000000000000002030221000000000000000000000000000022",
};

template <class Message, class Parse>
void ExpectBytes(const std::vector<Message>& messages, const std::vector<std::string>& bytes, Parse parse) {
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  ASSERT_EQ(bytes.size(), messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].index(), i);
    EXPECT_EQ(ToHex(Serialize(messages[i])), bytes[i]) << i;
    const auto read = parse(*FromHex(bytes[i]));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(fields::ToText(*read), fields::ToText(messages[i]));
  }
}

TEST(Codec, BytesOfEveryRequest) {
  ExpectBytes(Requests(), kRequestBytes, ParseRequest);
}

TEST(Codec, BytesOfEveryReply) {
  ExpectBytes(Replies(), kReplyBytes, ParseReply);
}

TEST(Codec, ThePageHasTheFieldsOfEveryMessage) {
  EXPECT_EQ((fields::PageFault<ControlRequest, ControlReply>(LEAT_CONTROL_PAGE)), "");
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

TEST(Codec, RequestsThatDoNotFitAreRefusedByName) {
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
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "worker.held has 131072 elements, at most 65536");
  worker = {};
  worker.progress.cpu_seconds = -1;
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "cpu_seconds");
  worker.progress.cpu_seconds = std::numeric_limits<double>::infinity();
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "cpu_seconds");
  worker = {};
  worker.progress.scores.resize(2 << 20);
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "scores has 2097152 bytes");
  worker = {};
  worker.progress.share.resize(1 << 17);
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "share has 131072 bytes");
  worker = {};
  worker.progress.batches.resize(1 << 17);
  ExpectRefused(ParseRequest(Serialize(worker)).status(), "batches has 131072 elements");

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
  protocol::ServerHeartbeat past;
  past.ledgers.push_back({{}, 0, {{{}, {{cut, protocol::RunSet(10, true)}}}}, 0});
  std::string digits = ToHex(Serialize(past));
  const std::string ten = "ff03000000000000";
  digits.replace(digits.find(ten), ten.size(), "ff07000000000000");
  ExpectRefused(ParseRequest(*FromHex(digits)).status(), "batches has a run past the end of the cut");
  cut.partition = 1;
  ExpectRefused(with_open({{cut, protocol::RunSet(10)}}),
                "partition of an open split is 1, in the ledger of 0");
  cut = GoodCut();
  cut.batch_size = 0;
  ExpectRefused(with_open({{cut, protocol::RunSet(0)}}), "open[0].cut: invalid cut");

  protocol::ServerHeartbeat server;
  server.rejected.emplace().cut = GoodCut();
  EXPECT_TRUE(ParseRequest(Serialize(server)).ok());
  server.rejected->run = 10;
  ExpectRefused(ParseRequest(Serialize(server)).status(), "rejected: run is 10 of 10");
  server.rejected->cut.run = 0;
  ExpectRefused(ParseRequest(Serialize(server)).status(), "invalid cut");
  server = {};
  server.failed.push_back({SliceId(1 << 20), Incarnation(1)});
  ExpectRefused(ParseRequest(Serialize(server)).status(), "slice is 1048576");
}

TEST(Codec, RepliesThatDoNotFitAreRefusedByName) {
  ExpectRefused(ParseReply(Serialize(protocol::Refusal{})).status(), "without an error");
  protocol::JoinReply join;
  join.heartbeat_interval = Duration(-1);
  ExpectRefused(ParseReply(Serialize(join)).status(), "heartbeat_interval is -1 ns");
  join = {};
  join.probe.assign(1 << 13, 'x');
  ExpectRefused(ParseReply(Serialize(join)).status(), "probe has 8192 bytes");

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
  ExpectRefused(with([](protocol::Lease* l) { l->lane = 1; }),
                "leases[0]: lane is 1 of 1, of which 1 are needed");
  ExpectRefused(with([](protocol::Lease* l) { l->width = 0; }), "leases[0]: lane is 0 of 0");
  ExpectRefused(with([](protocol::Lease* l) { l->needed = 2; }), "of which 2 are needed");
  ExpectRefused(with([](protocol::Lease* l) { l->first_step = ~uint64_t{0}; }), "leases[0].first_step");
  ExpectRefused(with([](protocol::Lease* l) { l->rate = 0; }), "leases[0]: rate is 0.0");
  ExpectRefused(with([](protocol::Lease* l) { l->rate = 1001; }), "rate is 1001.0");
  ExpectRefused(with([](protocol::Lease* l) {
                  l->labels = {8, 7};
                }),
                "labels: labels begin at 8 and end at 7");
  EXPECT_TRUE(with([](protocol::Lease* l) { l->labels = {7, 7}; }).ok());
  const auto other_runs = [](protocol::Lease* l) {
    l->id = 77;
    l->missing.Add(3);
    l->assigned = protocol::RunSet(10);
    l->assigned.Add(4);
  };
  ExpectRefused(with(other_runs), "missing has runs that are not assigned: id is 77");

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
  ExpectRefused(with_round(none), "rounds[0]: number of lanes is 0");
  const auto many = [](protocol::Round* r) { r->lanes.resize(4097, r->lanes[0]); };
  ExpectRefused(with_round(many), "lanes has 4097 elements");
  const auto uneven = [](protocol::Round* r) {
    r->lanes[1].assigned = protocol::RunSet(10);
    r->lanes[1].assigned.Add(3);
  };
  ExpectRefused(with_round(uneven), "number of runs of a lane is 1");
  const auto empty = [](protocol::Round* r) {
    for (auto& part : r->lanes) part.assigned = protocol::RunSet(10);
  };
  ExpectRefused(with_round(empty), "number of runs of a lane is 0");
  const auto late = [](protocol::Round* r) { r->first_step = ~uint64_t{0}; };
  ExpectRefused(with_round(late), "rounds[0].first_step");
  ExpectRefused(with_round([](protocol::Round* r) { r->rate = -1; }), "rounds[0]: rate is -1.0");
  const auto one_labelled = [](protocol::Round* r) { r->lanes[1].labels = {3, 4}; };
  ExpectRefused(with_round(one_labelled), "some lanes have no labels");
  const auto wrong_labels = [](protocol::Round* r) {
    for (auto& part : r->lanes) part.labels = {4, 3};
  };
  ExpectRefused(with_round(wrong_labels), "labels: labels begin at 4 and end at 3");

  protocol::ServerHeartbeatReply server;
  server.orders.emplace_back().file = std::string(5000, 'f');
  ExpectRefused(ParseReply(Serialize(server)).status(), "orders[0].file has 5000 bytes");
  server = {};
  server.view.emplace().members.emplace_back().role = protocol::Role(200);
  ExpectRefused(ParseReply(Serialize(server)).status(), "role is 200");
}

TEST(Codec, NothingAndNoiseAreRefused) {
  EXPECT_EQ(ParseRequest({}).status().message(), "not a control request: 0 bytes");
  EXPECT_EQ(ParseReply({}).status().message(), "not a control reply: 0 bytes");
  ExpectRefused(ParseRequest(Bytes(kMaxMessageBytes + 1)).status(), "not a control request: 4194305 bytes");
  ExpectRefused(ParseRequest(*FromHex("10")).status(), "control request: is of unknown kind 16");
  ExpectRefused(ParseReply(*FromHex("12")).status(), "control reply: is of unknown kind 18");
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(rng.Below(200));
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
    ASSERT_EQ(fields::BytesFault<ControlRequest>(bytes), "");
    ASSERT_EQ(fields::BytesFault<ControlReply>(bytes), "");
  }
}

// Real messages with a few changed bytes: parsing succeeds or fails, without undefined behaviour.
TEST(Codec, DamagedMessagesAreTakenOrRefusedButNeverMore) {
  Rng rng(4);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Bytes request = Serialize(fields::Random<ControlRequest>(seed));
    Bytes reply = Serialize(fields::Random<ControlReply>(seed));
    for (Bytes* bytes : {&request, &reply}) {
      for (int n = 0; n < 4; ++n) (*bytes)[rng.Below(bytes->size())] = static_cast<std::byte>(rng());
      bytes->resize(bytes->size() - rng.Below(2));
    }
    ASSERT_EQ(fields::BytesFault<ControlRequest>(request), "");
    ASSERT_EQ(fields::BytesFault<ControlReply>(reply), "");
  }
}

}  // namespace
}  // namespace leat::control
