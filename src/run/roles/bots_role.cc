#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "job/job.h"
#include "protocol/guards.h"
#include "run/roles/membership.h"
#include "run/roles/role.h"
#include "stream/bots/bots.h"
#include "stream/topic_writer.h"

namespace leat::roles {
namespace {

// Limits of the events of one append: consecutive payments go to one partition, the next ones to the next.
constexpr uint64_t kSmallestChunk = 256;
constexpr uint64_t kLargestChunk = 2048;
constexpr uint64_t kChunks = 16;  // least number for each partition, if there are enough events
constexpr Duration kTick = std::chrono::milliseconds(20);
constexpr Duration kBotsRetry = std::chrono::seconds(1);
constexpr Duration kLastWait = std::chrono::seconds(5);  // for the last append, when the role ends

// The events of one append.
class Chunk {
 public:
  void Fill(stream::Bots& bots, uint64_t events) {
    while (ends_.size() < events) {
      bots.Next(&text_);
      ends_.push_back(text_.size());
    }
  }
  void Clear() {
    text_.clear();
    ends_.clear();
  }
  bool empty() const { return ends_.empty(); }
  size_t size() const { return ends_.size(); }
  std::vector<std::string_view> Records() const {
    std::vector<std::string_view> records;
    records.reserve(ends_.size());
    size_t begin = 0;
    for (const size_t end : ends_) {
      records.push_back(std::string_view(text_).substr(begin, end - begin));
      begin = end;
    }
    return records;
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;  // ends of the events in the text
};

class BotsRole {
 public:
  BotsRole(net::Loop& loop, Membership& membership, const stream::BotsConfig& config,
           std::unique_ptr<stream::TopicWriter> writer, uint64_t published, bool sealed)
      : loop_(loop),
        membership_(membership),
        config_(config),
        bots_(config_),
        writer_(std::move(writer)),
        most_(std::clamp(config_.events / (kChunks * writer_->partitions()), kSmallestChunk, kLargestChunk)),
        published_(published),
        first_(published),
        done_(sealed),
        term_(membership.joined().term) {}

  // Returns once all is published, the job is over, or this node is evicted.
  Status Run() {
    if (!done_) loop_.Post([this] { CatchUp(); });
    Status outcome =
        membership_.Run({.make_heartbeat = [this] { return MakeHeartbeat(); },
                         .on_reply = [this](const protocol::ControlReply& reply) { OnReply(reply); },
                         .on_leave =
                             [this] {
                               FinishLast();
                               ReportDone();
                             },
                         .quiet = [this] { return published_ == reported_; },
                         .urgent_gap = Duration::zero()});
    FinishLast();
    return outcome;
  }

 private:
  protocol::BotsHeartbeat MakeHeartbeat() {
    protocol::BotsHeartbeat heartbeat;
    heartbeat.node = membership_.node();
    heartbeat.term = term_;
    heartbeat.published = reported_ = published_;
    heartbeat.done = reported_done_ = done_;
    heartbeat.cpu_seconds = OwnCpuSeconds();
    return heartbeat;
  }

  void OnReply(const protocol::ControlReply& reply) {
    const auto* answer = std::get_if<protocol::BotsHeartbeatReply>(&reply);
    if (answer == nullptr || !protocol::guards::CurrentTerm(answer->term, term_)) return;
    term_ = answer->term;
    if (answer->stop || answer->evicted || reported_done_)
      membership_.Stop(answer->evicted && !reported_done_);
  }

  // Publishes no more. The coordinator is told at once, so that it does not wait for this node.
  void ReportDone() {
    done_ = true;
    membership_.RequestHeartbeat();
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
    } else if (!membership_.over() && !done_) {
      loop_.After(Duration{0}, [this] { CatchUp(); });
    }
  }

  // Publishes the events that are due by now, for no longer than a tick at a time, too.
  void Publish() {
    if (membership_.over() || done_) return;
    const Time began = loop_.Now();
    uint64_t due = config_.events;
    if (config_.rate > 0) {
      due = std::min(due, first_ + static_cast<uint64_t>(Seconds(began - start_) * config_.rate));
    }
    while (published_ < due && loop_.Now() - began < kTick) {
      if (auto status = PublishChunk(due); !status.ok()) {
        spdlog::error("{}", status.ToString());
        loop_.After(kBotsRetry, [this] { Publish(); });
        return;
      }
    }
    if (published_ >= config_.events) return Finish();
    loop_.After(published_ < due ? Duration{0} : kTick, [this] { Publish(); });
  }

