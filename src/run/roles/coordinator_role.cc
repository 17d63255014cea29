#include "run/roles/start/coordinator_options.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/metrics/metrics.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/rpc/server.h"
#include "net/transports.h"
#include "run/launcher/signals.h"
#include "run/roles/autoscale/scaling.h"
#include "run/roles/background_thread.h"
#include "run/roles/checkpoints/job_checkpoints.h"
#include "run/roles/commit/commit_queue.h"
#include "run/roles/input/coordinator_streams.h"
#include "run/roles/role.h"
#include "run/roles/standby/journal_shipper.h"
#include "run/roles/start/job_start.h"
#include "run/roles/status/job_reports.h"

namespace leat::roles {
namespace {

constexpr Duration kStatusInterval = std::chrono::milliseconds(100);
// How long the end waits for standbys and members that are gone.
constexpr Duration kEndWait = std::chrono::seconds(10);

// The shell around protocol::Coordinator, on the loop's thread. It passes requests, time and news to the
// state machine and to the concerns of the job, and executes the actions that come back.
class CoordinatorRole {
 public:
  CoordinatorRole(const CoordinatorOptions& options, StartedJob& started);
  // The threads use all members.
  ~CoordinatorRole() {
    background_.End();
    others_.End();
  }
  Status Run();

 private:
  using Answer = OpenCalls::Answer;

  Status Announce(const std::string& listening);

  // ---- requests
  void OnRequest(protocol::ControlRequest request, Answer answer);
  bool AnswerAtOnce(Time now, const protocol::ControlRequest& request, Answer& answer);
  void Handle(Time now, uint64_t call, protocol::ControlRequest& request);
  void AnswerStalled(uint64_t call, const protocol::ControlRequest& request,
                     protocol::CoordinatorActions* actions);

  // ---- time
  void OnTimer();
  void OnStatusDue(Time now);
  protocol::CoordinatorStatus JobStatus() const;
  report::JobStatus Show(Time now) { return reports_.Show(now, JobStatus()); }

  // ---- actions
  void Commit(protocol::CoordinatorActions actions) { queue_.Push(std::move(actions)); }
  void Execute(protocol::Reply& action);
  void Execute(protocol::AppendJournal&) {}  // done by the queue
  void Execute(protocol::ConfirmTerm&) {}    // done by the queue
  void Execute(protocol::DropCheckpoints& action) { shipper_->Drop(action); }
  void Execute(protocol::JobEnded& action);
  template <class CheckpointAction>
  void Execute(CheckpointAction& action) {
    checkpoints_.Execute(action);
  }
  void OnReplaced(const Status& why);
  void Discard(const Status& why);
  void End(Status outcome);

