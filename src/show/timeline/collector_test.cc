#include "show/timeline/collector.h"

#include <gtest/gtest.h>

#include "base/recorder/recorder.h"

namespace leat::timeline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using RequestKind = protocol::TimelineRequest::Kind;

constexpr uint64_t kTerm = 3, kFirst = (kTerm << 32) + 1;  // the first recording
constexpr NodeId kWorker(3), kServer(4), kLate(5);

class CollectorTest : public ::testing::Test {
 protected:
  protocol::TimelineReply Start(Duration length = seconds(5)) {
    return collector_.Start(now_, length, {{kWorker, "worker 0", "a", 11}, {kServer, "ps 0", "b", 12}});
  }
  protocol::SpansReply Send(NodeId node, uint64_t chunk, const std::string& text, bool last = false) {
    const ByteView bytes = AsBytes(text);
    return collector_.OnSpans(now_, {.node = node,
                                     .recording = kFirst,
                                     .chunk = chunk,
                                     .spans = {bytes.begin(), bytes.end()},
                                     .last = last});
  }
  protocol::TimelineReply Fetch(uint64_t part = 0, uint64_t recording = kFirst) {
    return collector_.OnFetch(now_, {.kind = RequestKind::kFetch, .recording = recording, .part = part});
  }
  void Pass(Duration by, std::set<NodeId> members = {kWorker, kServer, kLate}) {
    now_ += by;
    collector_.OnTimer(now_, members);
  }
  // The parts of a complete recording: "worker 0: text".
  std::vector<std::string> Parts() {
    const auto first = Fetch();
    std::vector<std::string> parts;
    for (uint64_t part = 1; part < first.parts; ++part) {
      const auto reply = Fetch(part);
      EXPECT_TRUE(reply.status.ok());
      parts.push_back(ToString(reply.node) + ": " + std::string(AsText(reply.spans)));
    }
    return parts;
  }
  std::string Missing(NodeId node) {
    for (const auto& process : Fetch().processes) {
      if (process.node == node) return process.missing;
    }
    return "it is not there";
  }

  Time now_ = seconds(1000);
  Collector collector_{kTerm};
};

TEST_F(CollectorTest, TellsMembersToRecordUntilTheEnd) {
  EXPECT_EQ(collector_.OrderFor(now_, {kWorker, "worker 0"}), std::nullopt);
  const auto started = Start();
  ASSERT_TRUE(started.status.ok());
  EXPECT_EQ(started.begin, now_ + Collector::kLead);
  EXPECT_EQ(started.end, started.begin + seconds(5));
  EXPECT_EQ(collector_.OrderFor(now_, {kWorker, "worker 0"}), (protocol::RecordOrder{kFirst, seconds(6)}));
  now_ += seconds(2);
  EXPECT_EQ(collector_.OrderFor(now_, {kLate, "worker 1"}), (protocol::RecordOrder{kFirst, seconds(4)}));
  now_ += seconds(4);
  EXPECT_EQ(collector_.OrderFor(now_, {kWorker, "worker 0"}), std::nullopt);
}

TEST_F(CollectorTest, HandsOutWhatTheMembersHaveSent) {
  Start();
  EXPECT_EQ(Send(kWorker, 0, "").now, now_) << "it asks for the time";
  EXPECT_TRUE(Send(kWorker, 0, "one").status.ok());
  EXPECT_TRUE(Send(kWorker, 0, "one").status.ok()) << "the answer was lost";
  EXPECT_TRUE(Send(kWorker, 1, "two").status.ok());
  EXPECT_TRUE(Send(kServer, 0, "three").status.ok());
  Pass(seconds(6));
  EXPECT_EQ(Fetch().parts, 0u) << "their last chunks are missing";
  EXPECT_EQ(Fetch().left, Collector::kGrace);
  auto last = protocol::SpansRequest{.node = kWorker, .recording = kFirst, .chunk = 2, .last = true};
  last.clock = {{.at = seconds(1), .offset = seconds(-3), .error = milliseconds(1)}};
  last.dropped = 9;
  EXPECT_TRUE(collector_.OnSpans(now_, last).status.ok());
  EXPECT_TRUE(Send(kServer, 1, "", true).status.ok());
  Pass(milliseconds(100));
  EXPECT_FALSE(collector_.recording());
  EXPECT_EQ(Parts(), (std::vector<std::string>{"3: onetwo", "4: three"}));
  const auto processes = Fetch().processes;
  ASSERT_EQ(processes.size(), 3u);
  EXPECT_EQ(processes[0].name, "coordinator");
  EXPECT_EQ(
      processes[1],
      (protocol::TimelineProcess{
          .node = kWorker, .name = "worker 0", .host = "a", .pid = 11, .clock = last.clock, .dropped = 9}));
  for (const auto& process : processes) EXPECT_EQ(process.missing, "");
  EXPECT_EQ(Fetch(3).status.code(), Code::kInvalidArgument);
  EXPECT_EQ(Fetch(0, kFirst + 1).status.code(), Code::kNotFound);
  EXPECT_EQ(Send(kWorker, 3, "four").status.code(), Code::kNotFound);
}

TEST_F(CollectorTest, WaitsForNobody) {
  Start();
  Send(kWorker, 0, "one");
  Pass(seconds(6) + Collector::kGrace - milliseconds(1));
  EXPECT_TRUE(collector_.recording());
  Pass(milliseconds(1));
  EXPECT_EQ(Parts(), (std::vector<std::string>{"3: one"}));
  EXPECT_EQ(Missing(kWorker), "it has not sent all in time");
  EXPECT_EQ(Missing(kServer), "it has sent nothing");
}

