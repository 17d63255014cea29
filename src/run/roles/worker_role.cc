#include "run/roles/worker_role.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "base/log.h"
#include "job/job.h"
#include "job/precision.h"
#include "net/address.h"
#include "net/frames/frame.h"
#include "net/tcp/tcp.h"
#include "net/ucx/ucx.h"
#include "protocol/worker/worker.h"
#include "run/roles/faults/kill_point.h"
#include "run/roles/group_member_role.h"
#include "run/roles/input/open_stream.h"
#include "run/roles/membership.h"
#include "run/roles/role.h"
#include "run/roles/training/training_role.h"
#include "train/collective/port.h"
#include "train/ps/client.h"
#include "train/step/run_trainer.h"

namespace leat::roles {
namespace {

// The shell around protocol::Worker. Everything runs on the loop's thread but decoding and the calls to the
// coordinator.
class WorkerRole final : public TrainingRole {
 public:
  WorkerRole(net::Loop& loop, Membership& membership, net::Transport& transport, job::Job job,
             OpenedStream stream, const RoleOptions& options)
      : TrainingRole(loop, membership, std::move(job), std::move(stream), options),
        runs_(trainer_, parameters_, job_.strategy, job_.optimizer),
        client_(
            transport, parameters_,
            {.on_reply = [this](NodeId server, const protocol::PushReply& reply) { OnReply(server, reply); },
             .on_failed =
                 [this](NodeId server, uint64_t sequence, const Status& why) {
                   if (failing_.insert(server).second)
                     spdlog::warn("push to server {} failed, repeated until it answers: {}", server.value,
                                  why.ToString());
                   Answered(server);
                   Do(machine_.OnPushFailed(loop_.Now(), server, sequence, why));
                 },
             .on_silence = [this](NodeId server, bool silent) { OnSilence(server, silent); }}),
        machine_({.table = table_,
                  .strategy = job_.strategy,
                  .leases_ahead = kLeasesAhead,
                  .always_pull = job_.predictions.enabled() || options.standby,
                  .late_labels = job_.schema.has_late_labels()}) {}

  Status Run() {
    machine_.OnJoined(membership_.node(), membership_.joined().term);
    return RunMember(
        {.on_leave = [this] { Do(machine_.Leave(loop_.Now())); },
         .urgent = [this] { return machine_.HeartbeatUrgent(); },
         // A standby is to take another worker's place without delay.
         .quiet = [this] { return machine_.idle() && !machine_.HeartbeatUrgent() && !machine_.stands_by(); },
         .next_timer = [this] { return machine_.next_timer(); },
         .on_timer = [this](Time now) { Do(machine_.OnTimer(now)); }});
  }

 private:
  protocol::WorkerHeartbeat MakeHeartbeat() override {
    auto heartbeat = machine_.MakeHeartbeat(loop_.Now());
    Report(&heartbeat, true);
    if (!asked_.empty()) heartbeat.progress.wait_seconds += Seconds(loop_.Now() - waiting_since_);
    heartbeat.progress.push_retries = machine_.push_retries();
    return heartbeat;
  }
  void OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply) override {
    Do(machine_.OnHeartbeatReply(loop_.Now(), reply));
    Predict(reply, machine_.term(), machine_.view());
  }
  void OnSplitReady(uint64_t lease) override { Do(machine_.OnSplitReady(loop_.Now(), lease)); }
  void OnSplitFailed(uint64_t lease) override { Do(machine_.OnSplitFailed(loop_.Now(), lease)); }
  // A run of several batches trains its own values.
  bool MayScore() const override { return machine_.has_values() && !machine_.computing(); }

  // ---- compute and data plane
  void Do(const protocol::WorkerActions& actions) {
    for (const auto& action : actions) {
      if (membership_.over()) return;
      std::visit([this](const auto& a) { Act(a); }, action);
    }
    input_flow_.OnReady(loop_.Now(), splits_.size(), !asked_.empty());
    membership_.Update();
  }