  // Makes a chunk while the one before it is appended, then starts to append it. No more than one is on its
  // way: bots that are started after a crash know only how many events the topic has.
  Status PublishChunk(uint64_t due) {
    const uint64_t left = due - std::min(due, bots_.produced());
    if (next_.empty()) next_.Fill(bots_, std::min(most_, left));
    LEAT_RETURN_IF_ERROR(StartChunk());
    LEAT_RETURN_IF_ERROR(FinishChunk(Duration::max()));
    std::swap(chunk_, next_);
    return StartChunk();
  }

  // Starts to append the chunk. A chunk that could not be appended stays and goes first next time.
  Status StartChunk() {
    if (started_ || chunk_.empty()) return {};
    LEAT_RETURN_IF_ERROR(
        writer_->Start(static_cast<uint32_t>(appends_ % writer_->partitions()), chunk_.Records()));
    started_ = true;
    return {};
  }

  Status FinishChunk(Duration timeout) {
    if (!std::exchange(started_, false)) return {};
    LEAT_RETURN_IF_ERROR(writer_->Finish(timeout));
    ++appends_;
    published_ += chunk_.size();
    chunk_.Clear();
    return {};
  }

  // The role ends. A chunk that is not started has failed before, which was reported.
  void FinishLast() {
    if (const Status status = FinishChunk(kLastWait); !status.ok())
      spdlog::error("the last {} events may not be published: {}", chunk_.size(), status.ToString());
  }

  void Finish() {
    if (auto status = writer_->Seal(); !status.ok()) {
      spdlog::error("{}", status.ToString());
      loop_.After(kBotsRetry, [this] { Finish(); });
      return;
    }
    spdlog::info("all {} events are published", published_);
    ReportDone();
  }

  net::Loop& loop_;
  Membership& membership_;
  stream::BotsConfig config_;
  stream::Bots bots_;
  std::unique_ptr<stream::TopicWriter> writer_;
  const uint64_t most_;  // events of one append
  uint64_t appends_ = 0;
  Chunk chunk_, next_;
  bool started_ = false;  // the append of chunk_
  uint64_t published_ = 0;
  uint64_t first_ = 0;
  Time start_{0};
  bool done_;      // publishes no more
  uint64_t term_;  // term of the coordinator that it follows
  bool reported_done_ = false;
  uint64_t reported_ = 0;  // value of published_ in the last report
};

// From joining until they are done, or this node is evicted.
Status RunBotsOnce(net::Loop& loop, Membership& membership, const RoleOptions& options) {
  const auto joined = membership.Join("");
  if (!joined.ok()) return Membership::JoinError(joined.status());
  const job::Job& job = *joined;
  if (job.stream->bots() == nullptr)
    return Status(Code::kInvalidArgument, "job '" + job.name + "' has no bots in its stream");
  LEAT_ASSIGN_OR_RETURN(const auto source, job.stream->Open());
  LEAT_ASSIGN_OR_RETURN(const auto ranges, source->Ranges());
  uint64_t published = 0;
  bool sealed = true;
  for (const auto& range : ranges) {
    published += range.end;
    sealed = sealed && range.sealed;
  }
  if (sealed) {
    spdlog::info("the topic is sealed already: nothing to publish");
  } else {
    spdlog::info("bots go on at event {}", published);
  }
  LEAT_ASSIGN_OR_RETURN(auto writer, job.stream->OpenWriter());
  stream::BotsConfig config = *job.stream->bots();
  config.rate = options.rate.value_or(config.rate);
  return BotsRole(loop, membership, config, std::move(writer), published, sealed).Run();
}

}  // namespace

Status RunBots(const RoleOptions& options) {
  return RejoinWhileEvicted(options, protocol::Role::kBots, RunBotsOnce);
}

}  // namespace leat::roles
