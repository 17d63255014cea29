#include "run/pool/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/exit_status.h"
#include "base/log.h"
#include "net/address.h"
#include "net/rpc/client.h"
#include "net/same_host/same_host_peer.h"
#include "net/security/certificate.h"
#include "run/launcher/processes.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/start_job.h"
#include "run/launcher/wanted_roles.h"
#include "run/pool/coordinator_link.h"
#include "run/pool/directories.h"
#include "run/pool/messages_json.h"
#include "storage/checkpoint/file.h"

namespace leat::pool {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReportInterval = std::chrono::milliseconds(250);
constexpr Duration kReportDeadline = std::chrono::seconds(2);
constexpr Duration kTermGrace = std::chrono::seconds(10);  // after SIGTERM, before SIGKILL
// An agent that was restarted may meet its former self for a while.
constexpr Duration kNameTaken = std::chrono::seconds(5);
constexpr int64_t kRenewAgain = 10;  // s, after new certificates could not be written

class Agent {
 public:
  explicit Agent(const AgentOptions& options)
      : options_(options),
        instance_(random_() | uint64_t{random_() & 0x7fffffff} << 32),
        pool_(control::ControlClient::Make(options.pool, options.token, options.tls, PoolPort())),
        signals_([this](int) {
          stopped_ = true;
          pool_->Abort();
          processes_.Wake();
        }) {}

  Status Run() {
    LEAT_ASSIGN_OR_RETURN(const checkpoint::File lock, OpenAgentDirectory(options_.directory));
    LEAT_ASSIGN_OR_RETURN(pool_id_, PoolOfAgentDirectory(options_.directory));
    spdlog::info("agent {} offers {:.6g} cores and {:.6g} MB on {}", options_.name,
                 static_cast<double>(options_.offer.millicores) / 1000,
                 static_cast<double>(options_.offer.memory) / 1e6, options_.host);
    Status failure;
    while (!stopped_ && failure.ok()) {
      Reap();
      ReadAddresses();
      StartDueBots();
      failure = Exchange();
      KillOverdue();
      if (!stopped_ && failure.ok()) processes_.Await(kReportInterval);
    }
    EndAll();
    return failure;
  }

 private:
  struct Local {
    ProcessId id;
    pid_t pid = 0;
    net::Descriptor ready;  // pipe of a coordinator that has not said its address
    std::string said;       // last line of the pipe that is not complete
    std::string waits;      // reason for its wait, before it has an address
    std::string address;
    std::unique_ptr<CoordinatorLink> link;
    pid_t bots = 0;               // process of the bots, beside a coordinator whose job has them
    std::optional<Time> bots_at;  // when they are to be started; none: they run, or there are none
    int bots_failures = 0;
    std::optional<Time> told;  // time of the order to end
  };

  void Reap() {
    probed_.reset();
    for (const auto& end : processes_.Reap()) {
      const auto at = std::ranges::find_if(locals_, [&](const auto& l) { return l.second.pid == end.pid; });
      if (at == locals_.end()) {
        OnBotsEnded(end);
        continue;
      }
      Local& local = at->second;
      spdlog::info("job {}: {} {} ended with status {}{}", local.id.job, fields::NameOf(local.id.role),
                   local.id.index, end.exit_code, end.last_error.empty() ? "" : ": " + end.last_error);
      if (local.bots > 0) processes_.Signal(local.bots, SIGTERM);
      const Status host = HostFailure(end);
      std::string error = end.last_error;
      if (!host.ok()) error += (error.empty() ? "" : "; ") + host.message();
      ended_.push_back({++events_, local.id, end.exit_code, error.substr(0, 1000), !host.ok()});
      const JobId job = local.id.job;
      locals_.erase(at);
      ForgetUnlessRuns(job);
    }
  }

  // Why no process can do better here at present; ok: the host is not to blame. A disk that takes no writes
  // ends processes with 75, 2 or 1, by the error, and with a signal if their files are mapped. Processes that
  // have ended at the same time share a probe: a slow disk would hold up the agent's reports.
  Status HostFailure(const launcher::ProcessEnd& end) {
    if (end.exit_code == ExitStatus::kDone) return {};
    if (end.exit_code == launcher::kNotStarted)
      return {Code::kResourceExhausted, "the process could not be started"};
    if (!probed_) probed_ = ProbeAgentDirectory(options_.directory);
    return *probed_;
  }

