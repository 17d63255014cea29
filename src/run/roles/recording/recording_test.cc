#include "run/roles/recording/recording.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <variant>

#include "base/recorder/recorder.h"
#include "base/testing.h"
#include "net/rpc/server.h"
#include "show/timeline/collector.h"

namespace leat::roles {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr NodeId kNode(7);

// A coordinator that collects, and whose clock is ahead by some hours.
class FakeCoordinator {
 public:
  static constexpr Duration kAhead = std::chrono::hours(5);

  FakeCoordinator() {
    auto server = control::ControlServer::Start(
        "127.0.0.1:0", "token", [this](protocol::ControlRequest request, auto reply) {
          std::lock_guard lock(mutex_);
          ++requests_;
          const auto* spans = std::get_if<protocol::SpansRequest>(&request);
          if (spans == nullptr || silent_) return;
          auto answer = collector_.OnSpans(Now(), *spans);
          // Every third answer to a chunk is lost.
          if (!spans->spans.empty() && ++chunks_ % 3 == 0) return;
          reply(std::move(answer));
        });
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }
  const std::string& address() const { return server_->address(); }

  protocol::ControlReply Order(Duration length) {
    std::lock_guard lock(mutex_);
    const timeline::Collector::Member member{kNode, "worker 0", "host", 1};
    const auto started = collector_.Start(Now(), length, {member});
    EXPECT_TRUE(started.status.ok());
    last_ = started.recording;
    protocol::WorkerHeartbeatReply reply;
    reply.record = collector_.OrderFor(Now(), member);
    return reply;
  }
  // Another one of the next term, which knows of no recording.
  void Restart() {
    std::lock_guard lock(mutex_);
    collector_ = timeline::Collector(2);
  }
  // All spans, once the recording is complete.
  std::optional<std::vector<timeline::Span>> Complete(protocol::TimelineProcess* process) {
    std::lock_guard lock(mutex_);
    collector_.OnTimer(Now(), {kNode});
    protocol::TimelineRequest fetch{.kind = protocol::TimelineRequest::Kind::kFetch, .recording = last_};
    const auto first = collector_.OnFetch(Now(), fetch);
    if (first.parts == 0) return std::nullopt;
    *process = first.processes.at(1);
    std::vector<timeline::Span> all;
    for (fetch.part = 1; fetch.part < first.parts; ++fetch.part) {
      const auto tracks = timeline::DecodeSpans(collector_.OnFetch(Now(), fetch).spans);
      EXPECT_TRUE(tracks.ok());
      for (const auto& track : *tracks) all.insert(all.end(), track.spans.begin(), track.spans.end());
    }
    return all;
  }
  void BeSilent() {
    std::lock_guard lock(mutex_);
    silent_ = true;
  }
  int requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static Time Now() { return MonotonicClock().Now() + kAhead; }

  std::mutex mutex_;
  timeline::Collector collector_{1};
  uint64_t last_ = 0;  // recording
  int requests_ = 0, chunks_ = 0;
  bool silent_ = false;
  std::unique_ptr<control::ControlServer> server_;
};

CoordinatorClientOptions Options() {
  CoordinatorClientOptions options;
  options.token = "token";
  return options;
}

TEST(RoleRecording, SendsEachSpanOnce) {
  FakeCoordinator coordinator;
  RoleRecording recording(Options());
  timeline::Track* const track = recording.recorder().MakeTrack("compute");
  const auto order = coordinator.Order(milliseconds(500));
  recording.OnReply(kNode, order, coordinator.address());
  recording.OnReply(kNode, order, coordinator.address());  // it is repeated
  protocol::TimelineProcess process;
  std::optional<std::vector<timeline::Span>> spans;
  uint64_t added = 0;
  const Time until = MonotonicClock().Now() + std::chrono::minutes(1);
  while (!(spans = coordinator.Complete(&process)) && MonotonicClock().Now() < until) {
    if (track->on()) track->Add({.end = Time(1), .number = ++added});
    std::this_thread::yield();
  }
  ASSERT_TRUE(spans);
  EXPECT_EQ(process.missing, "");
  ASSERT_GT(spans->size(), 0u);
  uint64_t last = 0;
  for (const auto& span : *spans) {
    ASSERT_GT(span.number, last);
    last = span.number;
  }
  // The one during whose addition the recording ended may be missing.
  EXPECT_LE(spans->size() + process.dropped, added);
  EXPECT_GE(spans->size() + process.dropped + 1, added);
  // The clock is measured.
  ASSERT_EQ(process.clock.size(), 2u);
  for (const auto& sample : process.clock)
    EXPECT_LE(std::abs((sample.offset - FakeCoordinator::kAhead).count()), sample.error.count());
}

TEST(RoleRecording, TheNextCoordinatorRecordsToo) {
  FakeCoordinator coordinator;
  RoleRecording recording(Options());
  recording.OnReply(kNode, coordinator.Order(seconds(30)), coordinator.address());
  while (coordinator.requests() == 0) std::this_thread::yield();
  coordinator.Restart();
  recording.OnReply(kNode, coordinator.Order(milliseconds(100)), coordinator.address());
  protocol::TimelineProcess process;
  const Time until = MonotonicClock().Now() + std::chrono::minutes(1);
  while (!coordinator.Complete(&process) && MonotonicClock().Now() < until) std::this_thread::yield();
  EXPECT_EQ(process.missing, "");
  EXPECT_EQ(process.name, "worker 0");
}

TEST(RoleRecording, EndsWithTheRole) {
  FakeCoordinator coordinator;
  coordinator.BeSilent();
  auto recording = std::make_unique<RoleRecording>(Options());
  recording->OnReply(kNode, coordinator.Order(seconds(30)), coordinator.address());
  while (coordinator.requests() == 0) std::this_thread::yield();
  recording.reset();
}

TEST(RoleRecording, OtherRepliesSayNothing) {
  RoleRecording recording(Options());
  timeline::Track* const track = recording.recorder().MakeTrack("compute");
  recording.OnReply(kNode, protocol::WorkerHeartbeatReply(), "127.0.0.1:1");
  recording.OnReply(kNode, protocol::AdminReply(), "127.0.0.1:1");
  EXPECT_FALSE(track->on());
}

}  // namespace
}  // namespace leat::roles
