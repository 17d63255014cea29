#include "run/launcher/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <variant>

#include "base/recorder/recorder.h"
#include "net/rpc/server.h"

namespace leat::launcher {
namespace {

using std::chrono::milliseconds;

// A coordinator that answers the request after so many questions about its status.
class SlowCoordinator final : public control::ControlClient {
 public:
  explicit SlowCoordinator(int questions, bool answers = true) : left_(questions), answers_(answers) {}

  void AddAddresses(const std::vector<std::string>&) override {}
  std::vector<std::string> addresses() const override { return {address()}; }
  std::string address() const override { return "10.0.0.5:4000"; }
  Result<protocol::ControlReply> Call(const protocol::ControlRequest& request, Duration deadline) override {
    std::unique_lock lock(mutex_);
    if (std::holds_alternative<protocol::StatusRequest>(request)) {
      if (!answers_) return Status(Code::kUnavailable, "10.0.0.5:4000: refused");
      ++asked_;
      if (--left_ <= 0) changed_.notify_all();
      return protocol::ControlReply(protocol::StatusReply{R"({"saving":{"checkpoint":3,"bytes":)" +
                                                          std::to_string(asked_ << 20) +
                                                          R"(,"limit_s":60,"waiting_for":"its manifest"}})"});
    }
    deadline_ = deadline;
    changed_.wait(lock, [this] { return left_ <= 0 || aborted_; });
    if (aborted_) return Status(Code::kAborted, "aborted");
    return protocol::ControlReply(protocol::AdminReply{Status(Code::kResourceExhausted, "the disk is full")});
  }
  void AbortUnsent(bool) override {}
  void Abort() override {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }
  Duration deadline() const { return deadline_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_, asked_ = 0;
  const bool answers_;
  bool aborted_ = false;
  Duration deadline_{};
};

std::string Contents(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

TEST(RunAdmin, WaitsForTheAnswerAndShowsProgress) {
  SlowCoordinator coordinator(3);
  std::FILE* const out = std::tmpfile();
  const Status answer =
      RunAdmin(coordinator, {.kind = protocol::AdminRequest::Kind::kCheckpoint}, out, milliseconds(1));
  EXPECT_EQ(answer, Status(Code::kResourceExhausted, "the disk is full"));
  EXPECT_THAT(Contents(out), ::testing::StartsWith("checkpoint 3: 1 MiB saved, waiting for its manifest\n"
                                                   "checkpoint 3: 2 MiB saved, waiting for its manifest\n"));
  EXPECT_GE(coordinator.deadline(), std::chrono::hours(24)) << "progress decides, not this deadline";
}

TEST(RunAdmin, GivesUpACoordinatorThatDoesNotAnswer) {
  SlowCoordinator coordinator(1, false);
  const Status answer = RunAdmin(coordinator, {.kind = protocol::AdminRequest::Kind::kStop}, stderr,
                                 milliseconds(1), milliseconds(50));
  EXPECT_EQ(answer, Status(Code::kUnavailable, "10.0.0.5:4000: refused"));
}

TEST(DrainRequest, NamesAMemberAsTheStatusDoes) {
  using protocol::Role;
  for (const auto& [name, role, index] : {std::tuple{"worker 3", Role::kWorker, 3u},
                                          {"ps 0", Role::kServer, 0u},
                                          {"feed 12", Role::kFeed, 12u}}) {
    const auto request = DrainRequest(name);
    ASSERT_TRUE(request.ok()) << name;
    EXPECT_EQ(request->kind, protocol::AdminRequest::Kind::kDrain);
    EXPECT_EQ(request->role, role);
    EXPECT_EQ(request->index, index);
  }
  for (const char* name : {"", "worker", "worker ", "worker x", "worker 3 4", "worker -1", "ps", "bots 0",
                           "coordinator 0", "3", "worker 99999999999"}) {
    const auto request = DrainRequest(name);
    ASSERT_FALSE(request.ok()) << name;
    EXPECT_EQ(request.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(request.status().message(),
                ::testing::StartsWith("'" + std::string(name) + "' is no member"));
  }
}

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
