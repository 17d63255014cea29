// leat pool, agent, submit, jobs, cancel: several jobs on one pool of hosts.
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/exit_status.h"
#include "base/json/text.h"
#include "base/path/paths.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "job/job.h"
#include "net/address.h"
#include "net/rpc/client.h"
#include "net/security/private_file.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/launcher/start/start_job.h"
#include "run/pool/agent.h"
#include "run/pool/messages_json.h"
#include "run/pool/pool_server.h"
#include "storage/checkpoint/file.h"
#include "storage/object_store/object_store.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using PoolKind = protocol::PoolRequest::Kind;

struct PoolArguments {
  std::string pool, directory, listen = "127.0.0.1:0";
  SecurityOptions security;
  int ready_fd = -1;
  // Options of an agent.
  pool::AgentOptions agent;
  double cores = 0, memory = 0;  // memory in MB
  // Options of a job.
  std::string file, access;
  job::JobOverrides overrides;
  pool::SubmitRequest request;
  uint32_t least_workers = 0;
  double coordinator_cores = 0.1, server_cores = 0.5, worker_cores = 1;
  double coordinator_memory = 256, server_memory = 256, worker_memory = 256;
  pool::CancelRequest cancel;
  pool::ListRequest list;
  bool json = false;
};

pool::Resources ResourcesOf(double cores, double megabytes) {
  return {static_cast<uint64_t>(std::llround(cores * 1000)),
          static_cast<uint64_t>(std::llround(megabytes * 1e6))};
}

int RunPoolCommand(const PoolArguments& a) {
  launcher::BlockSignals();
  const launcher::Security security = a.security.Read();
  ThrowIfError(launcher::CheckListen(security, a.listen));
  pool::PoolOptions options;
  options.directory = AbsolutePathOrThrow(a.directory);
  options.listen = a.listen;
  options.token = OrThrow(launcher::UserToken());
  options.tls = security.tls;
  options.on_ready = [&a](const std::string& address) { (void)launcher::SayReady(a.ready_fd, address); };
  return PrintOutcome(pool::RunPool(options));
}

int RunAgentCommand(PoolArguments a) {
  launcher::BlockSignals();
  pool::AgentOptions& options = a.agent;
  const launcher::Security security = a.security.Read();
  ThrowIfError(launcher::CheckListen(security, options.host + ":0"));
  ThrowIfError(net::ParseAddress(a.pool).status());
  if (a.cores == 0) a.cores = get_nprocs();
  if (a.memory == 0) {
    struct sysinfo info {};
    if (sysinfo(&info) == 0) a.memory = static_cast<double>(info.totalram) * info.mem_unit * 0.9 / 1e6;
  }
  options.pool = a.pool;
  options.token = OrThrow(launcher::UserToken());
  options.tls = security.tls;
  options.trusted_network = security.trusted_network;
  if (options.name.empty()) options.name = net::HostName();
  RefuseIf(options.name.empty() || options.name.size() > 200,
           "the agent needs a name of 1 to 200 characters (--name)");
  options.offer = ResourcesOf(a.cores, a.memory);
  options.directory = AbsolutePathOrThrow(a.directory);
  if (!options.data.empty()) options.data = AbsolutePathOrThrow(options.data);
  return PrintOutcome(pool::RunAgent(options));
}

// Throws std::invalid_argument with the pool's error.
std::string Ask(const PoolArguments& a, PoolKind kind, const std::string& body) {
  const auto client = control::ControlClient::Make(a.pool, OrThrow(launcher::UserToken()),
                                                   a.security.Read().tls, pool::PoolPort());
  auto reply = OrThrow(client->Call(protocol::PoolRequest{kind, body}, std::chrono::seconds(10)));
  auto* said = std::get_if<protocol::PoolReply>(&reply);
  RefuseIf(said == nullptr, a.pool + " is no pool");
  ThrowIfError(said->status);
  return std::move(said->body);
}

// Only its owner can read the files.
void WriteAccess(const PoolArguments& a, pool::JobId job) {
  RefuseIf(fs::exists(a.access) && !fs::is_empty(a.access), "--access: " + a.access + " has files already");
  const auto access =
      OrThrow(pool::FromJson<pool::UserAccess>(Ask(a, PoolKind::kAccess, ToJson(pool::JobNumber{job}))));
  ThrowIfError(checkpoint::MakeDirectory(a.access));
  const auto write = [&](const char* name, const std::string& text) {
    if (!text.empty()) ThrowIfError(checkpoint::ReplaceFile(a.access, name, AsBytes(text)));
  };
  write("token", access.token + "\n");
  write("ca.pem", access.admin.ca);
  write("cert.pem", access.admin.certificate);
  write("key.pem", access.admin.key);
}