  net::Loop loop_;
  LoopWork work_{loop_};
  metrics::Registry own_metrics_;  // if nobody looks at them
  metrics::Registry& metrics_;
  const CoordinatorOptions& options_;
  StartedJob& started_;
  const job::Job& job_ = started_.job;
  checkpoint::Store& store_ = *started_.store;
  PublisherService* const publisher_;  // this process's; null: it has none
  const std::optional<protocol::Manifest> restored_;
  BackgroundThread background_;  // writes the journal and small files
  BackgroundThread others_;      // asks other hosts
  KillPoint kill_point_{job_.debug, job_.directory};
  StreamWatch stream_;
  JobReports reports_;
  Scaling scaling_;
  protocol::Coordinator machine_;
  JobCheckpoints checkpoints_;
  CommitQueue queue_;
  OpenCalls calls_{store_.term()};
  StalledReplies stalled_;
  std::optional<JournalShipper> shipper_;  // once the service of checkpoints has an address
  uint64_t deciding_call_ = 0;             // the last one by which a move may be made
  Time last_status_{0};
  std::optional<Time> over_since_;  // the machine has ended
  Status failure_;                  // why the job was ended
  Status outcome_;
  report::JobStatus summary_;
};

CoordinatorRole::CoordinatorRole(const CoordinatorOptions& options, StartedJob& started)
    : metrics_(options.metrics != nullptr ? options.metrics->registry() : own_metrics_),
      options_(options),
      started_(started),
      publisher_(started.feed != nullptr ? started.publisher.get() : nullptr),
      restored_(started.restored.manifest),
      stream_(work_, others_, started.streams,
              {.name = job_.stream->Describe(),
               .feed = options.feed,
               .partitions = started.config.partitions,
               .fingerprints = restored_ ? restored_->fingerprints : std::vector<protocol::Fingerprint>(),
               .label_marks = [this] { return machine_.label_marks(); },
               .on_ranges = [this](const auto& ranges) { Commit(machine_.OnStream(loop_.Now(), ranges)); },
               .on_unasked = [this](auto& line) { reports_.progress().SetStreamWarning(line); },
               .on_failure = [this](const Status& why) { Discard(why); }}),
      reports_(loop_, job_, options, store_.term(), store_.directory(), std::move(started.tensorboard),
               {.request = [this](auto request, auto answer) { OnRequest(std::move(request), answer); },
                .raise = [this] { return machine_.OnDrift(loop_.Now()); },
                .commit = [this](auto actions) { Commit(std::move(actions)); }}),
      scaling_(loop_, job_.autoscale, job_.name, metrics_, options.scaler.get(), job_.servers == 0),
      machine_(std::move(started.config), std::move(started.restored)),
      checkpoints_({work_, background_, machine_, stream_, started, kill_point_, metrics_},
                   {.commit = [this](auto actions) { Commit(std::move(actions)); },
                    .complete =
                        [this](const protocol::Manifest& manifest, std::optional<Time> begin) {
                          shipper_->OnCheckpoint(manifest.id);
                          reports_.OnCheckpoint(manifest, begin);
                        },
                    .replaced = [this](const Status& why) { OnReplaced(why); }}),
      queue_(
          loop_, background_,
          [this](auto records) { return WriteAhead(started_.streams.for_background(), store_, records); },
          [this](protocol::CoordinatorAction& action) {
            if (!work_.ended()) std::visit([this](auto& each) { Execute(each); }, action);
          },
          [this](const Status& why) { OnReplaced(why); },
          {.on_written = [this](auto records) { return shipper_->OnWritten(records); },
           .agreed = [this] { return shipper_->agreed(); }}) {}

Status CoordinatorRole::Run() {
  LEAT_ASSIGN_OR_RETURN(const auto server, control::ControlServer::Start(
                                               options_.listen, options_.token,
                                               [this](protocol::ControlRequest request, Answer answer) {
                                                 loop_.Post([this, request = std::move(request),
                                                             answer = std::move(answer)]() mutable {
                                                   OnRequest(std::move(request), std::move(answer));
                                                 });
                                               },
                                               control::ControlServer::Limits(), options_.tls));
  LEAT_RETURN_IF_ERROR(Announce(server->address()));
  launcher::SignalWatch signals([this](int) {
    loop_.Post(
        [this] { OnRequest(protocol::AdminRequest{protocol::AdminRequest::Kind::kStop}, [](auto) {}); });
  });
  if (options_.max_time > 0) {
    constexpr uint64_t kLongest = 1'000'000'000;  // a Duration counts nanoseconds
    loop_.After(std::chrono::seconds(std::min(options_.max_time, kLongest)), [this] {
      spdlog::info("the time of the job is over (--max-time): it stops after a final checkpoint");
      OnRequest(protocol::AdminRequest{protocol::AdminRequest::Kind::kStop}, [](auto) {});
    });
  }
  // An elected coordinator says nothing of its journal before a majority of the members knows it.
  if (!shipper_->founded()) Commit({protocol::ConfirmTerm{}});
  stream_.Start();
  OnTimer();
  reports_.StartMetrics([this] { return Show(loop_.Now()); });
  loop_.Run();
  reports_.StopMetrics();
  checkpoints_.Abort();
  for (const auto& client : started_.streams.clients) client->Abort();
  // The directory is another coordinator's.
  if (outcome_.code() != Code::kStale) reports_.Finish(summary_);
  return outcome_;
}

// Makes everything that a member may ask for, and says so.
Status CoordinatorRole::Announce(const std::string& listening) {
  LEAT_ASSIGN_OR_RETURN(const std::string address, net::AdvertisedAddress(options_.advertise, listening));
  LEAT_RETURN_IF_ERROR(checkpoints_.StartService(options_, restored_));
  protocol::JoinReply joined;
  checkpoints_.service().Fill(&joined);
  shipper_.emplace(work_, background_, others_, store_, queue_, options_,
                   JournalShipper::Options{.begin = started_.shipping,
                                           .checkpoint = restored_ ? restored_->id : 0,
                                           .transfers = joined.transfers,
                                           .on_replaced = [this](const Status& why) { OnReplaced(why); },
                                           .drop = [this](const auto& what) { checkpoints_.Execute(what); }});
  // The directory is a job's from here on. A start that fails before can be repeated.
  LEAT_RETURN_IF_ERROR(store_.WriteJob(job_.config.ToYaml()));
  reports_.OnStart(loop_.Now(), address, machine_.taken_over());
  if (options_.on_ready) options_.on_ready(address);
  return {};
}

bool CoordinatorRole::AnswerAtOnce(Time now, const protocol::ControlRequest& request, Answer& answer) {
  if (shipper_->Handle(request, answer)) return true;
  if (std::holds_alternative<protocol::StatusRequest>(request)) {
    answer(protocol::StatusReply{report::ToJson(Show(now))});
    return true;
  }
  if (auto reply = reports_.recording().Answer(now, request, [this] { return machine_.status().view; })) {
    answer(std::move(*reply));
    return true;
  }
  const auto* admin = std::get_if<protocol::AdminRequest>(&request);
  if (admin == nullptr || admin->kind != protocol::AdminRequest::Kind::kNodeLost) return false;
  Commit(machine_.OnNodeLost(now, admin->node));
  answer(protocol::AdminReply{});
  return true;
}

void CoordinatorRole::OnRequest(protocol::ControlRequest request, Answer answer) {
  const Time now = loop_.Now();
  if (AnswerAtOnce(now, request, answer)) return;
  const uint64_t call = calls_.Open(request, std::move(answer));
  reports_.OnRequest(now, call, request);
  shipper_->OnHeartbeat(call, request);
  if (!work_.ended()) Handle(now, call, request);
}

void CoordinatorRole::Handle(Time now, uint64_t call, protocol::ControlRequest& request) {
  bool stalled = !queue_.Stalled().ok();
  const bool waits = !queue_.empty() || !shipper_->founded();
  if (auto early = waits ? shipper_->EarlyReply(call, request) : std::nullopt) {
    calls_.AnswerEarly(call, std::move(*early));
    stalled = true;
  }
  auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request);
  if (stalled && worker != nullptr) worker->leases_wanted = 0;
  auto actions = machine_.OnRequest(now, call, request);
  if (stalled) {
    AnswerStalled(call, request, &actions);
  } else if (const auto* server = std::get_if<protocol::ServerHeartbeat>(&request)) {
    // A server that has not heard of this coordinator is not told its slices.
    if (!calls_.IsFormer(call)) stalled_.OnServer(call, server->node);
    const auto arrived = [](const auto& move) { return move.stage == protocol::MoveReport::Stage::kArrived; };
    if (std::ranges::any_of(server->moves, arrived)) {
      kill_point_.Pass(job::DiePoint::kMoveMade);
      deciding_call_ = call;
    }
  }
  Commit(std::move(actions));
  const auto* admin = std::get_if<protocol::AdminRequest>(&request);
  if (admin != nullptr && admin->kind == protocol::AdminRequest::Kind::kDiscard) queue_.Abandon();
}

// Sends a heartbeat's reply at once, without all that depends on the journal.
void CoordinatorRole::AnswerStalled(uint64_t call, const protocol::ControlRequest& request,
                                    protocol::CoordinatorActions* actions) {
  const auto at = std::ranges::find_if(*actions, [call](const protocol::CoordinatorAction& action) {
    const auto* reply = std::get_if<protocol::Reply>(&action);
    return reply != nullptr && reply->call == call;
  });
  if (at == actions->end()) return;
  protocol::Reply reply = std::get<protocol::Reply>(*at);
  if (!stalled_.Strip(request, !calls_.IsFormer(call), shipper_->WaitsFor().empty(), &reply.reply)) return;
  actions->erase(at);
  Execute(reply);
}

void CoordinatorRole::OnTimer() {
  const Time now = loop_.Now();
  reports_.OnTurn(now);
  shipper_->OnTimer();
  // The members are gone, so nobody can be told that a standby is, too.
  if (machine_.next_timer() == Time::max()) {
    if (!over_since_) over_since_ = now;
    if (now - *over_since_ > kEndWait) queue_.Abandon();
  }
  if (work_.ended()) return;
  if (machine_.next_timer() <= now) Commit(machine_.OnTimer(now));
  // Half an interval early is as good, so that both timers run at once.
  if (now - last_status_ >= kStatusInterval / 2) OnStatusDue(now);
  if (work_.ended()) return;
  // The core may be shared with a worker, so sleep until the next deadline.
  const Time next = std::min(machine_.next_timer(), last_status_ + kStatusInterval);
  loop_.After(std::max(next - now, Duration::zero()), [this] { OnTimer(); });
}

void CoordinatorRole::OnStatusDue(Time now) {
  last_status_ = now;
  if (publisher_ != nullptr) {
    Commit(machine_.OnPublishers(now, publisher_->Reports()));
    publisher_->SetOrders(machine_.publisher_orders());
  }
  const protocol::CoordinatorStatus status = JobStatus();
  reports_.progress().OnStatus(now, status);
  scaling_.OnStatus(now, status, reports_.progress().Oldest(now));
  machine_.SetChosen(scaling_.chosen());
  if (options_.metrics != nullptr) options_.metrics->NeedsWorkers(scaling_.needs_workers());
  stream_.OnView(status.view);
  stalled_.OnView(status.view);
  shipper_->OnView(status.view);
  checkpoints_.MeasureSaving(status);
  reports_.OnStatus(now, status);
}

protocol::CoordinatorStatus CoordinatorRole::JobStatus() const {
  auto status = machine_.status();
  if (const Status stalled = queue_.Stalled(); !stalled.ok())
    status.waiting_for = "the journal: " + stalled.message();
  if (status.waiting_for.starts_with("the journal") && !shipper_->WaitsFor().empty())
    status.waiting_for = "the journal: it waits for " + shipper_->WaitsFor();
  if (status.waiting_for.empty()) status.waiting_for = stream_.WaitsFor(loop_.Now());
  checkpoints_.FillSaved(&status);
  scaling_.Fill(&status.wanted);
  return status;
}

void CoordinatorRole::Execute(protocol::Reply& action) {
  const auto call = calls_.Close(action.call);
  if (!call) return;
  auto* joined = std::get_if<protocol::JoinReply>(&action.reply);
  if (call->join && joined != nullptr && joined->status.ok()) {
    checkpoints_.service().Fill(joined);
    reports_.OnJoin(loop_.Now(), *call->join, *joined);
  }
  if (action.call == deciding_call_) kill_point_.Pass(job::DiePoint::kMoveJournaled);
  if (call->former) checkpoints_.service().FillHeartbeat(&action.reply);
  reports_.AddOrders(loop_.Now(), action.call, &action.reply);
  shipper_->AddCoordinators(action.call, &action.reply);
  stalled_.OnReply(action.call, action.reply);
  call->answer(std::move(action.reply));
}

// Another coordinator has taken the job over.
void CoordinatorRole::OnReplaced(const Status& why) {
  if (work_.ended()) return;
  for (auto& action : machine_.OnReplaced(why)) std::visit([this](auto& each) { Execute(each); }, action);
}

// The job's training since the last checkpoint is not to be trusted.
void CoordinatorRole::Discard(const Status& why) {
  if (!failure_.ok() || work_.ended()) return;
  spdlog::error("{}", why.ToString());
  failure_ = why;
  OnRequest(protocol::AdminRequest{protocol::AdminRequest::Kind::kDiscard}, [](auto) {});
}

void CoordinatorRole::Execute(protocol::JobEnded& action) {
  if (action.status.code() == Code::kStale) {
    spdlog::error("{}; this one ends", action.status.message());
    return End(std::move(action.status));
  }
  checkpoints_.End(
      action, [this] { return shipper_->WaitsFor().empty(); },
      [this, outcome = action.status, finished = action.finished](const Status& unpinned) {
        if (!unpinned.ok()) spdlog::warn("unpin: {}", unpinned.ToString());
        End(finished && outcome.ok() ? reports_.CheckDeadLetters(machine_.status()) : outcome);
      });
}

void CoordinatorRole::End(Status outcome) {
  work_.End();
  outcome_ = failure_.ok() ? std::move(outcome) : failure_;
  summary_ = Show(loop_.Now());
  loop_.Stop();
}

}  // namespace

Status RunCoordinator(const job::Job& job, const CoordinatorOptions& options) {
  LEAT_ASSIGN_OR_RETURN(StartedJob started, StartJob(job, options));
  std::optional<CoordinatorRole> role;
  WithDamage(started.intact, [&] { role.emplace(options, started); });
  LEAT_RETURN_IF_ERROR(SetDamagedAside(started));
  return role->Run();
}

}  // namespace leat::roles