TEST_F(CollectorTest, MembersThatAreLost) {
  Start();
  Pass(seconds(1), {kWorker});
  Send(kWorker, 0, "one", true);
  Pass(seconds(5));
  EXPECT_EQ(Missing(kServer), "it has left the job, or was lost");
  EXPECT_EQ(Missing(kWorker), "");
}

TEST_F(CollectorTest, OneAtATime) {
  EXPECT_EQ(Start(seconds(0)).status.code(), Code::kInvalidArgument);
  EXPECT_EQ(Start(Collector::kLongest + milliseconds(1)).status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Start().status.ok());
  EXPECT_EQ(Start().status.code(), Code::kFailedPrecondition);
  Pass(seconds(6) + Collector::kGrace);
  const auto next = Start();
  EXPECT_TRUE(next.status.ok());
  EXPECT_EQ(next.recording, kFirst + 1);
  EXPECT_EQ(Fetch(0, kFirst).status.code(), Code::kNotFound);
}

TEST_F(CollectorTest, RecordingsOfTheNextCoordinatorAreOthers) {
  const auto before = Start();
  collector_ = Collector(kTerm + 1);
  const auto after = Start();
  EXPECT_GT(after.recording, before.recording) << "or members would take it for the one that they know";
}

TEST_F(CollectorTest, SmallPartsAreJoined) {
  Start(seconds(60));
  const std::string half(kMaxChunkBytes / 2, 'x');
  for (uint64_t i = 0; i < 240; ++i) {
    EXPECT_TRUE(Send(kWorker, i, "a").status.ok());
    EXPECT_TRUE(Send(kServer, i, i < 3 ? half : "b").status.ok());
  }
  Pass(seconds(61) + Collector::kGrace);
  EXPECT_EQ(Fetch().parts, 4u);
  EXPECT_EQ(Parts(), (std::vector<std::string>{"3: " + std::string(240, 'a'), "4: " + half + half,
                                               "4: " + half + std::string(237, 'b')}));
}

TEST_F(CollectorTest, ClocksThatCannotBeAreRefused) {
  Start();
  protocol::SpansRequest last{.node = kWorker, .recording = kFirst, .last = true};
  constexpr Duration kFar{int64_t{1} << 62};
  for (const protocol::ClockSample& sample :
       {protocol::ClockSample{.offset = kFar}, protocol::ClockSample{.offset = -kFar},
        protocol::ClockSample{.at = -seconds(1)}, protocol::ClockSample{.at = kFar},
        protocol::ClockSample{.error = -seconds(1)}, protocol::ClockSample{.error = kFar}}) {
    last.clock = {sample};
    EXPECT_EQ(collector_.OnSpans(now_, last).status.code(), Code::kInvalidArgument);
  }
  last.clock = {{.at = seconds(1), .offset = -std::chrono::hours(24 * 365), .error = seconds(1)}};
  EXPECT_TRUE(collector_.OnSpans(now_, last).status.ok());
}

TEST_F(CollectorTest, WaitsForWhoeverFetches) {
  Start();
  Pass(seconds(6) + Collector::kGrace);
  for (int i = 0; i < 3; ++i) {
    Pass(Collector::kKept - milliseconds(1));
    EXPECT_TRUE(Fetch().status.ok());
  }
}

TEST_F(CollectorTest, ForgetsWhatNobodyFetches) {
  Start();
  Pass(seconds(6) + Collector::kGrace);
  Pass(Collector::kKept + milliseconds(1));
  EXPECT_EQ(Fetch().status.code(), Code::kNotFound);
}

TEST_F(CollectorTest, IsBounded) {
  Start();
  const std::string chunk(kMaxChunkBytes, 'x');
  EXPECT_EQ(Send(kWorker, 0, chunk + "x").status.code(), Code::kInvalidArgument);
  EXPECT_EQ(Send(NodeId(99), 0, "x").status.code(), Code::kNotFound);
  EXPECT_EQ(Send(NodeId(0), 0, "x").status.code(), Code::kNotFound) << "the coordinator's own";
  uint64_t sent = 0;
  for (uint64_t i = 0; i < Collector::kMaxBytes / kMaxChunkBytes + 3; ++i)
    sent += Send(kWorker, i, chunk).status.ok() ? 1 : 0;
  EXPECT_EQ(sent, Collector::kMaxBytes / kMaxChunkBytes + 3);
  Pass(seconds(6) + Collector::kGrace);
  EXPECT_EQ(Fetch().parts, 1 + Collector::kMaxBytes / kMaxChunkBytes);
}

TEST_F(CollectorTest, ItsOwnSpans) {
  const std::vector<TrackSpans> own = {
      {"checkpoints", {{.kind = timeline::Kind::kCheckpoint, .end = Time(5)}}}};
  collector_.AddOwn(own, 0);
  Start();
  collector_.AddOwn(own, 3);
  Pass(seconds(6) + Collector::kGrace);
  const auto part = Fetch(1);
  EXPECT_EQ(part.node, NodeId(0));
  const auto tracks = DecodeSpans(part.spans);
  ASSERT_TRUE(tracks.ok());
  EXPECT_EQ(*tracks, own);
  EXPECT_EQ(Fetch().processes.at(0).dropped, 3u);
}

}  // namespace
}  // namespace leat::timeline
