#include "lab/study/profile.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/fields/json.h"
#include "base/json/text.h"
#include "base/path/paths.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "compute/engine/devices/devices.h"
#include "compute/optim/init.h"
#include "net/frames/frame.h"
#include "net/transports.h"
#include "protocol/parameters.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"
#include "run/roles/input/split_loader.h"
#include "run/roles/role.h"
#include "train/ps/client.h"
#include "train/ps/server_shell.h"
#include "train/step/trainer.h"

namespace leat::study {

namespace {

constexpr uint32_t kFormat = 1;
constexpr size_t kMaxBytes = 1 << 20;

struct ProfileFile {
  uint32_t leat_profile = kFormat;
  Profile profile;
};
LEAT_FIELDS(ProfileFile, (leat_profile), (profile, Flat));
struct AnyProfileFile {
  std::optional<uint32_t> leat_profile;
};
LEAT_FIELDS(AnyProfileFile, (leat_profile));

constexpr NodeId kServer(1), kWorker(2);
constexpr Incarnation kIncarnation(1);
constexpr Generation kGeneration(1);
constexpr uint32_t kBatchesOfCut = 1 << 12;
constexpr Duration kAnswerWithin = std::chrono::seconds(30);
constexpr size_t kLeastBatches = 8, kMostBatches = 500;
constexpr int kGradientBatches = 5;  // batches timed up to their first gradient
// The largest message of the test of a link, and how long an exchange of it should take.
constexpr uint64_t kMostLinkBytes = uint64_t{64} << 20;
constexpr double kLinkSeconds = 1;
constexpr double kMostSeconds = 1e6;

double Now() {
  return Seconds(MonotonicClock().Now());
}

double ThreadSeconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::string ProcessorName() {
  std::ostringstream cpuinfo;
  cpuinfo << std::ifstream("/proc/cpuinfo").rdbuf();
  const std::string model = engine::CpuModel(cpuinfo.str());
  return model.empty() ? "unknown processor" : model;
}

// ---- messages

protocol::ServerHeartbeatReply OrdersFor(const protocol::SliceTable& table) {
  protocol::ServerHeartbeatReply orders;
  protocol::View& view = orders.view.emplace();
  view.generation = kGeneration;
  view.members = {{.node = kServer, .role = protocol::Role::kServer},
                  {.node = kWorker, .role = protocol::Role::kWorker}};
  orders.start = {{}};
  for (uint32_t i = 0; i < table.slices.size(); ++i) {
    view.slices.push_back({kServer, kIncarnation, true});
    orders.orders.push_back({.slice = SliceId(i), .incarnation = kIncarnation});
  }
  return orders;
}

// A server with all slices.
struct ServerParts {
  ServerParts(const protocol::ServerConfig& config, net::TransportOptions options)
      : transport(net::MakeTcpTransport(loop, std::move(options))), shell(loop, config) {
    shell.machine().OnJoined(kServer);
    shell.OnHeartbeatReply(OrdersFor(config.table));
  }
  Status Listen(const std::string& address) {
    LEAT_ASSIGN_OR_RETURN(listener,
                          transport->Listen(address, [this](std::unique_ptr<net::Connection> connection) {
                            return shell.Adopt(std::move(connection));
                          }));
    return Status();
  }
  net::Loop loop;
  std::unique_ptr<net::Transport> transport;
  ps::ServerShell shell;
  std::unique_ptr<net::Listener> listener;
};

// The same on a thread of its own.
class ServerThread {
 public:
  ServerThread(const protocol::ServerConfig& config, const net::TransportOptions& options)
      : parts_(config, options), status_(parts_.Listen("127.0.0.1:0")) {
    thread_ = StartThread([this] { parts_.loop.Run(); });
  }
  ~ServerThread() {
    parts_.loop.Stop();
    thread_.join();
  }
  const Status& status() const { return status_; }
  const std::string& address() const { return parts_.listener->address(); }
  double CpuSeconds() {
    clockid_t clock = 0;
    pthread_getcpuclockid(thread_.native_handle(), &clock);
    return ThreadSeconds(clock);
  }