  using TrainingRole::Act;
  // The batches of a run follow each other without a server in between: the loop has its turn before each of
  // them, or nobody would hear of us until the run has ended.
  void Act(const protocol::Compute& a) {
    if (!computing_) return Compute(a);
    loop_.Post([this, a, here = here_] {
      if (*here && !membership_.over()) Compute(a);
    });
  }
  void Compute(const protocol::Compute& a) {
    protocol::BatchOutcome outcome{.disposition = protocol::Disposition::kEmpty};
    if (const auto split = splits_.find(a.lease); split != splits_.end()) outcome = Train(*split->second, a);
    if (predictions_ == nullptr) return OnComputed(a.token, outcome);
    predictions_->WhenRoom([this, token = a.token, outcome] { OnComputed(token, outcome); });
  }
  void OnComputed(uint64_t token, const protocol::BatchOutcome& outcome) {
    if (membership_.over()) return;
    computing_ = true;
    Do(machine_.OnComputed(loop_.Now(), token, outcome));
    computing_ = false;
  }
  protocol::BatchOutcome Train(const PreparedSplit& split, const protocol::Compute& a) {
    const auto& cut = split.lease.cut;
    const Time begin = loop_.Now();
    DelayBatch(job_.debug, progress_.steps);
    const step::Rows rows = RowsOf(split);
    const auto step = runs_.Step(rows, split.Batch(a.batch), cut.batch_size, RandomSeedOf(cut, a.batch),
                                 {.first = a.first, .last = a.last, .version = a.version, .rate = a.rate});
    if (gradients_.wanted() && a.last && step.finite && step.events > 0) gradients_.Take(parameters_);
    if (predictions_ != nullptr) predictions_->OnBatch(split, a.batch, a.first, a.last, !step.finite);
    progress_.compute_seconds += Seconds(loop_.Now() - begin);
    if (step.finite) share_.Add(rows, split.Batch(a.batch), cut.batches());
    return Count(step, cut, a.batch, cut.run > 1 ? "its run" : job_.strategy.stepped() ? "its step" : "it");
  }
  void Act(const protocol::SendPush& a) {
    if (a.request->disposition == protocol::Disposition::kGradient) kill_point_.Pass(job::DiePoint::kPush);
    if (asked_.empty()) {
      waiting_since_ = loop_.Now();
      busy_poll_.emplace(loop_);
    }
    asked_.emplace(a.server, loop_.Now());
    RecordPush(a);
    client_.Send(a);
  }
  void Act(const protocol::Disconnect& a) {
    client_.Disconnect(a.server);
    failing_.erase(a.server);
    Answered(a.server);
  }

  // A push with a gradient, from here to its reply.
  void RecordPush(const protocol::SendPush& a) {
    if (!compute_track_->on() || a.request->disposition != protocol::Disposition::kGradient) return;
    uint64_t elements = 0;
    for (const auto& slice : a.request->slices) elements += table_.slices[slice.slice.value].elements();
    pushes_[a.server] = {.kind = timeline::Kind::kPush,
                         .begin = loop_.Now(),
                         .peer = a.server.value,
                         .number = a.request->sequence,
                         .bytes = elements * sizeof(float)};
  }
  void RecordReply(NodeId server, uint64_t sequence) {
    if (pushes_.empty()) return;
    auto push = pushes_.extract(server);
    if (!push || push.mapped().number != sequence) return;
    push.mapped().end = loop_.Now();
    compute_track_->Add(push.mapped());
  }

  void OnReply(NodeId server, const protocol::PushReply& reply) {
    RecordReply(server, reply.sequence);
    if (!failing_.empty() && failing_.erase(server) > 0)
      spdlog::info("server {} answers again", server.value);
    Answered(server);
    Do(machine_.OnPushReply(loop_.Now(), server, reply));
  }
  void OnSilence(NodeId server, bool silent) {
    if (silent) spdlog::warn("server {}: no sign of life from its host", server.value);
    machine_.OnSilence(server, silent);
    membership_.Update();
  }
  void Answered(NodeId server) {
    const auto asked = asked_.extract(server);
    if (!asked) return;
    const Time now = loop_.Now();
    CountWait(server, now - asked.mapped());
    if (!asked_.empty()) return;
    progress_.wait_seconds += Seconds(now - waiting_since_);
    if (compute_track_->on())
      compute_track_->Add({.kind = timeline::Kind::kWait, .begin = waiting_since_, .end = now});
    busy_poll_.reset();
  }

  void CountWait(NodeId server, Duration wait) {
    const protocol::Member* const member = machine_.view().Find(server);
    if (member == nullptr) return;
    auto& waits = progress_.server_waits;
    auto at = std::ranges::lower_bound(waits, member->index, {}, &protocol::ServerWait::ps);
    if (at == waits.end() || at->ps != member->index) at = waits.insert(at, {.ps = member->index});
    at->seconds += Seconds(wait);
  }