  // They are started again while their job runs.
  void OnBotsEnded(const launcher::ProcessEnd& end) {
    for (auto& [number, local] : locals_) {
      if (local.bots != end.pid) continue;
      local.bots = 0;
      if (local.told || end.exit_code == ExitStatus::kDone) continue;
      spdlog::warn("job {}: bots ended with status {}{}", local.id.job, end.exit_code,
                   end.last_error.empty() ? "" : ": " + end.last_error);
      if (AfterExitOf(end.exit_code, false) != AfterExit::kGiveUp || !HostFailure(end).ok())
        StartBotsLater(&local);
    }
  }
  void StartBotsLater(Local* local) {
    local->bots_at = clock_.Now() + launcher::PauseAfter(local->bots_failures++);
  }
  void StartDueBots() {
    for (auto& [number, local] : locals_) {
      if (!local.bots_at || *local.bots_at > clock_.Now()) continue;
      local.bots_at.reset();
      StartBots(&local);
    }
  }

  bool Runs(JobId job) const {
    return std::ranges::any_of(locals_, [job](const auto& local) { return local.second.id.job == job; });
  }

  // A job's credentials go with its last process here.
  void ForgetUnlessRuns(JobId job) {
    if (Runs(job)) return;
    access_.erase(job);
    renewals_.erase(job);
    std::error_code ignored;
    fs::remove_all(Folder("secrets", job), ignored);
  }

  std::string Folder(const char* part, JobId job) const {
    return options_.directory + "/" + part + "/" + std::to_string(job);
  }

