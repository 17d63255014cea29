#include "roles/worker_role.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "base/log.h"
#include "collective/port.h"
#include "job/job.h"
#include "job/precision.h"
#include "job/share_layout.h"
#include "net/address.h"
#include "net/same_host/shared_memory.h"
#include "net/tcp/tcp.h"
#include "net/ucx/ucx.h"
#include "protocol/worker/worker.h"
#include "ps/client.h"
#include "roles/faults/kill_point.h"
#include "roles/group_member_role.h"
#include "roles/input/input_errors.h"
#include "roles/input/input_flow.h"
#include "roles/input/open_stream.h"
#include "roles/input/split_loader.h"
#include "roles/membership.h"
#include "roles/predictions/worker_predictions.h"
#include "roles/recording/gradient_report.h"
#include "roles/role.h"
#include "step/batch_log.h"
#include "step/longest_step.h"
#include "step/run_trainer.h"
#include "step/share_log.h"
#include "wire/messages.h"

namespace leat::roles {
namespace {

// The shell around protocol::Worker. Everything runs on the loop's thread but decoding and the calls to the
// coordinator.
class WorkerRole {
 public:
  WorkerRole(net::Loop& loop, Membership& membership, net::Transport& transport, job::Job job,
             OpenedStream stream, const RoleOptions& options)
      : loop_(loop),
        membership_(membership),
        job_(std::move(job)),
        stream_(std::move(stream)),
        table_(job_.Slices()),
        parameters_(table_, net::MakeSharedBuffer),
        trainer_(*job_.model, parameters_, MakePlanOptions(job_, options, membership),
                 job_.optimizer.clipping),
        runs_(trainer_, parameters_, job_.strategy, job_.optimizer),
        share_(job::ShareLayoutOf(job_.schema, *job_.model)),
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
        loader_(
            loop,
            SplitReader(std::move(stream_.source), job_.schema, stream_.dead_letters,
                        job_.predictions.enabled()),
            [this](uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
              OnSplit(lease, std::move(split));
            },
            membership.recorder().MakeTrack("input")),
        input_errors_(job_, options.read_timeout, &progress_),
        machine_({.table = table_,
                  .strategy = job_.strategy,
                  .leases_ahead = kLeasesAhead,
                  .always_pull = job_.predictions.enabled() || options.standby,
                  .late_labels = job_.schema.has_late_labels()}) {
    trainer_.RecordTo(track_);
    if (job_.reports_batches()) trainer_.ScoreByInference();
    if (!job_.predictions.enabled()) return;
    // A run of several batches trains its own values.
    predictions_ = std::make_unique<WorkerPredictions>(
        loop, job_, trainer_, options,
        WorkerPredictions::Callbacks{
            .coordinator = [this] { return membership_.coordinator(); },
            .may_score = [this] { return machine_.has_values() && !machine_.computing(); },
            .prepare = [this](const protocol::Lease& lease) { loader_.Prepare(lease); },
            .recycle = [this](std::unique_ptr<PreparedSplit> split) { loader_.Recycle(std::move(split)); }});
  }
  ~WorkerRole() {
    *here_ = false;
    stream_.Abort();
  }

  // Returns once the job is over, this node is evicted, or the coordinator is lost.
  Status Run() {
    // Before its first heartbeat: then it has a share of the work, and others wait for it.
    trainer_.Prepare(job_.batch_size);
    NotePlans();
    machine_.OnJoined(membership_.node(), membership_.joined().term);
    if (stream_.dead_letters == nullptr) input_errors_.OpenDeadLetters(membership_.node());
    Status outcome = membership_.Run(
        {.make_heartbeat = [this] { return MakeHeartbeat(); },
         .on_reply =
             [this](const protocol::ControlReply& reply) {
               batches_.OnAnswered();
               if (const auto* heartbeat = std::get_if<protocol::WorkerHeartbeatReply>(&reply))
                 OnHeartbeatReply(*heartbeat);
             },
         .on_leave = [this] { Do(machine_.Leave(loop_.Now())); },
         .urgent = [this] { return machine_.HeartbeatUrgent(); },
         // One that stands by is to take another's place without delay.
         .quiet = [this] { return machine_.idle() && !machine_.HeartbeatUrgent() && !machine_.stands_by(); },
         .next_timer = [this] { return machine_.next_timer(); },
         .on_timer = [this](Time now) { Do(machine_.OnTimer(now)); }});
    // Those of runs that it has pushed.
    if (predictions_ != nullptr && !membership_.evicted()) predictions_->Flush();
    return outcome;
  }

