#include "run/roles/membership.h"

#include <variant>

#include "base/log.h"

namespace leat::roles {

void MembershipSchedule::OnSent(Time now, bool quiet) {
  in_flight_ = true;
  last_sent_ = now;
  if (!quiet) quiet_since_.reset();
  if (quiet && !quiet_since_) quiet_since_ = now;
  earliest_heartbeat_ = now + busy_interval_;
  earliest_urgent_ = now + std::min(urgent_gap_, busy_interval_);
}

Time MembershipSchedule::HeartbeatDue(bool urgent, bool quiet, bool steady) const {
  if (in_flight_) return Time::max();
  if (steady && !urgent) return last_sent_ + interval_;
  if (quiet && quiet_since_ && last_sent_ - *quiet_since_ >= kQuietAfter) {
    return urgent ? earliest_heartbeat_ : last_sent_ + interval_;
  }
  return urgent ? earliest_urgent_ : earliest_heartbeat_;
}

namespace {

std::shared_ptr<ModelFiles> MakeModelFiles(const CoordinatorClientOptions& options) {
  const auto feeds = [options] {
    return FeedsOf(options, {.token = options.token, .port = feed::FeedPort(), .tls = options.tls}, 0);
  };
  return std::make_shared<ModelFiles>(ModelFiles::Options{.feeds = feeds, .scratch = options.scratch});
}

// The coordinator tells a feed to leave. Workers and servers see to it themselves.
bool Drains(const protocol::ControlReply& reply) {
  const auto* feed = std::get_if<protocol::FeedHeartbeatReply>(&reply);
  return feed != nullptr && feed->drain;
}

}  // namespace

Membership::Membership(net::Loop& loop, CoordinatorClientOptions options, protocol::Role role,
                       FormerNode former)
    : loop_(loop),
      role_(role),
      options_(std::move(options)),
      metrics_(options_.metrics.get()),
      client_(loop, options_, progress_),
      recording_(options_),
      former_(std::move(former)),
      files_(former_.files != nullptr ? former_.files : MakeModelFiles(options_)),
      promises_(former_.promises),
      job_hash_(former_.job_hash) {
  client_.AddAddresses(former_.coordinators);
  if (metrics_ != nullptr) metrics_->NotReady("it has not joined the job");
}

Result<job::Job> Membership::Join(const std::string& address, bool standby) {
  auto request = MakeJoinRequest(role_, address, options_.place, former_.process, client_.address());
  request.job_hash = job_hash_;
  request.standby = standby;
  if (role_ != protocol::Role::kServe) {
    signals_.emplace([this](int) {
      client_.AbortJoin();
      loop_.Post([this] { OnSignal(); });
    });
  }
  const bool again = promises_.node() != NodeId();
  LEAT_ASSIGN_OR_RETURN(
      joined_, again ? client_.JoinAgain(request, former_.call_deadline, &promises_) : client_.Join(request));
  promises_.OnJoined(joined_.node, joined_.term);
  spdlog::info("{} {} joined as node {}", standby ? "standby" : protocol::Name(role_), joined_.index,
               joined_.node.value);
  if (metrics_ != nullptr) spdlog::info("metrics at {}", metrics_->address());
  LEAT_ASSIGN_OR_RETURN(const auto copies,
                        files_->Find(job::Job::AssetsIn(joined_.job, "job", options_.data)));
  job::Job job = job::Job::FromResolved(joined_.job, "job", options_.data, copies);
  job_hash_ = job.Hash();
  return job;
}

FormerNode Membership::AsFormer() const {
  // Only servers and workers vote.
  const bool votes = role_ == protocol::Role::kServer || role_ == protocol::Role::kWorker;
  return {.process = former_.process,
          .job_hash = job_hash_,
          .files = files_,
          .promises = votes ? promises_ : protocol::Promises(),
          .call_deadline = client_.call_deadline(),
          .coordinators = client_.addresses()};
}

Status Membership::JoinError(const Status& status) {
  if (status.code() != Code::kAborted) return status;
  spdlog::info("{}", status.message());
  return Status();
}

Status Membership::Run(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  schedule_ = {heartbeat_interval(), callbacks_.urgent_gap};
  if (leaves_) loop_.Post([this] { OnSignal(); });
  Update();
  if (metrics_ != nullptr) {
    metrics_->liveness().Watch(loop_.Now(), [progress = progress_] { return progress->kernels(); });
    OnTurn();
  }
  loop_.Run();
  signals_.reset();
  loop_.Cancel(turn_timer_);
  if (metrics_ != nullptr) metrics_->liveness().Unwatch();
  return outcome_;
}

void Membership::OnTurn() {
  metrics_->liveness().Turned(loop_.Now());
  turn_timer_ = loop_.After(observe::Liveness::kInterval, [this] { OnTurn(); });
}

void Membership::OnSignal() {
  if (over_) return;
  // The role may run the loop before Run.
  if (!callbacks_.on_leave) {
    leaves_ = true;
    return;
  }
  callbacks_.on_leave();
}

Time Membership::HeartbeatDue() const {
  return schedule_.HeartbeatDue(requested_ || callbacks_.urgent(), !requested_ && callbacks_.quiet(),
                                callbacks_.steady());
}

void Membership::Update() {
  if (over_) return;
  // Called after each batch: a timer that is set early enough stays.
  const Time due = NextDue();
  if (due >= timer_due_) return;
  if (HeartbeatDue() <= loop_.Now()) return SendHeartbeat();
  SetTimer(due);
}

void Membership::OnDue() {
  timer_due_ = Time::max();
  if (over_) return;
  const Time now = loop_.Now();
  if (schedule_.TimerDue(callbacks_.next_timer()) <= now) {
    schedule_.OnTimer(now);
    callbacks_.on_timer(now);
    if (over_) return;
  }
  if (HeartbeatDue() <= now) return SendHeartbeat();
  SetTimer(NextDue());
}

void Membership::SetTimer(Time due) {
  loop_.Cancel(timer_);
  timer_due_ = due;
  timer_ = due == Time::max() ? 0 : loop_.After(due - loop_.Now(), [this] { OnDue(); });
}

void Membership::SendHeartbeat() {
  schedule_.OnSent(loop_.Now(), !requested_ && callbacks_.quiet());
  requested_ = false;
  client_.Send(MakeHeartbeat(), [this](Result<protocol::ControlReply> reply) { OnAnswer(std::move(reply)); });
  SetTimer(NextDue());
}

void Membership::OnAnswer(Result<protocol::ControlReply> reply) {
  if (over_) return;
  schedule_.OnAnswered();
  if (reply.ok()) {
    client_.AddAddresses(protocol::StandbysIn(*reply));
    if (const auto* candidacy = std::get_if<protocol::Candidacy>(&*reply)) return SendPromise(*candidacy);
    if (promises_.OnReply(*reply)) {
      recording_.OnReply(node(), *reply, client_.address());
      callbacks_.on_reply(*reply);
    }
    if (promises_.TakeUrgent()) requested_ = true;
    if (!over_ && Drains(*reply) && !std::exchange(drains_, true)) {
      spdlog::info("{} {} is asked to leave", protocol::Name(role_), joined_.index);
      callbacks_.on_leave();
    }
    if (over_) return;
  } else {
    spdlog::warn("heartbeat: {}", reply.status().ToString());
    if (client_.lost()) return Fail(reply.status().With("the coordinator is lost"));
  }
  Update();
}

protocol::ControlRequest Membership::MakeHeartbeat() {
  protocol::ControlRequest heartbeat = callbacks_.make_heartbeat();
  if (auto* worker = std::get_if<protocol::WorkerHeartbeat>(&heartbeat)) worker->elector = promises_.state();
  if (auto* server = std::get_if<protocol::ServerHeartbeat>(&heartbeat)) server->elector = promises_.state();
  if (metrics_ != nullptr) {
    metrics_->OnHeartbeat(heartbeat);
    protocol::SetMetrics(metrics_->address(), &heartbeat);
  }
  return heartbeat;
}

void Membership::SendPromise(const protocol::Candidacy& candidacy) {
  const protocol::Promise promise = promises_.OnCandidacy(candidacy);
  spdlog::info("the coordinator does not answer; a standby {} term {}",
               promise.granted ? "is promised" : "is not promised", protocol::NumberOf(candidacy.term));
  schedule_.OnSent(loop_.Now());
  client_.Send(promise, [this](const Result<protocol::ControlReply>&) {
    if (over_) return;
    schedule_.OnAnswered();
    Update();
  });
}

void Membership::Send(protocol::ControlRequest request,
                      std::function<void(Result<protocol::ControlReply>)> done) {
  client_.Send(std::move(request), [this, done = std::move(done)](Result<protocol::ControlReply> reply) {
    if (!over_) done(std::move(reply));
  });
}

void Membership::End(Status outcome) {
  over_ = true;
  outcome_ = std::move(outcome);
  loop_.Stop();
}

Status RejoinWhileEvicted(const CoordinatorClientOptions& options, protocol::Role role,
                          const std::function<Status(net::Loop&, Membership&)>& run_once) {
  FormerNode former{.process = NewProcess(), .files = MakeModelFiles(options)};
  while (true) {
    net::Loop loop;
    Membership membership(loop, options, role, former);
    const Status outcome = run_once(loop, membership);
    if (!outcome.ok() || !membership.evicted()) return outcome;
    former = membership.AsFormer();
  }
}

}  // namespace leat::roles
