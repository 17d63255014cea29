#include "run/pool/messages_json.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/fields/description.h"
#include "base/fields/json.h"
#include "base/json/text.h"
#include "base/text.h"
#include "net/rpc/codec.h"
#include "protocol/messages_control.h"

namespace leat::pool {

using fields::Json;

// A reply has up to 4 MiB. The rest is for orders, which have 200 bytes for each process of the agent.
constexpr size_t kMostReplyBytes = size_t{3} << 20;

Status Check(const JobPayload& payload) {
  for (const auto& [name, value] : payload.environment) {
    if (std::ranges::find(kSentVariables, name) == kSentVariables.end())
      return {Code::kInvalidArgument, "variable " + name + " is not of object storage"};
  }
  return {};
}

template <class Message>
constexpr std::string_view kWhat = "";  // errors call it so
template <class Message>
std::string ToJson(const Message& message) {
  return fields::ToJson(message);
}
template <class Message>
Result<Message> FromJson(std::string_view text) {
  return fields::FromJson<Message>(text, kWhat<Message>);
}

#define LEAT_POOL_MESSAGE(Message, what)                \
  template <>                                           \
  constexpr std::string_view kWhat<Message> = what;     \
  template std::string ToJson<Message>(const Message&); \
  template Result<Message> FromJson<Message>(std::string_view)
LEAT_POOL_MESSAGE(AgentReport, "agent's report");
LEAT_POOL_MESSAGE(AgentReply, "the pool's orders");
LEAT_POOL_MESSAGE(SubmitRequest, "submitted job");
LEAT_POOL_MESSAGE(CancelRequest, "request to cancel");
LEAT_POOL_MESSAGE(JobNumber, "job");
LEAT_POOL_MESSAGE(UserAccess, "access to a job");
LEAT_POOL_MESSAGE(StoredJob, "stored job");
LEAT_POOL_MESSAGE(ListRequest, "request for the jobs");
#undef LEAT_POOL_MESSAGE

wire::Port PoolPort() {
  // Its messages are bodies of those of the control plane.
  return {wire::PortKind::kPool,
          control::ControlPort().messages ^ fields::HashOf<AgentReport, AgentReply, UserAccess, SubmitRequest,
                                                           CancelRequest, JobNumber, ListRequest>()};
}

Result<ListRequest> ListFromJson(std::string_view text) {
  return text.empty() ? ListRequest() : FromJson<ListRequest>(text);
}

std::string ReplyJson(AgentReply reply) {
  size_t bytes = 0;
  const auto fits = [&](const JobAccess& job) {
    bytes += fields::ToJson(job).size();
    return bytes <= kMostReplyBytes || &job == reply.jobs.data();
  };
  reply.jobs.erase(std::ranges::find_if_not(reply.jobs, fits), reply.jobs.end());
  return ToJson(reply);
}

namespace {

std::string JobText(const JobStatus& job) {
  const JobRecord& record = job.record;
  Json one = {{"job", record.id},
              {"name", record.spec.name},
              {"state", fields::NameOf(record.state)},
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
  return JsonText(one);
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
  return JsonText(one);
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
  const auto show = [&](const JobStatus& job) {
    std::string text = JobText(job);
    if (!fits(text)) return false;
    shown[job.record.id] = std::move(text);
    return true;
  };
  for (const JobStatus& job : jobs) {
    if (!IsOver(job.record.state) && !show(job)) break;
  }
  std::vector<std::string> agent_texts;
  for (const AgentStatus& agent : agents) {
    std::string text = AgentText(agent);
    if (!fits(text)) break;
    agent_texts.push_back(std::move(text));
  }
  uint32_t over = 0;
  for (const JobStatus& job : std::views::reverse(jobs)) {
    if (IsOver(job.record.state) && (over++ >= request.over || !show(job))) break;
  }
  const size_t left_out_jobs = jobs.size() - shown.size(),
               left_out_agents = agents.size() - agent_texts.size();
  std::vector<std::string> job_texts;
  for (auto& [id, text] : shown) job_texts.push_back(std::move(text));
  std::string all =
      "{\"jobs\":[" + Joined(job_texts, ",") + "],\"agents\":[" + Joined(agent_texts, ",") + "]";
  if (left_out_jobs + left_out_agents > 0)
    all += ",\"left_out\":" + JsonText(Json{{"jobs", left_out_jobs}, {"agents", left_out_agents}});
  return all + "}";
}

}  // namespace leat::pool