 private:
  protocol::WorkerHeartbeat MakeHeartbeat() {
    auto heartbeat = machine_.MakeHeartbeat(loop_.Now());
    heartbeat.progress = progress_;
    if (!asked_.empty()) heartbeat.progress.wait_seconds += Seconds(loop_.Now() - waiting_since_);
    input_flow_.AddRunningWait(loop_.Now(), &heartbeat.progress);
    heartbeat.progress.cpu_seconds = OwnCpuSeconds();
    batches_.Report(&heartbeat.progress);
    share_.Report(&heartbeat.progress);
    heartbeat.progress.push_retries = machine_.push_retries();
    stream_.Count(&heartbeat.progress);
    gradients_.Fill(&heartbeat);
    if (job_.model->task() == nn::Task::kBinary) heartbeat.progress.scores = trainer_.scores_seen().Encode();
    if (job_.schema.has_truth()) heartbeat.progress.true_scores = trainer_.truths_seen().Encode();
    if (predictions_ != nullptr) predictions_->Fill(&heartbeat);
    return heartbeat;
  }
  void OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply) {
    gradients_.OnReply(reply);
    if (reply.drain && !std::exchange(told_to_leave_, true)) spdlog::info("told to leave");
    Do(machine_.OnHeartbeatReply(loop_.Now(), reply));
    if (reply.term == machine_.term() && predictions_ != nullptr && !membership_.over())
      predictions_->OnHeartbeatReply(reply, machine_.view());
  }

  // ---- input
  void OnSplit(uint64_t lease, Result<std::unique_ptr<PreparedSplit>> split) {
    const bool again = predictions_ != nullptr && predictions_->Owns(lease);
    if (membership_.over() || !(again || wanted_.contains(lease))) {
      if (split.ok()) loader_.Recycle(std::move(*split));
      return;
    }
    if (!split.ok()) return OnUnreadable(lease, split.status());
    if (again) return predictions_->OnSplit(std::move(*split));
    if (auto status = input_errors_.OnSplit(**split); !status.ok())
      return membership_.Fail(std::move(status));
    input_flow_.OnSplit(**split);
    splits_[lease] = std::move(*split);
    Do(machine_.OnSplitReady(loop_.Now(), lease));
  }

  // The lease is given back after a while.
  void OnUnreadable(uint64_t lease, const Status& why) {
    if (auto status = input_errors_.OnUnreadable(loop_.Now(), lease, why); !status.ok())
      return membership_.Fail(std::move(status));
    loop_.After(input_errors_.retry_interval(), [this, lease, here = here_] {
      if (!*here) return;
      if (predictions_ != nullptr) predictions_->OnUnreadable(lease);
      if (!membership_.over()) Do(machine_.OnSplitFailed(loop_.Now(), lease));
    });
  }

  // ---- compute and data plane
  void Do(const protocol::WorkerActions& actions) {
    for (const auto& action : actions) {
      if (membership_.over()) return;
      std::visit([this](const auto& a) { Act(a); }, action);
    }
    input_flow_.OnReady(loop_.Now(), splits_.size(), !asked_.empty());
    membership_.Update();
  }

