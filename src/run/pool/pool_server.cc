#include "run/pool/pool_server.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/loop.h"
#include "net/rpc/server.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/pool/directories.h"
#include "run/pool/messages_json.h"

namespace leat::pool {
namespace {

using Kind = protocol::PoolRequest::Kind;
using Reply = std::function<void(protocol::ControlReply)>;

constexpr Duration kDecideInterval = std::chrono::milliseconds(200);  // between two decisions

class PoolProcess {
 public:
  PoolProcess(const PoolOptions& options, std::unique_ptr<JobStore> store, std::vector<StoredJob> jobs)
      : options_(options), store_(std::move(store)), pool_(loop_.Now(), ConfigOf(), RecordsOf(jobs)) {
    for (StoredJob& job : jobs) payloads_[job.record.id] = std::move(job.payload);
  }

  Status Run() {
    LEAT_ASSIGN_OR_RETURN(auto server,
                          control::ControlServer::Start(
                              options_.listen, options_.token,
                              [this](protocol::ControlRequest request, Reply reply) {
                                loop_.Post([this, request = std::move(request), reply = std::move(reply)] {
                                  OnRequest(request, reply);
                                });
                              },
                              {}, options_.tls, PoolPort()));
    spdlog::info("the pool listens on {}", server->address());
    if (options_.on_ready) options_.on_ready(server->address());
    const launcher::SignalWatch signals([this](int) { loop_.Stop(); });
    Tick();
    loop_.Run();
    server.reset();
    return failure_;
  }

 private:
  PoolConfig ConfigOf() const {
    PoolConfig config = options_.config;
    config.run = store_->run();
    config.start_s = std::chrono::duration_cast<std::chrono::seconds>(UnixTime()).count();
    return config;
  }
  static std::vector<JobRecord> RecordsOf(const std::vector<StoredJob>& jobs) {
    std::vector<JobRecord> records;
    for (const StoredJob& job : jobs) records.push_back(job.record);
    return records;
  }

  void Tick() {
    pool_.Decide(loop_.Now());
    Save();
    loop_.After(kDecideInterval, [this] { Tick(); });
  }

  // Nothing is answered before it is on disk. A pool that cannot write ends: its jobs go on.
  bool Save() {
    const auto fail = [this](const Status& why) {
      failure_ = why;
      loop_.Stop();
      return false;
    };
    for (const JobRecord& record : pool_.TakeForgotten()) {
      const auto payload = payloads_.extract(record.id);
      if (payload.empty()) continue;
      if (const Status moved = store_->Forget({record, payload.mapped()}); !moved.ok()) return fail(moved);
    }
    for (const JobRecord& record : pool_.TakeChanged()) {
      JobPayload& payload = payloads_[record.id];
      if (IsOver(record.state)) payload.environment.clear();
      if (const Status written = store_->Write({record, payload}); !written.ok()) return fail(written);
      spdlog::info("job {} ({}): {}{}", record.id, record.spec.name, fields::NameOf(record.state),
                   record.reason.empty() ? "" : ": " + record.reason);
    }
    return true;
  }

  void OnRequest(const protocol::ControlRequest& request, const Reply& reply) {
    const auto* asked = std::get_if<protocol::PoolRequest>(&request);
    if (asked == nullptr)
      return reply(
          protocol::Refusal{{Code::kInvalidArgument, "this is a pool, and no coordinator of a job"}});
    auto answer = Answer(*asked);
    if (!failure_.ok() || !Save()) answer = Status(failure_.code(), failure_.message());
    reply(
        protocol::PoolReply{answer.ok() ? Status() : answer.status(), answer.ok() ? std::move(*answer) : ""});
  }

  Result<std::string> Answer(const protocol::PoolRequest& request) {
    const Time now = loop_.Now();
    switch (request.kind) {
      case Kind::kReport:
        return OnReport(now, request.body);
      case Kind::kSubmit:
        return OnSubmit(now, request.body);
      case Kind::kList: {
        LEAT_ASSIGN_OR_RETURN(const ListRequest list, ListFromJson(request.body));
        return StatusJson(pool_.jobs(now), pool_.agents(now), list);
      }
      case Kind::kCancel: {
        LEAT_ASSIGN_OR_RETURN(const CancelRequest cancel, FromJson<CancelRequest>(request.body));
        LEAT_RETURN_IF_ERROR(pool_.Cancel(now, cancel.job, cancel.discard));
        return std::string();
      }
      case Kind::kAccess:
        return OnAccess(now, request.body);
    }
    return Status(Code::kInvalidArgument, "unknown request");
  }