int Submit(const PoolArguments& a) {
  const job::Job job = job::Job::Load({.file = a.file}, a.overrides);
  ThrowIfError(pool::CheckJob(job));

  pool::SubmitRequest request = a.request;
  request.spec.name = job.name;
  request.spec.resources = {ResourcesOf(a.coordinator_cores, a.coordinator_memory),
                            ResourcesOf(a.server_cores, a.server_memory),
                            ResourcesOf(a.worker_cores, a.worker_memory)};
  pool::HostClasses& classes = request.spec.classes;
  if (classes.server.empty()) classes.server = job.topology.server_class;
  if (classes.worker.empty()) classes.worker = job.topology.worker_class;
  request.spec.servers = job.servers;
  request.spec.least_workers = a.least_workers > 0 ? a.least_workers : job.workers;
  request.spec.workers = job.workers;
  RefuseIf(!job.strategy.on_servers() && request.spec.least_workers < 2,
           "--min-workers: allreduce needs 2 or more workers");
  ThrowIfError(Check(request.spec));
  request.payload.file = OrThrow(net::ReadPublicFile(a.file));
  request.payload.data = a.overrides.data.empty() ? "" : AbsolutePathOrThrow(a.overrides.data);
  request.payload.workers = ToString(protocol::WorkerRange{job.workers, job.max_workers});
  request.payload.bots = job.stream->bots() != nullptr;
  if (job.checkpoint_to) {
    // Another host has neither files of this one nor the embedded log.
    if (job.stream->traits().remote) request.spec.bucket = object_store::Location(*job.checkpoint_to);
    for (const char* variable : pool::kSentVariables) {
      if (const char* value = std::getenv(variable)) request.payload.environment[variable] = value;
    }
  }
  const auto made = OrThrow(pool::FromJson<pool::JobNumber>(Ask(a, PoolKind::kSubmit, ToJson(request))));
  if (!a.access.empty()) WriteAccess(a, made.job);
  std::printf("%llu\n", static_cast<unsigned long long>(made.job));
  return 0;
}

std::string Text(const Json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end()) return "";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

int List(const PoolArguments& a) {
  const std::string body = Ask(a, PoolKind::kList, ToJson(a.list));
  if (a.json) {
    std::printf("%s\n", body.c_str());
    return 0;
  }
  const Json all = ParsedOrderedJson(body);
  RefuseIf(!all.is_object(), "the pool's answer cannot be read");
  std::printf("%-5s %-20s %-10s %8s %6s %7s %6s %7s %3s %12s  %s\n", "job", "name", "state", "priority",
              "share", "cores", "fair", "workers", "ps", "events", "");
  for (const Json& job : all.value("jobs", Json::array())) {
    const std::string why = job.contains("reason")      ? Text(job, "reason")
                            : job.contains("waits_for") ? "waits for " + Text(job, "waits_for")
                                                        : Text(job, "coordinator");
    std::printf("%-5s %-20s %-10s %8s %6s %7.2f %6.2f %7s %3s %12s  %s\n", Text(job, "job").c_str(),
                Text(job, "name").c_str(), Text(job, "state").c_str(), Text(job, "priority").c_str(),
                Text(job, "share").c_str(), job.value("cores", 0.0), job.value("fair_cores", 0.0),
                Text(job, "workers").c_str(), Text(job, "ps").c_str(), Text(job, "events").c_str(),
                why.c_str());
  }
  for (const Json& agent : all.value("agents", Json::array())) {
    const std::string left_out = Text(agent, "left_out");
    std::printf("agent %s on %s: %.6g of %.6g cores and %.6g of %.6g MB are free%s%s\n",
                Text(agent, "agent").c_str(), Text(agent, "host").c_str(), agent.value("free_cores", 0.0),
                agent.value("cores", 0.0), agent.value("free_memory", 0.0) / 1e6,
                agent.value("memory", 0.0) / 1e6, agent.value("lost", false) ? "; it does not answer" : "",
                left_out.empty() ? "" : ("; it " + left_out).c_str());
  }
  if (const auto more = all.find("left_out"); more != all.end())
    std::printf("%s more jobs and %s more agents are not shown\n", Text(*more, "jobs").c_str(),
                Text(*more, "agents").c_str());
  return 0;
}

}  // namespace