 private:
  ServerParts parts_;
  const Status status_;
  std::thread thread_;
};

// A worker that pushes to one server.
class Pusher {
 public:
  Pusher(const protocol::SliceTable& table, net::TransportOptions options, std::string address)
      : address_(std::move(address)),
        transport_(net::MakeTcpTransport(loop_, std::move(options))),
        parameters_(table),
        client_(*transport_, parameters_,
                {.on_reply = [this](NodeId, const protocol::PushReply& reply) { answered_ = reply.sequence; },
                 .on_failed = [this](NodeId, uint64_t, const Status& why) { failed_ = why; }}) {}

  // Pushes the first `slices` slices and waits for the reply, which has their values.
  Status Exchange(size_t slices) {
    auto request = std::make_shared<protocol::PushRequest>();
    request->sequence = ++sequence_;
    request->worker = kWorker;
    request->generation = kGeneration;
    request->disposition = protocol::Disposition::kGradient;
    request->want_values = true;
    request->cut.begin.offset = sequence_ / kBatchesOfCut * kBatchesOfCut;
    request->cut.after = request->cut.begin;
    request->cut.end = request->cut.begin.offset + kBatchesOfCut;
    request->cut.batch_size = 1;
    request->run = static_cast<uint32_t>(sequence_ % kBatchesOfCut);
    request->events = 1;
    for (uint32_t i = 0; i < slices; ++i) request->slices.push_back({SliceId(i), kIncarnation, sequence_});
    client_.Send({.server = kServer, .address = address_, .request = std::move(request)});
    const Time deadline = loop_.Now() + kAnswerWithin;
    const net::Loop::BusyPoll poll(loop_);
    loop_.RunUntil([this] { return answered_ == sequence_ || !failed_.ok(); }, deadline);
    if (!failed_.ok()) return failed_;
    return answered_ == sequence_ ? Status() : Status(Code::kDeadlineExceeded, address_ + " does not answer");
  }

 private:
  net::Loop loop_;
  std::string address_;
  std::unique_ptr<net::Transport> transport_;
  protocol::Parameters parameters_;
  ps::Client client_;
  uint64_t sequence_ = 0, answered_ = 0;
  Status failed_;
};

uint64_t BytesOf(const protocol::SliceTable& table, size_t slices) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < slices; ++i) bytes += table.slices[i].elements() * sizeof(float);
  return bytes;
}

struct Exchanges {
  double server_s = 0, worker_s = 0, wall_s = 0;  // means for one exchange
};

// `server`: null if it is on another host.
Result<Exchanges> Measure(Pusher* pusher, ServerThread* server, size_t slices, double seconds) {
  for (int i = 0; i < 3; ++i) LEAT_RETURN_IF_ERROR(pusher->Exchange(slices));
  const auto cpu = [server] {
    return std::pair(server != nullptr ? server->CpuSeconds() : 0, ThreadSeconds(CLOCK_THREAD_CPUTIME_ID));
  };
  const auto [server_begin, worker_begin] = cpu();
  const double begin = Now();
  int count = 0;
  do {
    LEAT_RETURN_IF_ERROR(pusher->Exchange(slices));
    ++count;
  } while (Now() - begin < seconds);
  const auto [server_end, worker_end] = cpu();
  return Exchanges{(server_end - server_begin) / count, (worker_end - worker_begin) / count,
                   (Now() - begin) / count};
}

Status MeasureMessages(const job::Job& job, double seconds, Profile* profile) {
  protocol::ServerConfig config = job.ServerConfig();
  config.strategy = {};
  config.modelled = false;
  net::TransportOptions options;
  options.token = launcher::RandomToken();
  ServerThread server(config, options);
  LEAT_RETURN_IF_ERROR(server.status());
  Pusher pusher(config.table, options, server.address());
  const size_t all = config.table.slices.size();
  LEAT_ASSIGN_OR_RETURN(const Exchanges small, Measure(&pusher, &server, 1, seconds));
  LEAT_ASSIGN_OR_RETURN(const Exchanges large, Measure(&pusher, &server, all, seconds));
  const uint64_t small_bytes = BytesOf(config.table, 1), large_bytes = BytesOf(config.table, all);
  profile->server = CostOf(small_bytes, small.server_s, large_bytes, large.server_s);
  // A worker sends as much as it receives. It waits for the server by polling, which is not its cost: what it
  // does in this time is at most the same as on a server, and no more than all the time it was not waiting.
  profile->worker = CostOf(small_bytes, std::min(small.worker_s, small.server_s) / 2, large_bytes,
                           std::min(large.worker_s, large.server_s) / 2);
  // A piece is received, added and sent on, as a push is received, applied and answered.
  profile->member = profile->server;
  return Status();
}