  Result<std::string> OnReport(Time now, const std::string& body) {
    LEAT_ASSIGN_OR_RETURN(const AgentReport report, FromJson<AgentReport>(body));
    // Its processes and directories would be taken for jobs of this pool with the same numbers.
    if (!report.pool.empty() && report.pool != store_->id()) {
      return Status(Code::kFailedPrecondition,
                    "the directory of agent '" + report.agent + "' belongs to pool " + report.pool +
                        ", and this is pool " + store_->id() + "; give the agent a new or empty directory");
    }
    AgentReply answer{.pool = store_->id()};
    LEAT_ASSIGN_OR_RETURN(answer.orders, pool_.OnReport(now, report));
    // Access for starting processes, and for talking to the coordinators that the agent has.
    std::set<JobId> jobs;
    for (const auto& start : answer.orders.starts) jobs.insert(start.id.job);
    for (const JobId id : report.renews) {
      const auto runs = [id](const auto& one) { return one.id.job == id; };
      if (payloads_.contains(id) && std::ranges::any_of(report.running, runs)) jobs.insert(id);
    }
    for (const JobId id : jobs) {
      LEAT_ASSIGN_OR_RETURN(answer.jobs.emplace_back(), AccessFor(id, report));
    }
    return ReplyJson(std::move(answer));
  }

  Result<JobAccess> AccessFor(JobId id, const AgentReport& report) {
    const auto payload = payloads_.find(id);
    if (payload == payloads_.end())
      return Status(Code::kInternal, "job " + std::to_string(id) + " has no file");
    JobAccess access{.job = id, .payload = payload->second};
    if (const auto job = pool_.job(loop_.Now(), id)) access.servers = job->record.spec.servers;
    if (options_.tls == nullptr) return access;
    LEAT_ASSIGN_OR_RETURN(access.roles,
                          store_->Issue(id, report.host + ".roles",
                                        {"coordinator", "server", "worker", "feed", "bots"}, {report.host}));
    LEAT_ASSIGN_OR_RETURN(access.pool, store_->Issue(id, "pool", {"pool"}, {}));
    return access;
  }

  Result<std::string> OnSubmit(Time now, const std::string& body) {
    LEAT_ASSIGN_OR_RETURN(SubmitRequest submit, FromJson<SubmitRequest>(body));
    if (!submit.wait) LEAT_RETURN_IF_ERROR(pool_.CheckRoom(now, submit.spec));
    submit.payload.token = launcher::RandomToken();
    const JobId id = pool_.Submit(now, submit.spec);
    payloads_[id] = std::move(submit.payload);
    return ToJson(JobNumber{id});
  }

  Result<std::string> OnAccess(Time now, const std::string& body) {
    LEAT_ASSIGN_OR_RETURN(const JobNumber asked, FromJson<JobNumber>(body));
    const JobId id = asked.job;
    const auto payload = payloads_.find(id);
    if (payload == payloads_.end())
      return Status(Code::kNotFound, "the pool has no job " + std::to_string(id));
    UserAccess access{.token = payload->second.token};
    if (const auto job = pool_.job(now, id)) access.coordinator = job->coordinator;
    if (options_.tls != nullptr) {
      LEAT_ASSIGN_OR_RETURN(access.admin, store_->Issue(id, "admin", {"admin"}, {}));
    }
    return ToJson(access);
  }

  const PoolOptions& options_;
  const std::unique_ptr<JobStore> store_;
  net::Loop loop_;
  std::map<JobId, JobPayload> payloads_;
  Pool pool_;
  Status failure_;
};

}  // namespace

Status RunPool(const PoolOptions& options) {
  LEAT_ASSIGN_OR_RETURN(auto store, JobStore::Open(options.directory, options.certificate_life));
  LEAT_ASSIGN_OR_RETURN(auto jobs, store->Read());
  return PoolProcess(options, std::move(store), std::move(jobs)).Run();
}

Status CheckJob(const job::Job& job) {
  const std::string prefix = "job '" + job.name + "' ";
  if (!job.autoscale.command.empty()) {
    return {Code::kInvalidArgument,
            prefix +
                "has a command for its workers (autoscale: command), and in a pool the "
                "pool starts them; a job has one executor"};
  }
  if (job.strategy.mpi) {
    return {
        Code::kInvalidArgument,
        prefix +
            "reduces by MPI, so mpirun starts its workers, and none can come or go; a pool cannot run it"};
  }
  return {};
}

}  // namespace leat::pool