  void Act(const protocol::PrepareSplit& a) {
    wanted_.insert(a.lease.id);
    loader_.Prepare(a.lease);
  }
  void Act(const protocol::DropSplit& a) {
    wanted_.erase(a.lease);
    if (auto node = splits_.extract(a.lease)) loader_.Recycle(std::move(node.mapped()));
  }
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
    const step::Rows rows{
        .features = split.rows.features, .labels = split.rows.labels, .truth = split.rows.truth};
    const auto step = runs_.Step(rows, split.Batch(a.batch), cut.batch_size, RandomSeedOf(cut, a.batch),
                                 {.first = a.first, .last = a.last, .version = a.version, .rate = a.rate});
    NotePlans();
    if (gradients_.wanted() && a.last && step.finite && step.events > 0) gradients_.Take(parameters_);
    if (predictions_ != nullptr) predictions_->OnBatch(split, a.batch, a.first, a.last, !step.finite);
    progress_.loss_sum += step.loss_sum;
    progress_.correct += step.correct;
    progress_.absolute_error += step.absolute_error;
    ++progress_.steps;
    progress_.compute_seconds += Seconds(loop_.Now() - begin);
    longest_step_.OnBatch(loop_.Now());
    progress_.longest_step_seconds = Seconds(longest_step_.longest());
    if (step.finite) {
      progress_.events += step.events;
      if (job_.reports_batches()) batches_.Add(step);
      share_.Add(rows, split.Batch(a.batch), cut.batches());
      share_.Update(loop_.Now());
      return {step.events > 0 ? protocol::Disposition::kGradient : protocol::Disposition::kEmpty,
              step.events};
    }
    ++progress_.rejected_batches;
    spdlog::warn(
        "partition {} offsets {} to {}, batch {}: the gradient is not finite; nothing of {} is applied",
        cut.partition, cut.begin.offset, cut.end, a.batch,
        cut.run > 1               ? "its run"
        : job_.strategy.stepped() ? "its step"
                                  : "it");
    return {protocol::Disposition::kRejected, step.events};
  }
  // There is one graph for each size of batches; it is kept while others come and go.
  void NotePlans() {
    if (plans_ != trainer_.plans()) spdlog::info("graphs compiled: {}", plans_ = trainer_.plans());
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
  void Act(const protocol::StopRole& a) { membership_.Stop(a.evicted); }

  // A push with a gradient, from here to its reply.
  void RecordPush(const protocol::SendPush& a) {
    if (!track_->on() || a.request->disposition != protocol::Disposition::kGradient) return;
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
    track_->Add(push.mapped());
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
    if (track_->on()) track_->Add({.kind = timeline::Kind::kWait, .begin = waiting_since_, .end = now});
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

  // One split is being trained, one is ready, one is asked for or being decoded: asking takes a heartbeat,
  // and that as long as a small model takes for a split.
  static constexpr uint32_t kLeasesAhead = 3;

  net::Loop& loop_;
  Membership& membership_;
  timeline::Track* const track_ = membership_.recorder().MakeTrack("compute");  // of the loop's thread
  std::map<NodeId, timeline::Span> pushes_;  // that are recorded, and not answered yet
  job::Job job_;
  OpenedStream stream_;  // its source is the loader's
  protocol::SliceTable table_;
  protocol::Parameters parameters_;
  step::Trainer trainer_;
  step::RunTrainer runs_;
  step::ShareLog share_;
  ps::Client client_;
  SplitLoader loader_;
  protocol::WorkerProgress progress_;
  step::LongestStep longest_step_;
  step::BatchLog batches_;
  GradientReport gradients_;
  InputErrors input_errors_;
  InputFlow input_flow_{&progress_};
  protocol::Worker machine_;
  KillPoint kill_point_{job_.debug, std::filesystem::path(membership_.joined().probe).parent_path().string()};
  std::map<NodeId, Time> asked_;  // servers that have not answered yet, and since when
  std::set<NodeId> failing_;      // whose last request failed; said once
  Time waiting_since_{0};         // for the first of them
  std::optional<net::Loop::BusyPoll> busy_poll_;
  bool computing_ = false;  // what follows a batch is being done
  bool told_to_leave_ = false;
  uint32_t plans_ = 0;  // graphs that the log has
  std::set<uint64_t> wanted_;
  std::map<uint64_t, std::unique_ptr<PreparedSplit>> splits_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  std::unique_ptr<WorkerPredictions> predictions_;  // null: the job publishes none
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
                                                .limits = {},
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