// ---- a link

protocol::ServerConfig LinkServer() {
  protocol::ServerConfig config;
  std::vector<optim::VariableSpec> variables{{"least", Shape{1}, {}}};
  constexpr int64_t kElements = int64_t{1} << 18;
  for (uint64_t i = 0; i < kMostLinkBytes / (kElements * sizeof(float)); ++i)
    variables.push_back({"v" + std::to_string(i), Shape{kElements}, {}});
  config.table = protocol::MakeSlices(std::move(variables), 1, 1);
  config.optimizer.learning_rate = 0;
  return config;
}

net::TransportOptions LinkOptions(const std::string& token, const launcher::Security& security) {
  net::TransportOptions options;
  options.token = token;
  options.tls = security.tls;
  options.port = wire::ServerPort();
  return options;
}

Status MeasureLink(const CalibrationOptions& options, Profile* profile) {
  const protocol::ServerConfig config = LinkServer();
  Pusher pusher(config.table, LinkOptions(options.token, options.security), options.to);
  LEAT_ASSIGN_OR_RETURN(const Exchanges least, Measure(&pusher, nullptr, 1, options.seconds));
  // Grows until an exchange takes long; the first bytes may pass a token bucket at once.
  const size_t all = config.table.slices.size();
  size_t slices = std::min<size_t>(all, 2);
  double took = 0, before_took = 0;
  size_t before = 0;
  for (;; slices = std::min(all, slices * 2)) {
    // The better of two: the first one may open tcp's windows, or lose a packet.
    took = kMostSeconds;
    for (int i = 0; i < 2; ++i) {
      const double begin = Now();
      LEAT_RETURN_IF_ERROR(pusher.Exchange(slices));
      took = std::min(took, Now() - begin);
    }
    if (slices == all || took >= kLinkSeconds) break;
    before = slices;
    before_took = took;
  }
  const auto bytes = static_cast<double>(BytesOf(config.table, slices) - BytesOf(config.table, before));
  const double messages = profile->server.message_s + 2 * profile->worker.message_s;
  profile->link = LinkProfile{.to = options.to,
                              .bytes_per_s = 2 * bytes / std::max(1e-6, took - before_took),
                              .latency_s = std::max(1e-6, (least.wall_s - messages) / 2)};
  return Status();
}

uint64_t ProfiledHash(const job::Job& job) {
  uint64_t hash = Mix(HashName("profile"), job.schema.hash());
  for (const char* section : {"model", "optimizer", "compute", "debug"}) {
    if (job.config.Has(section)) hash = Mix(hash, HashName(section + job.config.At(section).ToYaml()));
  }
  return Mix(hash, job.bf16 ? 1 : 0);
}

}  // namespace

Status Check(const BatchProfile& batch) {
  if (batch.quantiles_s.size() >= 2 && std::ranges::is_sorted(batch.quantiles_s)) return {};
  return {Code::kInvalidArgument, "quantiles_s are not two or more times that grow"};
}

Status Check(const CostProfile& cost) {
  if (cost.byte_s <= 1e-3) return {};
  return {Code::kInvalidArgument, "byte_s is " + std::to_string(cost.byte_s) + ", at most 0.001"};
}

std::string ToJson(const Profile& profile) {
  return JsonText(fields::JsonWriter::Value(ProfileFile{kFormat, profile}), 2);
}

