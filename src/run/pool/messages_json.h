// The bodies of requests to a pool and of its replies, as JSON. Everything that is read is checked.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/frames/handshake.h"
#include "protocol/pool/job_book.h"
#include "protocol/pool/pool.h"

namespace leat::pool {

// A role's certificate folder (net/security/certificate.h). Empty: no TLS.
struct Certificate {
  std::string ca, certificate, key;  // PEM
  bool empty() const { return ca.empty(); }
};
LEAT_FIELDS(Certificate, (ca, AtMost(64 << 10)), (certificate, AtMost(64 << 10)), (key, AtMost(64 << 10)));

// Variables of its own environment that `leat submit` sends along with a job whose checkpoints are in object
// storage: keys, and where the store is. Files that such variables name are not on the hosts.
inline constexpr std::array kSentVariables = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                                              "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3",
                                              "AWS_ENDPOINT_URL",  "AWS_REGION",
                                              "AWS_DEFAULT_REGION"};

// A submitted job, without the fields that the scheduler needs.
struct JobPayload {
  std::string file;     // text of the job file
  std::string data;     // directory of the input files, on the hosts; empty: the agent's
  std::string workers;  // "4" or "2:8", for the coordinator
  bool bots = false;    // simulated customers publish its events
  std::string token;    // authenticates the job's roles; made by the pool
  std::map<std::string, std::string>
      environment;  // for the coordinator and the members: AWS_… of the submitter
};
// `leat submit` reads files of up to 64 KiB.
LEAT_FIELDS(JobPayload, (file, AtMost(256 << 10)), (data, AtMost(4096)), (workers, AtMost(256)), (bots),
            (token, AtMost(256)), (environment, AtMost(kSentVariables.size()), Each(AtMost(4096))));
Status Check(const JobPayload& payload);

// Access to a job, for an agent that starts its processes.
struct JobAccess {
  JobId job = 0;
  JobPayload payload;
  uint32_t servers = 0;
  Certificate roles;  // for the job's processes on this host
  Certificate pool;   // for grants, known to the agent only
};
LEAT_FIELDS(JobAccess, (job), (payload), (servers), (roles), (pool));

struct AgentReply {
  std::string pool;  // its id
  AgentOrders orders;
  std::vector<JobAccess> jobs;  // jobs of all orders to start something, and of renewals; see ReplyJson
};
LEAT_FIELDS(AgentReply, (pool, AtMost(256), Printable), (orders, Flat), (jobs, AtMost(kMostEntries)));

// How a user reaches a job.
struct UserAccess {
  std::string coordinator;  // address; empty: it does not run
  std::string token;
  Certificate admin;
};
LEAT_FIELDS(UserAccess, (coordinator, AtMost(256)), (token, AtMost(256)), (admin));

struct SubmitRequest {
  JobSpec spec;
  JobPayload payload;
  bool wait = false;  // queue it also if the agents of now could not run it
};
LEAT_FIELDS(SubmitRequest, (spec), (payload), (wait));
struct CancelRequest {
  JobId job = 0;
  bool discard = false;
};
LEAT_FIELDS(CancelRequest, (job), (discard));
struct JobNumber {
  JobId job = 0;
};
LEAT_FIELDS(JobNumber, (job));
// The jobs that a list should have.
struct ListRequest {
  uint32_t over = 100;  // the newest of the jobs that are over
};
LEAT_FIELDS(ListRequest, (over));

// A job on disk: all that a pool needs after a restart.
struct StoredJob {
  JobRecord record;
  JobPayload payload;
};
LEAT_FIELDS(StoredJob, (record, Flat), (payload));

// The port of a pool.
wire::Port PoolPort();

// For AgentReport and each of the structs from AgentReply on. kInvalidArgument: the text is not what it
// should be, with the field.
template <class Message>
std::string ToJson(const Message& message);
template <class Message>
Result<Message> FromJson(std::string_view text);
// An empty text: the default.
Result<ListRequest> ListFromJson(std::string_view text);
// Jobs that do not fit into a reply are left out, the last ones first. Their orders wait for a later reply:
// what has not been done is ordered, or asked for, again.
std::string ReplyJson(AgentReply reply);
// For people and programs; no secret is in it. Entries that do not fit into a reply are left out, first the
// oldest of the jobs that are over, then agents, then the newest jobs: "left_out" has their numbers.
std::string StatusJson(const std::vector<JobStatus>& jobs, const std::vector<AgentStatus>& agents,
                       const ListRequest& request = {});

}  // namespace leat::pool