  // Reads the lines that coordinators write while they start: run/launcher/start/start_job.h.
  void ReadAddresses() {
    for (auto& [number, local] : locals_) {
      if (local.ready.get() < 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t n = read(local.ready.get(), buffer.data(), buffer.size());
      if (n < 0) continue;
      const launcher::ReadyNews news =
          launcher::TakeReady(std::string_view(buffer.data(), static_cast<size_t>(n)), &local.said);
      if (news.waits) local.waits = *news.waits;
      if (n > 0 && news.address.empty()) continue;
      local.ready = net::Descriptor();
      local.waits.clear();
      local.address = news.address;
      if (!local.address.empty()) Connect(&local);  // otherwise it ends
    }
  }

  void Connect(Local* local) {
    const JobAccess& access = access_[local->id.job];
    std::shared_ptr<net::TlsIdentity> tls;
    if (!access.pool.empty()) {
      auto loaded = net::TlsIdentity::Load(Folder("secrets", local->id.job) + "/pool");
      if (!loaded.ok()) return spdlog::error("job {}: {}", local->id.job, loaded.status().message());
      tls = std::move(*loaded);
    }
    local->link = std::make_unique<CoordinatorLink>(local->id.job, local->address, access.payload.token, tls);
    if (access.payload.bots) StartBots(local);
  }

  AgentReport Report() {
    AgentReport report{.pool = pool_id_,
                       .agent = options_.name,
                       .instance = instance_,
                       .sequence = ++sequence_,
                       .host = options_.host,
                       .offer = options_.offer,
                       .host_class = options_.host_class};
    for (const auto& [number, local] : locals_) {
      report.running.push_back({local.id, local.link != nullptr ? local.address : "",
                                local.link != nullptr ? local.link->waits() : local.waits});
      if (local.link == nullptr) continue;
      if (const auto want = local.link->want()) report.wants.push_back(*want);
    }
    report.ended = ended_;
    for (const auto& [job, at] : renewals_) {
      if (std::time(nullptr) >= at) report.renews.push_back(job);
    }
    return report;
  }

  // Takes the certificates that the pool has renewed, for processes that run.
  void Renew(const JobAccess& access) {
    int64_t at = std::numeric_limits<int64_t>::max();
    for (const Certificate& one : {access.roles, access.pool}) {
      if (const auto renewal = net::RenewalTime(one.certificate); renewal.ok()) at = std::min(at, *renewal);
    }
    if (const Status written = Runs(access.job) ? WriteCertificates(access) : Status(); !written.ok()) {
      spdlog::error("job {}: the new certificate: {}", access.job, written.message());
      at = std::time(nullptr) + kRenewAgain;
    }
    renewals_[access.job] = at;
  }

  Status Exchange() {
    const auto reply = control::CallFor<protocol::PoolReply>(
        *pool_, protocol::PoolRequest{protocol::PoolRequest::Kind::kReport, ToJson(Report())},
        kReportDeadline);
    if (stopped_) return {};
    const Status status = reply.ok() ? reply->status : reply.status();
    const Time now = clock_.Now();
    if (status.ok()) {
      silent_since_.reset();
      complaint_.clear();
      return Obey(reply->body);
    }
    // Only what no repetition cures ends the agent, and its processes with it.
    if (!silent_since_) silent_since_ = now;
    const bool never =
        !heard_ && (status.code() == Code::kPermissionDenied || status.code() == Code::kFailedPrecondition ||
                    status.code() == Code::kInvalidArgument);
    const bool taken = reply.ok() && status.code() == Code::kUnavailable && now - *silent_since_ > kNameTaken;
    if (taken) return {Code::kFailedPrecondition, status.message()};
    if (never) return status;
    if (status.message() != complaint_) spdlog::warn("{}", status.message());
    complaint_ = status.message();
    return {};
  }

  Status Obey(const std::string& body) {
    auto reply = FromJson<AgentReply>(body);
    if (!reply.ok()) {
      spdlog::error("{}", reply.status().message());
      return {};
    }
    heard_ = true;
    if (pool_id_.empty()) {
      LEAT_RETURN_IF_ERROR(GiveAgentDirectory(options_.directory, reply->pool));
      pool_id_ = reply->pool;
    }
    for (const JobAccess& access : reply->jobs) {
      Renew(access);
      access_[access.job] = access;
    }
    for (const auto& start : reply->orders.starts) {
      if (!access_.contains(start.id.job) || !started_.insert(start.id.number).second) continue;
      const Status kept = CheckKept(start);
      const Status started = kept.ok() ? Start(start) : kept;
      if (started.ok()) continue;
      spdlog::error("job {}: {}", start.id.job, started.message());
      ended_.push_back(
          {++events_, start.id, ExitStatus::kMayHeal, started.message().substr(0, 1000), kept.ok()});
    }
    for (const JobAccess& access : reply->jobs)
      ForgetUnlessRuns(access.job);  // jobs that could not be started
    for (const auto& grant : reply->orders.grants) {
      if (CoordinatorLink* const link = LinkOf(grant.job)) link->Grant(grant);
    }
    for (const auto& stop : reply->orders.stops) {
      if (CoordinatorLink* const link = LinkOf(stop.job)) link->Stop(stop.discard);
    }
    for (const ProcessId& id : reply->orders.ends) {
      const auto at = locals_.find(id.number);
      if (at == locals_.end() || at->second.told) continue;
      at->second.told = clock_.Now();
      processes_.Signal(at->second.pid, SIGTERM);
    }
    std::erase_if(ended_, [&](const auto& e) {
      const bool acknowledged = e.event <= reply->orders.acknowledged;
      if (acknowledged) started_.erase(e.id.number);
      return acknowledged;
    });
    return {};
  }

  CoordinatorLink* LinkOf(JobId job) {
    for (auto& [number, local] : locals_) {
      if (local.id.job == job && local.link != nullptr) return local.link.get();
    }
    return nullptr;
  }

  void KillOverdue() {
    for (auto& [number, local] : locals_) {
      if (local.told && clock_.Now() - *local.told > kTermGrace) processes_.Signal(local.pid, SIGKILL);
    }
  }

  void EndAll() {
    for (auto& [number, local] : locals_) local.link.reset();
    processes_.Signal(SIGTERM);
    const Time until = clock_.Now() + kTermGrace;
    while (!processes_.empty() && clock_.Now() < until) {
      processes_.Await(kReportInterval);
      (void)processes_.Reap();
    }
    locals_.clear();
    while (!access_.empty()) ForgetUnlessRuns(access_.begin()->first);
  }

  bool has_users() const { return geteuid() == 0; }
  uint32_t UserOf(JobId job) const { return options_.first_user + static_cast<uint32_t>(job); }

  Status Own(const std::string& path, JobId job, mode_t mode) const {
    if (chmod(path.c_str(), mode) != 0) return checkpoint::SystemError(path, "cannot be made private", errno);
    if (has_users() && lchown(path.c_str(), UserOf(job), UserOf(job)) != 0)
      return checkpoint::SystemError(path, "cannot be given to the job's user", errno);
    return {};
  }

  // `owner`: the job that may read it; none: the agent alone.
  Status WriteSecret(const std::string& folder, const char* name, std::string_view text,
                     std::optional<JobId> owner) {
    const std::string path = folder + "/" + name;
    // Processes of the job may read at any time: a new file is given to it before it has its name.
    const auto there = checkpoint::ReadFile(path, text.size());
    if (there.ok() && AsText(*there) == text) return owner ? Own(path, *owner, 0400) : Status();
    const std::string next = std::string(name) + ".new";
    LEAT_RETURN_IF_ERROR(checkpoint::ReplaceFile(folder, next, AsBytes(text)));
    if (owner) LEAT_RETURN_IF_ERROR(Own(folder + "/" + next, *owner, 0400));
    return checkpoint::RenameSynced(folder, next, name);
  }

  Status WriteCertificate(const std::string& folder, const Certificate& certificate,
                          std::optional<JobId> owner) {
    if (certificate.empty()) return {};
    LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(folder));
    if (owner) chmod(folder.c_str(), 0711);
    LEAT_RETURN_IF_ERROR(WriteSecret(folder, "ca.pem", certificate.ca, owner));
    LEAT_RETURN_IF_ERROR(WriteSecret(folder, "cert.pem", certificate.certificate, owner));
    return WriteSecret(folder, "key.pem", certificate.key, owner);
  }