Result<Profile> ParseProfile(std::string_view text, std::string_view name) {
  const auto bad = [name](const std::string& what) {
    return Status(Code::kInvalidArgument, std::string(name) + ": " + what);
  };
  if (text.size() > kMaxBytes) return bad("larger than a profile can be");
  const auto any = fields::FromJson<AnyProfileFile>(text, name);
  if (!any.ok() || !any->leat_profile) return bad("not a profile; leat calibrate writes them");
  if (any->leat_profile != kFormat) return bad("a profile of another version of leat; calibrate again");
  LEAT_ASSIGN_OR_RETURN(ProfileFile file, fields::FromJson<ProfileFile>(text, name));
  auto& batches = file.profile.batches;
  if (batches.empty()) return bad("batches is empty");
  std::ranges::sort(batches, {}, &BatchProfile::size);
  if (std::ranges::adjacent_find(batches, {}, &BatchProfile::size) != batches.end())
    return bad("batches has a size twice");
  return std::move(file.profile);
}

Profile ReadProfile(const std::string& file) {
  const auto text = OrThrow(ReadFirstBytes(file, kMaxBytes + 1));
  return OrThrow(ParseProfile(text, file));
}

Status CheckProfile(const Profile& profile, const job::Job& job, std::string_view name) {
  if (profile.job_hash == ProfiledHash(job)) return Status();
  return Status(Code::kInvalidArgument, std::string(name) + ": a profile of another job ('" + profile.job +
                                            "', " + ToHex(profile.job_hash) + "); '" + job.name + "' is " +
                                            ToHex(ProfiledHash(job)) +
                                            " by its schema, model, optimizer, compute and debug settings");
}

Result<BatchProfile> BatchOf(const Profile& profile, uint32_t size, std::string_view name) {
  const auto above = std::ranges::lower_bound(profile.batches, size, {}, &BatchProfile::size);
  if (above != profile.batches.end() && above->size == size) return *above;
  if (above == profile.batches.end() || above == profile.batches.begin()) {
    const std::string sizes =
        Joined(profile.batches, ", ", [](const BatchProfile& batch) { return std::to_string(batch.size); });
    return Status(Code::kInvalidArgument, std::string(name) + ": has batches of " + sizes +
                                              " events, none of " + std::to_string(size) +
                                              "; calibrate with --batch " + std::to_string(size));
  }
  const BatchProfile& below = *std::prev(above);
  const double part = static_cast<double>(size - below.size) / (above->size - below.size);
  const auto between = [part](double a, double b) { return a + part * (b - a); };
  BatchProfile batch{.size = size,
                     .compute_s = between(below.compute_s, above->compute_s),
                     .first_gradient = between(below.first_gradient, above->first_gradient)};
  // Quantiles of both at the same places.
  const size_t parts = std::max(below.quantiles_s.size(), above->quantiles_s.size());
  const auto quantile = [parts](const std::vector<double>& all, size_t i) {
    const double at =
        static_cast<double>(all.size() - 1) * static_cast<double>(i) / static_cast<double>(parts - 1);
    const auto first = std::min(static_cast<size_t>(at), all.size() - 2);
    return all[first] + (at - static_cast<double>(first)) * (all[first + 1] - all[first]);
  };
  for (size_t i = 0; i < parts; ++i) {
    batch.quantiles_s.push_back(between(quantile(below.quantiles_s, i), quantile(above->quantiles_s, i)));
  }
  return batch;
}

CostProfile CostOf(uint64_t small_bytes, double small_s, uint64_t large_bytes, double large_s) {
  double byte = 0;
  if (large_bytes > small_bytes)
    byte = std::max(0.0, (large_s - small_s) / static_cast<double>(large_bytes - small_bytes));
  const double message = std::max(0.0, small_s - byte * static_cast<double>(small_bytes));
  return {message, byte};
}

