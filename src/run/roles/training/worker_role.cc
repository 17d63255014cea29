#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/log.h"
#include "job/job.h"
#include "net/address.h"
#include "net/frames/frame.h"
#include "protocol/worker/worker.h"
#include "run/roles/membership.h"
#include "run/roles/role.h"
#include "run/roles/training/training_role.h"
#include "train/ps/client.h"
#include "train/step/trainer.h"

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
        client_(transport, parameters_,
                {.on_reply =
                     [this](NodeId server, const protocol::PushReply& reply) {
                       RecordReply(server, reply.sequence);
                       if (!failing_.empty() && failing_.erase(server) > 0)
                         spdlog::info("server {} answers again", server.value);
                       waits_.End(server, machine_.view());
                       ExecuteAll(machine_.OnPushReply(loop_.Now(), server, reply));
                     },
                 .on_failed =
                     [this](NodeId server, uint64_t sequence, const Status& why) {
                       if (failing_.insert(server).second)
                         spdlog::warn("push to server {} failed, repeated until it answers: {}", server.value,
                                      why.ToString());
                       waits_.End(server, machine_.view());
                       ExecuteAll(machine_.OnPushFailed(loop_.Now(), server, sequence, why));
                     },
                 .on_silence =
                     [this](NodeId server, bool silent) {
                       if (silent) spdlog::warn("server {}: no sign of life from its host", server.value);
                       machine_.OnSilence(server, silent);
                       membership_.Update();
                     }}),
        machine_({.table = table_,
                  .strategy = job_.strategy,
                  .leases_ahead = kLeasesAhead,
                  .always_pull = job_.predictions.enabled() || options.standby,
                  .late_labels = job_.schema.has_late_labels()}) {}

  Status Run() {
    machine_.OnJoined(membership_.node(), membership_.joined().term);
    return RunMember(
        {.on_leave = [this] { ExecuteAll(machine_.Leave(loop_.Now())); },
         .urgent = [this] { return machine_.HeartbeatUrgent(); },
         // A standby is to take another worker's place without delay.
         .quiet = [this] { return machine_.idle() && !machine_.HeartbeatUrgent() && !machine_.stands_by(); },
         .next_timer = [this] { return machine_.next_timer(); },
         .on_timer = [this](Time now) { ExecuteAll(machine_.OnTimer(now)); }});
  }

 private:
  protocol::WorkerHeartbeat MakeHeartbeat() override {
    auto heartbeat = machine_.MakeHeartbeat(loop_.Now());
    Report(&heartbeat, true);
    waits_.AddRunningWait(loop_.Now(), &heartbeat.progress);
    heartbeat.progress.push_retries = machine_.push_retries();
    return heartbeat;
  }
  void OnHeartbeatReply(const protocol::WorkerHeartbeatReply& reply) override {
    ExecuteAll(machine_.OnHeartbeatReply(loop_.Now(), reply));
    Predict(reply, machine_.term(), machine_.view());
  }
  void OnSplitReady(uint64_t lease) override { ExecuteAll(machine_.OnSplitReady(loop_.Now(), lease)); }
  void OnSplitFailed(uint64_t lease) override { ExecuteAll(machine_.OnSplitFailed(loop_.Now(), lease)); }
  // A run of several batches trains its own values.
  bool MayScore() const override { return machine_.has_values() && !machine_.computing(); }
  bool Busy() const override { return waits_.any(); }

  // ---- compute and data plane
  void ExecuteAll(const protocol::WorkerActions& actions) {
    TrainingRole::ExecuteAll(actions, [this](const auto& action) { Execute(action); });
  }

  using TrainingRole::Execute;
  // The batches of a run follow each other without a server in between: the loop has its turn before each of
  // them, or nobody would hear of us until the run has ended.
  void Execute(const protocol::Compute& a) {
    if (!computing_) return Compute(a);
    Post([this, a] { Compute(a); });
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
    ExecuteAll(machine_.OnComputed(loop_.Now(), token, outcome));
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
  void Execute(const protocol::SendPush& a) {
    if (a.request->disposition == protocol::Disposition::kGradient) kill_point_.Pass(job::DiePoint::kPush);
    waits_.Begin(a.server);
    RecordPush(a);
    client_.Send(a);
  }
  void Execute(const protocol::Disconnect& a) {
    client_.Disconnect(a.server);
    failing_.erase(a.server);
    waits_.End(a.server, machine_.view());
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

  // Splits that are trained, ready, and asked for or being decoded, one of each: asking takes a heartbeat,
  // and that as long as a small model takes for a split.
  static constexpr uint32_t kLeasesAhead = 3;

  std::map<NodeId, timeline::Span> pushes_;  // recorded ones that are not answered yet
  step::RunTrainer runs_;
  ps::Client client_;
  protocol::Worker machine_;
  KillPoint kill_point_{job_.debug, std::filesystem::path(membership_.joined().probe).parent_path().string()};
  ServerWaits waits_{loop_, &progress_, compute_track_};
  std::set<NodeId> failing_;  // servers whose last request failed; said once
  bool computing_ = false;    // the follow-up of a batch is being done
};

// From joining to the end of the job, or until this node is evicted.
Status RunWorkerOnce(net::Loop& loop, Membership& membership, const RoleOptions& options) {
  // Where other workers find this one, if the job has no servers: it has to be known before the job is.
  const auto transport = MakeTransport(loop, options, collective::MemberPort());
  collective::Port port;
  LEAT_ASSIGN_OR_RETURN(auto listener,
                        transport->Listen(options.listen, [&port](std::unique_ptr<net::Connection> caller) {
                          return port.Adopt(std::move(caller));
                        }));
  LEAT_ASSIGN_OR_RETURN(const std::string address,
                        net::AdvertisedAddress(options.advertise, listener->address()));
  auto joined = membership.Join(address, options.standby);
  if (!joined.ok()) return Membership::JoinError(joined.status());
  job::Job job = std::move(*joined);
  transport->TrustNetwork(job.trusted_network);
  LEAT_ASSIGN_OR_RETURN(OpenedStream stream, OpenStream(job, options));
  if (!job.strategy.on_servers()) {
    LEAT_ASSIGN_OR_RETURN(auto files, MakeShardFiles(membership, job, options));
    const Status outcome = RunAllReduceWorker(loop, membership, *transport, port, std::move(job),
                                              std::move(stream), std::move(files), options);
    net::Linger(loop, *transport, kLinger);
    return outcome;
  }
  listener.reset();
  const auto to_servers = MakeTransport(loop, options, wire::ServerPort());
  to_servers->TrustNetwork(job.trusted_network);
  const Status outcome =
      WorkerRole(loop, membership, *to_servers, std::move(job), std::move(stream), options).Run();
  net::Linger(loop, *to_servers, kLinger);
  return outcome;
}

}  // namespace

Status RunWorker(const RoleOptions& options) {
  return RejoinWhileEvicted(options, protocol::Role::kWorker, RunWorkerOnce);
}

}  // namespace leat::roles
