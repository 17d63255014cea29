#include "cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <variant>

#include "frame/session.h"

namespace leat::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kPoll = 20ms;
constexpr double kStart = 60, kEnd = 120;  // seconds

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The largest difference between `value` and a number in the F32 tensors of a shard.
double WorstIn(const fs::path& shard, double value) {
  std::ifstream in(shard, std::ios::binary);
  uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string head(in ? length : 0, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  const Json tensors = Json::parse(head, nullptr, false);
  if (!in || tensors.is_discarded()) Fail("cannot read " + shard.string());
  double worst = 0;
  for (const auto& [name, tensor] : tensors.items()) {
    if (name == "__metadata__" || tensor.at("dtype") != "F32") continue;
    const auto begin = tensor.at("data_offsets").at(0).get<uint64_t>();
    const auto end = tensor.at("data_offsets").at(1).get<uint64_t>();
    std::vector<float> numbers((end - begin) / sizeof(float));
    in.seekg(static_cast<std::streamoff>(sizeof length + length + begin));
    in.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(end - begin));
    if (!in) Fail("cannot read " + shard.string());
    for (const float x : numbers) worst = std::max(worst, std::abs(double{x} - value));
  }
  return worst;
}

std::map<pid_t, Json> Select(const Json& status, const std::string& role, bool standby) {
  std::map<pid_t, Json> found;
  for (const auto& member : status.value("members", Json::array())) {
    const bool stands_by = member.value("state", "") == "standby";
    if (member.value("role", "") == role && stands_by == standby && member.contains("pid"))
      found[member.at("pid").get<pid_t>()] = member;
  }
  return found;
}

}  // namespace

std::string CountingJob::Write(const Scratch& scratch, const std::string& name) const {
  std::ofstream stream(scratch / (name + ".csv"));
  std::string fields, ones;
  for (int i = 0; i < std::max(inputs, 1); ++i) {
    fields += "x" + std::to_string(i) + ": {type: number}, ";
    ones += "1,";
  }
  for (int i = 0; i < rows(); ++i) stream << ones << i % 2 << "\n";
  std::ofstream file(scratch / (name + ".yaml"));
  file << "name: " << name << "\nseed: 1\nstream:\n  epochs: " << epochs
       << "\n  files: {format: csv, paths: [\"" << scratch / (name + ".csv")
       << "\"], partitions: " << kPartitions
       << ", header: false}\n"
          "schema:\n  format: csv\n  delimiter: \",\"\n"
          "  fields: {"
       << fields << "y: {type: number, role: label}}\nmodel:\n  layers:\n    - "
       << (inputs > 0 ? "dense" : "bias") << ": {units: " << units << (inputs > 0 ? ", init: zeros" : "")
       << "}\n  loss: {type: negative_sum, reduction: sum}\n"
          "optimizer: {type: sgd, learning_rate: 1}\n"
       << "strategy: " << strategy << "\ntrain: {batch_size: " << batch_size
       << ", split_batches: " << split_batches << "}\ncluster: {workers: " << workers;
  if (standby > 0) file << ", standby: " << standby;
  if (!strategy.starts_with("allreduce") && !strategy.starts_with("{type: allreduce")) {
    file << ", ps: " << servers << ", max_ps: " << max_servers << ", placement: partitioned";
    if (replicas > 1) file << ", replicas: " << replicas;
  }
  file << ", heartbeat_interval_s: " << heartbeat_s << "}\ncheckpoint: {interval_s: " << checkpoint_s
       << "}\n";
  if (step_ms > 0) file << "debug: {step_ms: " << step_ms << "}\n";
  if (!stream.flush() || !file.flush()) Fail("cannot write the job " + name);
  return scratch / (name + ".yaml");
}

double WorstCount(const std::string& directory, double events) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const bool damaged = entry.path().extension() == ".damaged";  // kept aside
    if (!damaged && fs::exists(entry.path() / "manifest.json")) newest = std::max(newest, entry.path());
  }
  if (newest.empty()) Fail("there is no checkpoint in " + directory);
  double worst = 0;
  bool any = false;
  for (const auto& entry : fs::directory_iterator(newest)) {
    if (entry.path().extension() != ".safetensors") continue;
    any = true;
    worst = std::max(worst, WorstIn(entry.path(), events));
  }
  if (!any) Fail("there is no shard in " + newest.string());
  return worst;
}

std::optional<Json> StatusOf(control::ControlClient& client, std::chrono::milliseconds deadline) {
  const auto reply = client.Call(protocol::StatusRequest{}, deadline);
  if (!reply.ok()) return std::nullopt;
  auto status = Json::parse(std::get<protocol::StatusReply>(*reply).json, nullptr, false);
  if (status.is_discarded()) return std::nullopt;
  return status;
}

