#include "roles/bots_role.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "job/job.h"
#include "launcher/signals.h"
#include "roles/role.h"
#include "stream/bots/bots.h"
#include "stream/log/log.h"

namespace leat::train {
namespace {

// Events of one append: consecutive payments go to one partition, the next ones to the next.
constexpr uint64_t kChunk = 256;
constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr Duration kRetry = std::chrono::seconds(1);

class BotsRole {
 public:
  BotsRole(net::Loop& loop, CoordinatorClient& coordinator_client, const Job& job,
           std::unique_ptr<stream::LogWriter> writer, uint64_t published, bool sealed,
           const protocol::JoinReply& joined)
      : loop_(loop),
        coordinator_client_(coordinator_client),
        config_(*job.stream.bots),
        bots_(config_),
        writer_(std::move(writer)),
        node_(joined.node),
        interval_(joined.heartbeat_interval),
        published_(published),
        first_(published),
        done_(sealed) {}

  // Returns once all is published, the job is over, or this node is evicted (`evicted` is set).
  Status Run(bool* evicted) {
    SendHeartbeat();
    if (!done_) CatchUp();
    loop_.Run();
    *evicted = evicted_;
    return outcome_;
  }

  // The coordinator is told, so that it does not wait for this node.
  void Leave() {
    done_ = true;
    SendHeartbeat();
  }

 private:
  void SendHeartbeat() {
    if (over_ || coordinator_client_.busy()) return;
    protocol::BotsHeartbeat heartbeat;
    heartbeat.node = node_;
    heartbeat.published = published_;
    heartbeat.done = done_;
    heartbeat.cpu_seconds = OwnCpuSeconds();
    coordinator_client_.Send(heartbeat, [this, last = done_](Result<protocol::ControlReply> reply) {
      if (over_) return;
      if (!reply.ok()) {
        if (coordinator_client_.lost()) return End(reply.status().With("the coordinator is lost"));
      } else if (const auto* answer = std::get_if<protocol::BotsHeartbeatReply>(&*reply)) {
        evicted_ = answer->evicted && !last;
        if (answer->stop || answer->evicted || last) return End(Status());
        if (done_) return SendHeartbeat();
      }
      loop_.After(interval_, [this] { SendHeartbeat(); });
    });
  }

  // Makes the payments again that are there already, so that the next one is the one that follows; for no
  // longer than a tick at a time, since heartbeats must go out too.
  void CatchUp() {
    const Time began = loop_.Now();
    std::string skipped;
    while (bots_.produced() < published_ && loop_.Now() - began < kTick) {
      skipped.clear();
      bots_.Next(&skipped);
    }
    if (bots_.produced() >= published_) {
      start_ = loop_.Now();
      Publish();
    } else if (!over_ && !done_) {
      loop_.After(Duration{0}, [this] { CatchUp(); });
    }
  }

  // Publishes what is due by now, for no longer than a tick at a time, too.
  void Publish() {
    if (over_ || done_) return;
    const Time began = loop_.Now();
    uint64_t due = config_.events;
    if (config_.rate > 0) {
      due = std::min(due, first_ + static_cast<uint64_t>(Seconds(began - start_) * config_.rate));
    }
    while (published_ < due && loop_.Now() - began < kTick) {
      if (auto status = AppendChunk(std::min(kChunk, due - published_)); !status.ok()) {
        spdlog::error("{}", status.ToString());
        loop_.After(kRetry, [this] { Publish(); });
        return;
      }
    }
    if (published_ >= config_.events) return Finish();
    loop_.After(published_ < due ? Duration{0} : kTick, [this] { Publish(); });
  }

  // What could not be appended stays and goes first next time.
  Status AppendChunk(uint64_t events) {
    if (chunk_.empty()) {
      for (uint64_t i = 0; i < events; ++i) {
        chunk_.emplace_back();
        bots_.Next(&chunk_.back());
      }
    }
    const std::vector<std::string_view> records(chunk_.begin(), chunk_.end());
    const auto partition = static_cast<uint32_t>(published_ / kChunk % writer_->partitions());
    auto appended = writer_->Append(partition, records);
    if (!appended.ok()) return appended.status();
    published_ += chunk_.size();
    chunk_.clear();
    return Status();
  }

  void Finish() {
    if (auto status = writer_->Seal(); !status.ok()) {
      spdlog::error("{}", status.ToString());
      loop_.After(kRetry, [this] { Finish(); });
      return;
    }
    spdlog::info("all {} events are published", published_);
    done_ = true;
    SendHeartbeat();
  }

  void End(Status outcome) {
    over_ = true;
    outcome_ = std::move(outcome);
    loop_.Stop();
  }

  net::Loop& loop_;
  CoordinatorClient& coordinator_client_;
  stream::BotsConfig config_;
  stream::Bots bots_;
  std::unique_ptr<stream::LogWriter> writer_;
  NodeId node_;
  Duration interval_;
  std::vector<std::string> chunk_;
  uint64_t published_ = 0;
  uint64_t first_ = 0;
  Time start_{0};
  bool done_;  // publishes no more
  bool over_ = false;
  bool evicted_ = false;
  Status outcome_;
};

// One life of the bots: until they are done, or (`evicted` is set) have to join again.
Status RunOnce(const RoleOptions& options, uint64_t* job_hash, bool* evicted) {
  *evicted = false;
  net::Loop loop;
  CoordinatorClient coordinator_client(loop, options.coordinator_client);
  auto joined = coordinator_client.Join(MakeJoinRequest(protocol::Role::kBots, "", *job_hash));
  if (!joined.ok()) return JoinError(joined.status());
  const Job job = Job::FromText(joined->job, "job");
  *job_hash = job.Hash();
  if (!job.stream.bots)
    return Status(Code::kInvalidArgument, "job '" + job.name + "' has no bots in its stream");
  auto source = job.OpenSource();
  if (!source.ok()) return source.status();
  auto ranges = (*source)->Ranges();
  if (!ranges.ok()) return ranges.status();
  uint64_t published = 0;
  bool sealed = true;
  for (const auto& range : *ranges) {
    published += range.end;
    sealed = sealed && range.sealed;
  }
  if (sealed) {
    spdlog::info("the topic is sealed already: nothing to publish");
  } else {
    spdlog::info("bots go on at event {}", published);
  }
  auto writer = stream::LogWriter::Open(job.LogDirectory(), job.stream.topic);
  if (!writer.ok()) return writer.status();
  BotsRole role(loop, coordinator_client, job, std::move(*writer), published, sealed, *joined);
  SignalWatch signals([&](int) { loop.Post([&role] { role.Leave(); }); });
  return role.Run(evicted);
}

}  // namespace

Status RunBots(const RoleOptions& options) {
  bool evicted = true;
  uint64_t job_hash = 0;
  while (evicted) LEAT_RETURN_IF_ERROR(RunOnce(options, &job_hash, &evicted));
  return Status();
}

}  // namespace leat::train