BatchProfile MeasureBatch(const job::Job& job, const engine::PlanOptions& kernels, uint32_t size,
                          double seconds) {
  protocol::Parameters parameters(job.Slices());
  const protocol::SliceTable& table = parameters.table();
  for (size_t v = 0; v < table.variables.size(); ++v) {
    const optim::VariableSpec& variable = table.variables[v];
    optim::Initialise(variable.init, table.seed, variable.name, 0, parameters.values(v));
  }
  step::Trainer trainer(*job.model, parameters, job.Plan(job::WithPrecision(job, kernels)),
                        job.optimizer.clipping);
  const std::vector<float> features(job.model->inputs() * size, 0.5f);
  const std::vector<float> labels(job.model->labels() * size, 0.0f);
  std::vector<uint32_t> batch(size);
  for (uint32_t i = 0; i < size; ++i) batch[i] = i;
  const auto step = [&] {
    const double begin = Now();
    std::this_thread::sleep_for(job.debug.step);
    trainer.Step({features, labels, {}}, batch, size);
    return Now() - begin;
  };
  step();  // compiles the plan
  std::vector<double> times;
  for (const double until = Now() + seconds;
       times.size() < kLeastBatches || (times.size() < kMostBatches && Now() < until);)
    times.push_back(step());
  const sim::Distribution measured = sim::Measured(times);
  BatchProfile profile{.size = size, .compute_s = measured.mean, .quantiles_s = measured.quantiles};
  // Watching costs time of its own, so it comes last.
  double first = -1, begin = 0;
  std::vector<double> shares;
  trainer.OnGradient([&](size_t) {
    if (first < 0) first = Now();
  });
  for (int i = 0; i < kGradientBatches; ++i) {
    first = -1;
    begin = Now();
    const double takes = step();
    shares.push_back(first < 0 ? 1 : std::clamp((first - begin) / takes, 0.0, 1.0));
  }
  std::ranges::sort(shares);
  profile.first_gradient = shares[shares.size() / 2];
  return profile;
}

void MeasureInput(const job::Job& job, double seconds, InputProfile* input) {
  if (job.stream->files() == nullptr || !job.CheckInputs().ok()) return;
  auto source = job.stream->Open();
  if (!source.ok()) return;
  auto ranges = (*source)->Ranges();
  if (!ranges.ok()) return;
  roles::SplitReader reader(std::move(*source), job.schema);
  uint64_t events = 0, bytes = 0;
  double took = 0;
  for (const auto& range : *ranges) {
    const uint64_t split = uint64_t{job.batch_size} * job.split_batches;
    for (uint64_t begin = range.begin; begin < range.end && took < seconds; begin += split) {
      roles::PreparedSplit prepared;
      prepared.lease.cut = protocol::MakeCut(job.Cuts(), range.partition, {0, begin}, {0, begin},
                                             std::min(range.end, begin + split));
      const double before = Now();
      if (!reader.Read(&prepared).ok()) return;
      took += Now() - before;
      events += prepared.lease.cut.events();
      bytes += prepared.bytes;
    }
  }
  if (events == 0) return;
  input->decode_s = took / static_cast<double>(events);
  input->event_bytes = static_cast<double>(bytes) / static_cast<double>(events);
}

Result<Profile> Calibrate(const job::Job& job, const CalibrationOptions& options) {
  Profile profile{.job = job.name,
                  .job_hash = ProfiledHash(job),
                  .machine = ProcessorName(),
                  .cores = std::max(1u, std::thread::hardware_concurrency()),
                  .build = roles::ProgramVersion()};
  std::vector<uint32_t> sizes = options.batches;
  if (sizes.empty()) sizes.push_back(job.batch_size);
  std::ranges::sort(sizes);
  const auto twice = std::ranges::unique(sizes);
  sizes.erase(twice.begin(), twice.end());
  for (const uint32_t size : sizes)
    profile.batches.push_back(MeasureBatch(job, options.kernels, size, options.seconds));
  LEAT_RETURN_IF_ERROR(MeasureMessages(job, options.seconds / 4, &profile));
  MeasureInput(job, options.seconds / 4, &profile.input);
  if (!options.to.empty()) LEAT_RETURN_IF_ERROR(MeasureLink(options, &profile));
  return profile;
}

Status ServeLinkTest(const std::string& listen, const std::string& token, const launcher::Security& security,
                     const std::function<void(const std::string&)>& on_ready) {
  ServerParts parts(LinkServer(), LinkOptions(token, security));
  LEAT_RETURN_IF_ERROR(parts.Listen(listen));
  const launcher::SignalWatch signals([&parts](int) { parts.loop.Stop(); });
  on_ready(parts.listener->address());
  parts.loop.Run();
  return Status();
}

}  // namespace leat::study