  // Makes the folders of a job. Folders that the job's user owns lie below folders that it does not own.
  Status Prepare(const JobAccess& access) {
    const JobId job = access.job;
    if (has_users() && job > 100'000'000)
      return {Code::kResourceExhausted, "there are no more users for jobs"};
    const std::string secrets = Folder("secrets", job);
    for (const std::string& folder : {Folder("jobs", job), Folder("logs", job), secrets})
      LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(folder));
    chmod(secrets.c_str(), 0711);
    LEAT_RETURN_IF_ERROR(Own(Folder("jobs", job), job, 0700));
    LEAT_RETURN_IF_ERROR(WriteSecret(secrets, "job.yaml", access.payload.file, job));
    return WriteCertificates(access);
  }
  Status WriteCertificates(const JobAccess& access) {
    const std::string secrets = Folder("secrets", access.job);
    LEAT_RETURN_IF_ERROR(WriteCertificate(secrets + "/roles", access.roles, access.job));
    return WriteCertificate(secrets + "/pool", access.pool, {});
  }

  launcher::ProcessSpec SpecFor(const JobAccess& access, const std::string& name) const {
    const JobId job = access.job;
    launcher::ProcessSpec spec{.name = name, .log = Folder("logs", job) + "/" + name + ".log"};
    spec.own_environment = true;
    // The last three: of programs that are built with sanitizers.
    for (const char* variable : {"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LEAT_SITE",
                                 "LEAT_ZONE", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
      if (const char* value = std::getenv(variable)) spec.environment[variable] = value;
    }
    if (!options_.host_class.empty()) spec.environment["LEAT_CLASS"] = options_.host_class;
    spec.environment["HOME"] = Folder("jobs", job);
    for (const auto& [variable, value] : access.payload.environment) spec.environment[variable] = value;
    spec.environment["LEAT_TOKEN"] = access.payload.token;
    if (!access.roles.empty()) {
      spec.environment["LEAT_SECURITY"] = Folder("secrets", job) + "/roles";
    } else if (options_.trusted_network) {
      spec.environment["LEAT_TRUSTED_NETWORK"] = "1";
    }
    if (has_users()) spec.user = UserOf(job);
    spec.directory = Folder("jobs", job);
    return spec;
  }

  // A disk that is not mounted, or was replaced, must not make a job begin again.
  Status CheckKept(const AgentOrders::StartProcess& start) const {
    const std::string file = Folder("jobs", start.id.job) + "/run/job.yaml";
    std::error_code ignored;
    if (!start.resumes || fs::exists(file, ignored)) return {};
    return {Code::kNotFound, "the job has begun on this host, and " + file +
                                 " is not there; put its directory back, or cancel it"};
  }

  Status Start(const AgentOrders::StartProcess& start) {
    const JobAccess& access = access_.at(start.id.job);
    LEAT_RETURN_IF_ERROR(Prepare(access));
    const std::string name =
        std::string(fields::NameOf(start.id.role)) +
        (start.id.role == ProcessRole::kCoordinator ? "" : "-" + std::to_string(start.id.index));
    launcher::ProcessSpec spec = SpecFor(access, name);
    Local local;
    local.id = start.id;
    net::Descriptor writes;
    const std::string data = access.payload.data.empty() ? options_.data : access.payload.data;
    if (start.id.role == ProcessRole::kCoordinator) {
      std::array<int, 2> ready{};
      if (pipe2(ready.data(), 0) != 0)
        return {Code::kResourceExhausted, std::string("cannot create a pipe: ") + std::strerror(errno)};
      local.ready = net::Descriptor(ready[0]);
      writes = net::Descriptor(ready[1]);
      fcntl(ready[0], F_SETFD, FD_CLOEXEC);
      fcntl(ready[0], F_SETFL, O_NONBLOCK);
      spec.arguments = CoordinatorArguments(access, start, ready[1]);
      if (!data.empty()) spec.arguments.insert(spec.arguments.end(), {"--data", data});
    } else {
      spec.arguments = {std::string(fields::NameOf(start.id.role)), "--coordinator", start.coordinator,
                        "--listen", options_.host + ":0"};
      spec.environment["OMP_NUM_THREADS"] = "1";
    }
    LEAT_ASSIGN_OR_RETURN(local.pid, processes_.Start(spec));
    spdlog::info("job {}: {} started, as process {}", start.id.job, name, local.pid);
    locals_[start.id.number] = std::move(local);
    return {};
  }

  // A new address for a coordinator. A coordinator that dies is started again at its address, so the port
  // lies below the range that the system gives to connections.
  std::string NewAddress() {
    uint32_t most = 32'768;
    std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> most;
    constexpr uint32_t kLeast = 10'000;
    for (int attempt = 0; attempt < 100 && most > kLeast; ++attempt) {
      std::string address = options_.host + ":" + std::to_string(kLeast + random_() % (most - kLeast));
      const auto found = net::Resolve(address);
      if (!found.ok() || found->empty()) break;
      const net::SocketAddress& first = found->front();
      const net::Descriptor probe(socket(first.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (probe.get() >= 0 && bind(probe.get(), first.get(), first.size) == 0) return address;
    }
    return options_.host + ":0";
  }

  std::vector<std::string> CoordinatorArguments(const JobAccess& access,
                                                const AgentOrders::StartProcess& start, int ready) {
    const std::string directory = Folder("jobs", access.job) + "/run";
    std::vector<std::string> arguments = {
        "coordinator",         "--pool",   "--ready-fd",
        std::to_string(ready), "--listen", start.coordinator.empty() ? NewAddress() : start.coordinator};
    const auto add = [&](std::initializer_list<std::string> more) {
      arguments.insert(arguments.end(), more);
    };
    const std::string job_file = Folder("secrets", access.job) + "/job.yaml";
    std::error_code ignored;
    if (!start.bucket.empty()) {  // it has gone on elsewhere since, if it has ever been here
      fs::remove_all(directory, ignored);
      add({"--resume", start.bucket, "--directory", directory, job_file});
    } else if (fs::exists(directory + "/job.yaml", ignored)) {  // it has begun here
      add({"--resume", directory});
      if (!start.again) add({"--new-members"});
    } else {
      // A coordinator that died at once has left files that are no job yet.
      fs::remove_all(directory, ignored);
      add({"--directory", directory, "--workers", access.payload.workers, "--ps",
           std::to_string(access.servers), job_file});
    }
    return arguments;
  }

  void StartBots(Local* local) {
    const JobAccess& access = access_.at(local->id.job);
    launcher::ProcessSpec spec = SpecFor(access, "bots");
    spec.arguments = {"bots", "--coordinator", local->address};
    const auto pid = processes_.Start(spec);
    if (pid.ok()) {
      local->bots = *pid;
      return;
    }
    spdlog::error("job {}: {}", local->id.job, pid.status().message());
    StartBotsLater(local);
  }

  const AgentOptions& options_;
  std::random_device random_;
  const uint64_t instance_;
  const MonotonicClock clock_;
  std::atomic<bool> stopped_{false};
  launcher::Processes processes_;
  const std::unique_ptr<control::ControlClient> pool_;
  std::map<uint64_t, Local> locals_;  // by number
  std::map<JobId, JobAccess> access_;
  std::map<JobId, int64_t> renewals_;  // when to ask for new certificates, in seconds since 1970
  std::vector<AgentReport::Ended> ended_;
  std::set<uint64_t> started_;  // with processes whose end the pool does not know yet
  uint64_t sequence_ = 0, events_ = 0;
  bool heard_ = false;
  std::optional<Time> silent_since_;
  std::optional<Status> probed_;  // state of the directory, probed since the last Reap
  std::string complaint_;         // the last failure of a report
  std::string pool_id_;           // empty: no pool has answered yet
  launcher::SignalWatch signals_;
};

}  // namespace

Status RunAgent(const AgentOptions& options) {
  return Agent(options).Run();
}

}  // namespace leat::pool