void AddPoolCommands(CLI::App& app, int* result) {
  const auto a = std::make_shared<PoolArguments>();
  const auto add = [&](const char* name, const char* what, std::function<int()> run) {
    auto* command = app.add_subcommand(name, what);
    AddSecurity(command, &a->security);
    command->callback([result, run = std::move(run)] { *result = run(); });
    return command;
  };
  const auto add_pool = [&](CLI::App* command) {
    command->add_option("--pool", a->pool, "address of the pool, HOST:PORT")->required();
  };

  auto* pool = add("pool", "share hosts among several jobs", [a] { return RunPoolCommand(*a); });
  pool->add_option("--directory", a->directory, "directory of the pool, for the jobs that are submitted")
      ->required();
  pool->add_option("--listen", a->listen, "address that the pool listens on; port 0: any free port")
      ->capture_default_str();
  AddDescriptors(pool, &a->ready_fd);

  auto* agent = add("agent", "offer this host to a pool", [a] { return RunAgentCommand(*a); });
  add_pool(agent);
  agent->add_option("--directory", a->directory, "directory for what the jobs keep on this host")->required();
  agent->add_option("--name", a->agent.name, "name of this agent in the pool (default: the host's)");
  agent->add_option("--host", a->agent.host, "name or address of this host for others")
      ->capture_default_str();
  AddNumber(agent, "--cores", &a->cores, "cores that it offers (default: all)", 0.001, 1e5);
  AddNumber(agent, "--memory", &a->memory, "memory that it offers, in MB (default: 9/10 of all)", 1, 1e9);
  agent->add_option("--class", a->agent.host_class, "class of this host, for jobs that want one")
      ->envname("LEAT_CLASS")
      ->check(CLI::Validator(
          [](const std::string& name) {
            return name.empty() || name.size() > 64 ? "it has 1 to 64 characters" : "";
          },
          ""));
  AddData(agent, &a->agent.data, "directory of the jobs' input files (default: what leat submit says)");
  AddNumber(agent, "--first-user", &a->agent.first_user,
            "where the agent is root: the user of job N has this number plus N", 1000, 4'000'000'000);

  auto* submit = add("submit", "queue a job in a pool, and print its number", [a] { return Submit(*a); });
  add_pool(submit);
  submit->add_option("job", a->file, "job file (YAML)")->required();
  submit->add_option("--priority", a->request.spec.priority, "jobs of a higher priority come first")
      ->capture_default_str();
  submit->add_option("--share", a->request.spec.share, "weight among jobs of the same priority")
      ->capture_default_str();
  AddWorkers(submit, &a->overrides.workers, &a->overrides.max_workers,
             "number of workers, or a range for the autoscaler, MIN:MAX (default: the job's)");
  submit->add_option("--min-workers", a->least_workers,
                     "the job does not run with fewer workers (default: the least of --workers)");
  submit->add_option("--ps", a->overrides.servers, "number of parameter servers (default, or 0: the job's)");
  AddData(submit, &a->overrides.data, "directory of the job's input files, on each host");
  AddNumber(submit, "--coordinator-cores", &a->coordinator_cores, "cores of the coordinator", 0, 1e6);
  AddNumber(submit, "--ps-cores", &a->server_cores, "cores of a server", 0, 1e6);
  AddNumber(submit, "--worker-cores", &a->worker_cores, "cores of a worker", 0, 1e6);
  AddNumber(submit, "--coordinator-memory", &a->coordinator_memory, "memory of the coordinator, in MB", 0,
            1e6);
  AddNumber(submit, "--ps-memory", &a->server_memory, "memory of a server, in MB", 0, 1e6);
  AddNumber(submit, "--worker-memory", &a->worker_memory, "memory of a worker, in MB", 0, 1e6);
  submit->add_option("--coordinator-class", a->request.spec.classes.coordinator,
                     "class of the coordinator's host (default: any)");
  submit->add_option("--ps-class", a->request.spec.classes.server,
                     "class of the servers' hosts (default: topology: servers of the job, or any)");
  submit->add_option("--worker-class", a->request.spec.classes.worker,
                     "class of the workers' hosts (default: topology: workers of the job, or any)");
  submit->add_flag("--wait", a->request.wait, "queue the job even if no agents of now could run it");
  submit->add_option(
      "--access", a->access,
      "new folder for the job's token and a certificate for the role admin, for leat status and others");

  auto* jobs = add("jobs", "show the jobs and agents of a pool", [a] { return List(*a); });
  add_pool(jobs);
  jobs->add_flag("--json", a->json, "print one JSON object");
  jobs->add_option("--over", a->list.over, "of the jobs that are over, so many of the newest")
      ->capture_default_str();

  auto* cancel = add("cancel", "end a job of a pool, with a checkpoint", [a] {
    Ask(*a, PoolKind::kCancel, ToJson(a->cancel));
    return 0;
  });
  add_pool(cancel);
  cancel->add_option("job", a->cancel.job, "number of the job")->required();
  cancel->add_flag("--discard", a->cancel.discard,
                   "do not write the checkpoint: what was trained since the last one is lost");
}

}  // namespace leat
