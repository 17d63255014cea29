#include "pool/messages_json.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "base/json/depth.h"
#include "base/json/text.h"

namespace leat::pool {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostLevels = 8;
constexpr size_t kMostEntries = 100'000;
constexpr size_t kLongestName = 256;
constexpr size_t kLongestFile = 256 << 10;  // `leat submit` reads up to 64 KiB
// A reply has up to 4 MiB. The rest is for orders, which have 200 bytes for each process of the agent.
constexpr size_t kMostReplyBytes = size_t{3} << 20;

// Thrown while a body is read, and turned into a Status.
struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const Json& Field(const Json& json, const char* name) {
  const auto at = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || at == json.end()) throw Invalid(std::string("there is no field ") + name);
  return *at;
}

// What is said of a field that is not what it should be.
std::string KindOf(const Json& field) {
  if (field.is_number() || field.is_boolean() || field.is_null()) return JsonText(field);
  return std::string(field.is_string() ? "a " : "an ") + field.type_name();
}

template <class Number>
Number Take(const Json& json, const char* name, uint64_t most = std::numeric_limits<Number>::max()) {
  const Json& field = Field(json, name);
  if (!field.is_number_unsigned() || field.get<uint64_t>() > most)
    throw Invalid(std::string(name) + " is " + KindOf(field));
  return static_cast<Number>(field.get<uint64_t>());
}
int32_t TakeSigned(const Json& json, const char* name) {
  const Json& field = Field(json, name);
  if (!field.is_number_integer()) throw Invalid(std::string(name) + " is " + KindOf(field));
  const auto value = field.get<int64_t>();
  if (field.is_number_unsigned() && field.get<uint64_t>() > 1'000'000'000) throw Invalid(name);
  if (value < -1'000'000'000 || value > 1'000'000'000) throw Invalid(name);
  return static_cast<int32_t>(value);
}
double TakeDouble(const Json& json, const char* name) {
  const Json& field = Field(json, name);
  if (!field.is_number()) throw Invalid(std::string(name) + " is no number");
  return field.get<double>();
}
bool TakeBool(const Json& json, const char* name) {
  const Json& field = Field(json, name);
  if (!field.is_boolean()) throw Invalid(std::string(name) + " is neither true nor false");
  return field.get<bool>();
}
// Values of texts are not repeated in errors: they may be secrets.
std::string TakeText(const Json& json, const char* name, size_t most = kLongestName) {
  const Json& field = Field(json, name);
  if (!field.is_string() || field.get_ref<const std::string&>().size() > most)
    throw Invalid(std::string(name) + " is no text of at most " + std::to_string(most) + " bytes");
  return field.get<std::string>();
}
// It is shown and logged.
std::string TakeName(const Json& json, const char* name) {
  std::string text = TakeText(json, name);
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw Invalid(std::string(name) + " has control characters");
  }
  return text;
}
// A host's name or address. It becomes a part of a path.
std::string TakeHost(const Json& json, const char* name) {
  std::string text = TakeText(json, name);
  const bool good = std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '[' || c == ']';
  });
  if (!good || text.empty() || text.front() == '.') throw Invalid(std::string(name) + " is no host");
  return text;
}
const Json& TakeList(const Json& json, const char* name) {
  const Json& field = Field(json, name);
  if (!field.is_array() || field.size() > kMostEntries) throw Invalid(std::string(name) + " is no list");
  return field;
}

template <class T, class Read>
Result<T> Parse(std::string_view text, const char* what, Read read) {
  try {
    if (!IsShallowJson(text, kMostLevels))
      throw Invalid("it is nested deeper than " + std::to_string(kMostLevels) + " levels");
    const Json json = ParsedOrderedJson(text);
    if (json.is_discarded()) throw Invalid("it is no JSON");
    return read(json);
  } catch (const Invalid& e) {
    return Status(Code::kInvalidArgument, std::string(what) + ": " + e.what());
  }
}

// Texts may come from logs and need not be UTF-8.
std::string Dump(const Json& json) {
  return JsonText(json);
}