std::string FreeAddress() {
  const int socket_handle = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = bind(socket_handle, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(socket_handle, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(socket_handle);
  if (!bound) Fail("there is no free port");
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

Cluster::Cluster(const Scratch& scratch, const std::string& name, const CountingJob& job)
    : scratch_(scratch), name_(name), directory_(scratch / name) {
  const std::string file = job.Write(scratch, name);
  addresses_ = {FreeAddress()};
  coordinator_ = std::make_unique<Running>(
      std::vector<std::string>{"coordinator", file, "--directory", directory_, "--listen", addresses_[0]},
      scratch_ / (name_ + "-coordinator.log"));
  client_ = control::ControlClient::Make(addresses_[0], kToken);
  WaitFor(
      "the coordinator did not start", [](const Json&) { return true; }, kStart);
}

Running& Cluster::Launch(const std::string& name, const std::vector<std::string>& arguments) {
  auto process = std::make_unique<Running>(
      arguments, scratch_ / (name_ + "-" + name + "-" + std::to_string(started_++) + ".log"));
  const pid_t pid = process->pid();
  return *(roles_[pid] = std::move(process));
}

Running& Cluster::Start(const std::string& role, bool standby) {
  std::vector<std::string> arguments{role, "--coordinator", addresses()};
  if (standby) arguments.push_back("--standby");
  return Launch(role, arguments);
}

void Cluster::RestartCoordinator() {
  coordinator_ = std::make_unique<Running>(
      std::vector<std::string>{"coordinator", "--resume", directory_, "--listen", addresses_[0]},
      scratch_ / (name_ + "-coordinator-" + std::to_string(started_++) + ".log"));
}

std::string Cluster::StartStandbyCoordinator() {
  const std::string address = FreeAddress();
  standby_coordinator_ =
      std::make_unique<Running>(std::vector<std::string>{"coordinator", "--standby", addresses_[0],
                                                         "--resume", directory_, "--listen", address},
                                scratch_ / (name_ + "-standby-" + std::to_string(started_++) + ".log"));
  addresses_.push_back(address);
  client_->AddAddresses({address});
  return address;
}

void Cluster::Kill(pid_t pid) {
  const auto process = roles_.extract(pid);
  if (process.empty()) Fail("process " + std::to_string(pid) + " is none of this job's");
  kill(pid, SIGKILL);
  process.mapped()->Wait();
}

void Cluster::KillCoordinator() {
  kill(coordinator_->pid(), SIGKILL);
  coordinator_->Wait();
  if (standby_coordinator_ == nullptr) return;
  coordinator_ = std::move(standby_coordinator_);
  addresses_.erase(addresses_.begin());
}

void Cluster::Terminate(pid_t pid) {
  if (roles_.count(pid) == 0) Fail("process " + std::to_string(pid) + " is none of this job's");
  kill(pid, SIGTERM);
}

std::string Cluster::OutputOf(pid_t pid) const {
  const auto process = roles_.find(pid);
  if (process == roles_.end()) Fail("process " + std::to_string(pid) + " is none of this job's");
  return process->second->Output();
}

std::string Cluster::addresses() const {
  std::string all;
  for (const auto& address : addresses_) all += (all.empty() ? "" : ",") + address;
  return all;
}

// A role that has left has ended with status 0.
void Cluster::CheckAlive() {
  CheckInterrupted();
  if (!coordinator_->alive()) Fail("the coordinator has ended: " + coordinator_->Output());
  for (auto& [pid, process] : roles_) {
    if (!process->alive() && process->Wait() != 0) Fail("a role has ended: " + process->Output());
  }
  std::erase_if(roles_, [](auto& role) { return !role.second->alive(); });
}

void Cluster::WaitFor(const std::string& what, const std::function<bool(const Json&)>& condition,
                      double seconds) {
  const auto start = Clock::now();
  while (true) {
    CheckAlive();
    const auto status = StatusOf(*client_, 1s);
    if (status && condition(*status)) return;
    if (SecondsSince(start) > seconds) {
      Fail(what + " within " + std::to_string(std::lround(seconds)) +
           " s: " + (status ? status->dump() : coordinator_->Output()));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

Json Cluster::Status() {
  auto status = StatusOf(*client_, 10s);
  if (!status) Fail("the coordinator does not answer: " + coordinator_->Output());
  return *std::move(status);
}

Json Cluster::WaitForEnd(double seconds) {
  const auto start = Clock::now();
  while (coordinator_->WaitFor(0.5)) {
    CheckInterrupted();
    if (SecondsSince(start) > seconds) Fail("the job does not end: " + coordinator_->Output());
  }
  if (coordinator_->Wait() != 0) Fail("the job has failed: " + coordinator_->Output());
  std::ifstream in(directory_ + "/summary.json");
  const Json summary = Json::parse(in, nullptr, false);
  if (summary.is_discarded()) Fail("there is no summary in " + directory_);
  return summary;
}

void Cluster::Command(const protocol::AdminRequest& request) {
  const auto reply = client_->Call(request, 2min);
  const auto* obeyed = reply.ok() ? std::get_if<protocol::AdminReply>(&*reply) : nullptr;
  if (obeyed == nullptr || !obeyed->status.ok())
    Fail("the coordinator does not obey a command: " + coordinator_->Output());
}

void Cluster::Want(std::optional<uint32_t> workers, std::optional<uint32_t> servers) {
  protocol::AdminRequest request{.kind = protocol::AdminRequest::Kind::kScale, .servers = servers};
  if (workers) request.workers = {*workers, *workers};
  Command(request);
}

Json Cluster::Stop() {
  Command({.kind = protocol::AdminRequest::Kind::kStop});
  return WaitForEnd(kEnd);
}

std::map<pid_t, Json> WorkersIn(const Json& status, bool standby) {
  return Select(status, "worker", standby);
}

std::map<pid_t, Json> ServersIn(const Json& status) {
  return Select(status, "ps", false);
}

double StepsIn(const Json& status) {
  return status.value("steps", 0.0);
}

}  // namespace leat::bench