  // Splits that are trained, ready, and asked for or being decoded, one of each: asking takes a heartbeat,
  // and that as long as a small model takes for a split.
  static constexpr uint32_t kLeasesAhead = 3;

  std::map<NodeId, timeline::Span> pushes_;  // recorded ones that are not answered yet
  step::RunTrainer runs_;
  ps::Client client_;
  protocol::Worker machine_;
  KillPoint kill_point_{job_.debug, std::filesystem::path(membership_.joined().probe).parent_path().string()};
  std::map<NodeId, Time> asked_;  // servers that have not answered yet, and since when
  std::set<NodeId> failing_;      // servers whose last request failed; said once
  Time waiting_since_{0};         // for the first of them
  std::optional<net::Loop::BusyPoll> busy_poll_;
  bool computing_ = false;  // the follow-up of a batch is being done
};

}  // namespace

engine::PlanOptions MakePlanOptions(const job::Job& job, const RoleOptions& options,
                                    const Membership& membership) {
  engine::PlanOptions plan = job.Plan(job::WithPrecision(job, options.plan));
  plan.progress = membership.progress();
  return plan;
}

net::TransportOptions TransportOf(const RoleOptions& options, const wire::Port& port) {
  net::TransportOptions transport = options.transport;
  transport.token = options.coordinator_client.token;
  transport.tls = options.coordinator_client.tls;
  transport.port = port;
  if (const auto& metrics = options.coordinator_client.metrics; metrics != nullptr)
    transport.metrics = &metrics->registry();
  return transport;
}

std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, const RoleOptions& options,
                                              const wire::Port& port) {
  return net::MakeUcxTransport(loop, TransportOf(options, port));
}

Result<std::unique_ptr<ShardFiles>> MakeShardFiles(const Membership& membership, const job::Job& job,
                                                   const RoleOptions& options) {
  const auto make_transport = [transport = TransportOf(options, wire::TransferPort())](net::Loop& loop) {
    return net::MakeTcpTransport(loop, transport);
  };
  object_store::StoreOptions store;
  if (const auto& metrics = options.coordinator_client.metrics; metrics != nullptr)
    store.metrics = &metrics->registry();
  return ShardFiles::Make(membership.joined(), {.coordinator = membership.coordinator(),
                                                .scratch = options.coordinator_client.scratch,
                                                .make_transport = make_transport,
                                                .bucket = job.checkpoint_to,
                                                .store = std::move(store)});
}

namespace {

// From joining to the end of the job, or until this node is evicted.
Status RunWorkerOnce(net::Loop& loop, Membership& membership, const RoleOptions& options) {
  // Where other workers find this one, if the job has no servers: it has to be known before the job is.
  const auto transport = MakeTransport(loop, options, collective::MemberPort());
  collective::Port port;
  auto listener = transport->Listen(options.listen, [&port](std::unique_ptr<net::Connection> caller) {
    return port.Adopt(std::move(caller));
  });
  if (!listener.ok()) return listener.status();
  LEAT_ASSIGN_OR_RETURN(const std::string address,
                        net::AdvertisedAddress(options.advertise, (*listener)->address()));
  auto joined = membership.Join(address, options.standby);
  if (!joined.ok()) return Membership::JoinError(joined.status());
  job::Job job = std::move(*joined);
  transport->TrustNetwork(job.trusted_network);
  LEAT_ASSIGN_OR_RETURN(OpenedStream stream, OpenStream(job, options));
  if (!job.strategy.on_servers()) {
    LEAT_ASSIGN_OR_RETURN(auto files, MakeShardFiles(membership, job, options));
    const Status outcome = RunGroupMember(loop, membership, *transport, port, std::move(job),
                                          std::move(stream), std::move(files), options);
    net::Linger(loop, *transport, kLinger);
    return outcome;
  }
  listener->reset();
  const auto to_servers = MakeTransport(loop, options, wire::ServerPort());
  to_servers->TrustNetwork(job.trusted_network);
  const Status outcome =
      WorkerRole(loop, membership, *to_servers, std::move(job), std::move(stream), options).Run();
  net::Linger(loop, *to_servers, kLinger);
  return outcome;
}

}  // namespace

Status RunWorker(const RoleOptions& options) {
  return RejoinWhileEvicted(options.coordinator_client, protocol::Role::kWorker,
                            [&options](net::Loop& loop, Membership& membership) {
                              return RunWorkerOnce(loop, membership, options);
                            });
}

}  // namespace leat::roles