Json Put(const Resources& r) {
  return {{"millicores", r.millicores}, {"memory", r.memory}};
}
Resources TakeResources(const Json& json, const char* name) {
  const Json& field = Field(json, name);
  return {Take<uint64_t>(field, "millicores", 1'000'000'000),
          Take<uint64_t>(field, "memory", uint64_t{1} << 50)};
}

Json Put(const ProcessId& id) {
  return {{"job", id.job}, {"role", Name(id.role)}, {"number", id.number}, {"index", id.index}};
}
ProcessId TakeProcess(const Json& json) {
  ProcessId id{.job = Take<uint64_t>(json, "job"),
               .number = Take<uint64_t>(json, "number"),
               .index = Take<uint32_t>(json, "index")};
  const std::string role = TakeText(json, "role");
  for (const ProcessRole one : {ProcessRole::kCoordinator, ProcessRole::kServer, ProcessRole::kWorker}) {
    if (role != Name(one)) continue;
    id.role = one;
    return id;
  }
  throw Invalid("role is unknown");
}

Json Put(const Certificate& c) {
  return {{"ca", c.ca}, {"certificate", c.certificate}, {"key", c.key}};
}
Certificate TakeCertificate(const Json& json, const char* name) {
  const Json& field = Field(json, name);
  constexpr size_t kMost = 64 << 10;
  return {TakeText(field, "ca", kMost), TakeText(field, "certificate", kMost), TakeText(field, "key", kMost)};
}

Json Put(const JobSpec& spec) {
  return {{"name", spec.name},
          {"priority", spec.priority},
          {"share", spec.share},
          {"coordinator", Put(spec.resources.coordinator)},
          {"ps", Put(spec.resources.server)},
          {"worker", Put(spec.resources.worker)},
          {"classes",
           {{"coordinator", spec.classes.coordinator},
            {"ps", spec.classes.server},
            {"worker", spec.classes.worker}}},
          {"servers", spec.servers},
          {"least_workers", spec.least_workers},
          {"workers", spec.workers},
          {"bucket", spec.bucket}};
}
JobSpec TakeSpec(const Json& json) {
  JobSpec spec;
  spec.name = TakeName(json, "name");
  spec.priority = TakeSigned(json, "priority");
  spec.share = TakeDouble(json, "share");
  spec.resources = {TakeResources(json, "coordinator"), TakeResources(json, "ps"),
                    TakeResources(json, "worker")};
  const Json& classes = Field(json, "classes");
  spec.classes = {TakeName(classes, "coordinator"), TakeName(classes, "ps"), TakeName(classes, "worker")};
  spec.servers = Take<uint32_t>(json, "servers");
  spec.least_workers = Take<uint32_t>(json, "least_workers");
  spec.workers = Take<uint32_t>(json, "workers");
  spec.bucket = TakeText(json, "bucket", 4096);
  if (const Status good = Check(spec); !good.ok()) throw Invalid(good.message());
  return spec;
}

Json Put(const JobPayload& p) {
  return {{"file", p.file}, {"data", p.data},   {"workers", p.workers},
          {"bots", p.bots}, {"token", p.token}, {"environment", p.environment}};
}
JobPayload TakePayload(const Json& json) {
  JobPayload payload{TakeText(json, "file", kLongestFile),
                     TakeText(json, "data", 4096),
                     TakeText(json, "workers"),
                     TakeBool(json, "bots"),
                     TakeText(json, "token"),
                     {}};
  const Json& environment = Field(json, "environment");
  if (!environment.is_object()) throw Invalid("environment is no object");
  for (const auto& [name, value] : environment.items()) {
    if (std::ranges::find(kSentVariables, name) == kSentVariables.end())
      throw Invalid("variable " + name + " is not of object storage");
    payload.environment[name] = TakeText(environment, name.c_str(), 4096);
  }
  return payload;
}

}  // namespace

