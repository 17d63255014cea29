#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/log.h"
#include "job/job.h"
#include "net/address.h"
#include "protocol/guards.h"
#include "run/feed/server.h"
#include "run/roles/feed/job_feeds.h"
#include "run/roles/membership.h"
#include "run/roles/predictions/publisher_service.h"
#include "run/roles/role.h"

namespace leat::roles {
namespace {

// The membership of a feed; the feed itself is on its own thread.
class FeedRole {
 public:
  // `publisher`: null if the job publishes no predictions.
  FeedRole(Membership& membership, const feed::ServerThread& feed, PublisherService* publisher)
      : membership_(membership), feed_(feed), publisher_(publisher), term_(membership.joined().term) {}

  Status Run() {
    return membership_.Run(
        {.make_heartbeat = [this] { return MakeHeartbeat(); },
         .on_reply = [this](const protocol::ControlReply& reply) { OnReply(reply); },
         .on_leave =
             [this] {
               leaving_ = true;
               membership_.RequestHeartbeat();
             },
         .quiet =
             [this] { return publisher_ == nullptr && feed_.server().requests() == reported_requests_; }});
  }

 private:
  protocol::FeedHeartbeat MakeHeartbeat() {
    reported_requests_ = feed_.server().requests();
    return {.node = membership_.node(),
            .requests = reported_requests_,
            .bytes_sent = feed_.server().bytes_sent(),
            .leaving = leaving_,
            .cpu_seconds = OwnCpuSeconds(),
            .publishers =
                publisher_ != nullptr ? publisher_->Reports() : std::vector<protocol::PublisherReport>(),
            .term = term_};
  }

  void OnReply(const protocol::ControlReply& reply) {
    const auto* answer = std::get_if<protocol::FeedHeartbeatReply>(&reply);
    if (answer == nullptr || !protocol::guards::CurrentTerm(answer->term, term_)) return;
    // A new coordinator orders nothing before it knows what is published here.
    const bool knows = std::exchange(term_, answer->term) == answer->term;
    if (publisher_ != nullptr && knows && !answer->stop) publisher_->SetOrders(answer->publish);
    if (!knows) membership_.RequestHeartbeat();
    if (answer->stop || answer->evicted) membership_.Stop(answer->evicted && !leaving_);
  }

  Membership& membership_;
  const feed::ServerThread& feed_;
  PublisherService* const publisher_;
  uint64_t term_;  // term of the coordinator that it follows
  bool leaving_ = false;
  uint64_t reported_requests_ = 0;
};

// The job with the identities of this host's copies. A coordinator without the files does not know them.
Result<job::Job> ReadJob(const std::string& yaml, const std::string& data) {
  job::Job job = job::Job::FromFiles(yaml, "job", data);
  if (!job.inputs.empty()) {
    LEAT_RETURN_IF_ERROR(job.CheckInputs());
    return job;
  }
  LEAT_RETURN_IF_ERROR(job.stream->Prepare());
  LEAT_ASSIGN_OR_RETURN(auto inputs, job.stream->Identify());
  return job.WithInputs(std::move(inputs));
}

// The source is opened already when the first request comes.
Result<feed::Contents> OpenContents(const job::Job& job) {
  LEAT_ASSIGN_OR_RETURN(auto source, job.stream->Open());
  auto opened = std::make_shared<std::unique_ptr<stream::Source>>(std::move(source));
  return feed::Contents{.id = job.InputsHash(),
                        .open = [opened, stream = job.stream]() -> Result<std::unique_ptr<stream::Source>> {
                          if (*opened != nullptr) return std::move(*opened);
                          return stream->Open();
                        },
                        .assets = ServedAssets(job),
                        .description = job.Found()};
}

// When the job is over, a coordinator that does not have the topic still releases its pins.
void AwaitEndOfReads(const feed::ServerThread& feed) {
  constexpr Duration kDeadline = std::chrono::seconds(5);
  const MonotonicClock clock;
  const Time until = clock.Now() + kDeadline;
  while (feed.server().connections() > 0 && clock.Now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// From joining to the end of the job, or until this node is evicted.
Status RunFeedOnce(Membership& membership, const RoleOptions& options) {
  const auto reply = AskForJob(options.coordinator_client, options.coordinator_client.join_deadline);
  if (!reply.ok()) return Membership::JoinError(reply.status());
  LEAT_ASSIGN_OR_RETURN(job::Job job, ReadJob(reply->job, options.coordinator_client.data));
  job.stream = job.StreamIn(ZoneOf(job, options.coordinator_client.place));
  const auto publisher = MakePublisher(job);
  LEAT_ASSIGN_OR_RETURN(feed::Contents contents, OpenContents(job));
  if (publisher != nullptr) contents.on_scores = TakeScores(*publisher);
  LEAT_ASSIGN_OR_RETURN(
      const auto feed,
      feed::ServerThread::Start(options.listen, TransportOf(options, feed::FeedPort()), std::move(contents)));
  LEAT_ASSIGN_OR_RETURN(const std::string address,
                        net::AdvertisedAddress(options.advertise, feed->address()));
  const auto joined = membership.Join(address);
  if (!joined.ok()) return Membership::JoinError(joined.status());
  spdlog::info("feed of {} serves on {}", job.stream->Describe(), address);
  const Status outcome = FeedRole(membership, *feed, publisher.get()).Run();
  AwaitEndOfReads(*feed);
  return outcome;
}

}  // namespace

Status RunFeed(const RoleOptions& options) {
  // A coordinator that waits for a feed opens the stream before it takes members.
  CoordinatorClientOptions coordinator = options.coordinator_client;
  coordinator.join_deadline = std::max<Duration>(coordinator.join_deadline, std::chrono::minutes(1));
  return RejoinWhileEvicted(
      coordinator, protocol::Role::kFeed,
      [&options](net::Loop&, Membership& membership) { return RunFeedOnce(membership, options); });
}

}  // namespace leat::roles
