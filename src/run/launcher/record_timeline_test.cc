#include "run/launcher/record_timeline.h"

#include <gtest/gtest.h>

#include <thread>
#include <variant>

#include "base/recorder/recorder.h"
#include "net/rpc/server.h"

namespace leat::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kParts = 12;  // and part 0

// A coordinator with a recording that is complete, behind a slow network. Does not answer for part `silent`.
std::unique_ptr<control::ControlServer> Serve(Duration pause, uint64_t silent) {
  auto server = control::ControlServer::Start(
      "127.0.0.1:0", "token", [=](protocol::ControlRequest request, auto reply) {
        const auto* timeline = std::get_if<protocol::TimelineRequest>(&request);
        if (timeline == nullptr || timeline->part == silent) return;
        protocol::TimelineReply answer{.recording = 5, .begin = seconds(1), .end = seconds(2)};
        if (timeline->kind == protocol::TimelineRequest::Kind::kFetch) {
          answer.parts = 1 + kParts;
          if (timeline->part == 0) {
            answer.processes = {{.node = NodeId(7), .name = "worker 0"}};
          } else {
            std::this_thread::sleep_for(pause);
            answer.node = NodeId(7);
            answer.spans = timeline::EncodeSpans({{"compute", {{.number = timeline->part}}}}).at(0);
          }
        }
        reply(std::move(answer));
      });
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  return std::move(*server);
}

TEST(RecordTimeline, TakesAsLongAsPartsCome) {
  const auto coordinator = Serve(milliseconds(130), 99);
  const auto client = control::ControlClient::Make(coordinator->address(), "token");
  const auto recorded = RecordTimeline(*client, milliseconds(1), seconds(1));
  ASSERT_TRUE(recorded.ok()) << recorded.status().ToString();
  ASSERT_EQ(recorded->processes.size(), 1u);
  ASSERT_EQ(recorded->processes[0].tracks.size(), 1u);
  EXPECT_EQ(recorded->processes[0].tracks[0].spans.size(), kParts);
}

TEST(RecordTimeline, GivesUpOnAPartThatDoesNotCome) {
  const auto coordinator = Serve(Duration::zero(), 3);
  const auto client = control::ControlClient::Make(coordinator->address(), "token");
  EXPECT_EQ(RecordTimeline(*client, milliseconds(1), milliseconds(300)).status().code(),
            Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace leat::launcher