std::string ToJson(const AgentReport& report) {
  Json running = Json::array(), ended = Json::array(), wants = Json::array();
  for (const auto& one : report.running) {
    running.push_back(Put(one.id));
    running.back().update({{"address", one.address}, {"waits", one.waits}});
  }
  for (const auto& one : report.ended) {
    ended.push_back(Put(one.id));
    ended.back().update({{"event", one.event},
                         {"exit_code", one.exit_code},
                         {"error", one.error},
                         {"host_failed", one.host_failed}});
  }
  for (const JobWant& want : report.wants) {
    wants.push_back({{"job", want.job},
                     {"servers", want.servers},
                     {"workers", want.workers},
                     {"events", want.events},
                     {"lost", want.lost}});
  }
  return Dump({{"pool", report.pool},
               {"agent", report.agent},
               {"instance", report.instance},
               {"sequence", report.sequence},
               {"host", report.host},
               {"offer", Put(report.offer)},
               {"class", report.host_class},
               {"running", std::move(running)},
               {"ended", std::move(ended)},
               {"wants", std::move(wants)},
               {"renews", report.renews}});
}

Result<AgentReport> ReportFromJson(std::string_view text) {
  return Parse<AgentReport>(text, "agent's report", [](const Json& json) {
    AgentReport report;
    report.pool = TakeName(json, "pool");
    report.agent = TakeName(json, "agent");
    if (report.agent.empty()) throw Invalid("the agent has no name");
    report.instance = Take<uint64_t>(json, "instance");
    report.sequence = Take<uint64_t>(json, "sequence");
    report.host = TakeHost(json, "host");
    report.offer = TakeResources(json, "offer");
    report.host_class = TakeName(json, "class");
    for (const Json& one : TakeList(json, "running"))
      report.running.push_back({TakeProcess(one), TakeText(one, "address"), TakeText(one, "waits", 4096)});
    for (const Json& one : TakeList(json, "ended")) {
      report.ended.push_back({Take<uint64_t>(one, "event"), TakeProcess(one), TakeSigned(one, "exit_code"),
                              TakeText(one, "error", 4096), TakeBool(one, "host_failed")});
    }
    for (const Json& one : TakeList(json, "wants")) {
      report.wants.push_back({Take<uint64_t>(one, "job"), Take<uint32_t>(one, "servers", 100'000),
                              Take<uint32_t>(one, "workers", 100'000), Take<uint64_t>(one, "events"),
                              TakeBool(one, "lost")});
    }
    for (const Json& one : TakeList(json, "renews")) {
      if (!one.is_number_unsigned()) throw Invalid("renews is " + KindOf(one));
      report.renews.push_back(one.get<uint64_t>());
    }
    return report;
  });
}

std::string ToJson(const AgentReply& reply) {
  const AgentOrders& orders = reply.orders;
  Json starts = Json::array(), grants = Json::array(), stops = Json::array(), ends = Json::array(),
       jobs = Json::array();
  for (const auto& start : orders.starts) {
    starts.push_back(Put(start.id));
    starts.back().update({{"coordinator", start.coordinator},
                          {"again", start.again},
                          {"resumes", start.resumes},
                          {"bucket", start.bucket}});
  }
  for (const auto& grant : orders.grants)
    grants.push_back({{"job", grant.job}, {"servers", grant.servers}, {"workers", grant.workers}});
  for (const auto& stop : orders.stops) stops.push_back({{"job", stop.job}, {"discard", stop.discard}});
  for (const ProcessId& id : orders.ends) ends.push_back(Put(id));
  size_t bytes = 0;
  for (const auto& [id, job] : reply.jobs) {
    Json one = {{"job", id},
                {"payload", Put(job.payload)},
                {"servers", job.servers},
                {"roles", Put(job.roles)},
                {"pool", Put(job.pool)}};
    bytes += Dump(one).size();
    if (bytes > kMostReplyBytes && !jobs.empty()) break;
    jobs.push_back(std::move(one));
  }
  return Dump({{"pool", reply.pool},
               {"acknowledged", orders.acknowledged},
               {"starts", std::move(starts)},
               {"grants", std::move(grants)},
               {"stops", std::move(stops)},
               {"ends", std::move(ends)},
               {"jobs", std::move(jobs)}});
}

Result<AgentReply> ReplyFromJson(std::string_view text) {
  return Parse<AgentReply>(text, "the pool's orders", [](const Json& json) {
    AgentReply reply;
    reply.pool = TakeName(json, "pool");
    AgentOrders& orders = reply.orders;
    orders.acknowledged = Take<uint64_t>(json, "acknowledged");
    for (const Json& one : TakeList(json, "starts"))
      orders.starts.push_back({TakeProcess(one), TakeText(one, "coordinator"), TakeBool(one, "again"),
                               TakeBool(one, "resumes"), TakeText(one, "bucket", 4096)});
    for (const Json& one : TakeList(json, "grants")) {
      orders.grants.push_back(
          {Take<uint64_t>(one, "job"), Take<uint32_t>(one, "servers"), Take<uint32_t>(one, "workers")});
    }
    for (const Json& one : TakeList(json, "stops"))
      orders.stops.push_back({Take<uint64_t>(one, "job"), TakeBool(one, "discard")});
    for (const Json& one : TakeList(json, "ends")) orders.ends.push_back(TakeProcess(one));
    for (const Json& one : TakeList(json, "jobs")) {
      const auto id = Take<uint64_t>(one, "job");
      reply.jobs[id] = {id, TakePayload(Field(one, "payload")), Take<uint32_t>(one, "servers"),
                        TakeCertificate(one, "roles"), TakeCertificate(one, "pool")};
    }
    return reply;
  });
}

std::string ToJson(const SubmitRequest& request) {
  return Dump({{"spec", Put(request.spec)}, {"payload", Put(request.payload)}, {"wait", request.wait}});
}
Result<SubmitRequest> SubmitFromJson(std::string_view text) {
  return Parse<SubmitRequest>(text, "submitted job", [](const Json& json) {
    return SubmitRequest{TakeSpec(Field(json, "spec")), TakePayload(Field(json, "payload")),
                         TakeBool(json, "wait")};
  });
}

std::string ToJson(const CancelRequest& request) {
  return Dump({{"job", request.job}, {"discard", request.discard}});
}
Result<CancelRequest> CancelFromJson(std::string_view text) {
  return Parse<CancelRequest>(text, "request to cancel", [](const Json& json) {
    return CancelRequest{Take<uint64_t>(json, "job"), TakeBool(json, "discard")};
  });
}

std::string ToJson(const UserAccess& access) {
  return Dump({{"coordinator", access.coordinator}, {"token", access.token}, {"admin", Put(access.admin)}});
}
Result<UserAccess> AccessFromJson(std::string_view text) {
  return Parse<UserAccess>(text, "access to a job", [](const Json& json) {
    return UserAccess{TakeText(json, "coordinator"), TakeText(json, "token"), TakeCertificate(json, "admin")};
  });
}

std::string JobToJson(JobId job) {
  return Dump({{"job", job}});
}
Result<JobId> JobFromJson(std::string_view text) {
  return Parse<JobId>(text, "job", [](const Json& json) { return Take<uint64_t>(json, "job"); });
}

std::string ToJson(const StoredJob& job) {
  const JobRecord& record = job.record;
  return Dump({{"id", record.id},
               {"spec", Put(record.spec)},
               {"state", static_cast<uint32_t>(record.state)},
               {"home", record.home},
               {"begun", record.begun},
               {"saved", record.saved},
               {"address", record.address},
               {"discard", record.discard},
               {"reason", record.reason},
               {"preemptions", record.preemptions},
               {"over_s", record.over_s},
               {"payload", Put(job.payload)}});
}
Result<StoredJob> StoredFromJson(std::string_view text) {
  return Parse<StoredJob>(text, "stored job", [](const Json& json) {
    StoredJob job;
    job.record.id = Take<uint64_t>(json, "id");
    job.record.spec = TakeSpec(Field(json, "spec"));
    job.record.state = JobState(Take<uint8_t>(json, "state", static_cast<uint64_t>(JobState::kCancelled)));
    job.record.home = TakeText(json, "home");
    job.record.saved = TakeBool(json, "saved");
    job.record.address = TakeText(json, "address");
    job.record.discard = TakeBool(json, "discard");
    job.record.reason = TakeText(json, "reason", 8192);
    job.record.preemptions = Take<uint32_t>(json, "preemptions");
    // Files of former versions lack these.
    if (json.contains("begun")) job.record.begun = TakeBool(json, "begun");
    if (json.contains("over_s"))
      job.record.over_s = static_cast<int64_t>(Take<uint64_t>(json, "over_s", uint64_t{1} << 40));
    job.payload = TakePayload(Field(json, "payload"));
    return job;
  });
}

std::string ToJson(const ListRequest& request) {
  return Dump({{"over", request.over}});
}
Result<ListRequest> ListFromJson(std::string_view text) {
  if (text.empty()) return ListRequest();
  return Parse<ListRequest>(text, "request for the jobs",
                            [](const Json& json) { return ListRequest{Take<uint32_t>(json, "over")}; });
}

namespace {

std::string JobText(const JobStatus& job) {
  const JobRecord& record = job.record;
  Json one = {{"job", record.id},
              {"name", record.spec.name},
              {"state", Name(record.state)},
              {"priority", record.spec.priority},
              {"share", record.spec.share},
              {"cores", job.cores},
              {"fair_cores", job.fair_cores},
              {"core_seconds", job.core_seconds},
              {"workers", job.workers},
              {"ps", job.servers},
              {"granted", {{"workers", job.grant.workers}, {"ps", job.grant.servers}}},
              {"events", job.events},
              {"preemptions", record.preemptions}};
  if (!job.coordinator.empty()) one["coordinator"] = job.coordinator;
  if (!record.home.empty()) one["home"] = record.home;
  if (!job.waiting.empty()) one["waits_for"] = job.waiting;
  if (!record.reason.empty()) one["reason"] = record.reason;
  return Dump(one);
}

std::string AgentText(const AgentStatus& agent) {
  Json one = {{"agent", agent.name},
              {"host", agent.host},
              {"cores", static_cast<double>(agent.offer.millicores) / 1000},
              {"free_cores", static_cast<double>(agent.free.millicores) / 1000},
              {"memory", agent.offer.memory},
              {"free_memory", agent.free.memory},
              {"processes", agent.processes},
              {"lost", agent.lost}};
  if (!agent.host_class.empty()) one["class"] = agent.host_class;
  if (!agent.left_out.empty()) one["left_out"] = agent.left_out;
  return Dump(one);
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return "[" + all + "]";
}

}  // namespace

std::string StatusJson(const std::vector<JobStatus>& jobs, const std::vector<AgentStatus>& agents,
                       const ListRequest& request) {
  size_t bytes = 0;
  const auto fits = [&bytes](const std::string& text) {
    bytes += text.size() + 1;
    return bytes <= kMostReplyBytes;
  };
  std::map<JobId, std::string> shown;
  for (const JobStatus& job : jobs) {
    if (IsOver(job.record.state)) continue;
    std::string text = JobText(job);
    if (!fits(text)) break;
    shown[job.record.id] = std::move(text);
  }
  std::vector<std::string> agent_texts;
  for (const AgentStatus& agent : agents) {
    std::string text = AgentText(agent);
    if (!fits(text)) break;
    agent_texts.push_back(std::move(text));
  }
  uint32_t over = 0;
  for (const JobStatus& job : std::views::reverse(jobs)) {
    if (!IsOver(job.record.state)) continue;
    if (over++ >= request.over) break;
    std::string text = JobText(job);
    if (!fits(text)) break;
    shown[job.record.id] = std::move(text);
  }
  const size_t left_out_jobs = jobs.size() - shown.size(),
               left_out_agents = agents.size() - agent_texts.size();
  std::vector<std::string> job_texts;
  for (auto& [id, text] : shown) job_texts.push_back(std::move(text));
  std::string all = "{\"jobs\":" + Joined(job_texts) + ",\"agents\":" + Joined(agent_texts);
  if (left_out_jobs + left_out_agents > 0)
    all += ",\"left_out\":" + Dump({{"jobs", left_out_jobs}, {"agents", left_out_agents}});
  return all + "}";
}

}  // namespace leat::pool
