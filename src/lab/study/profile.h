// Costs of a job on a machine, as `leat calibrate` measures them for the simulator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields/fields.h"
#include "base/status.h"
#include "job/job.h"
#include "lab/sim/cluster/cluster.h"

namespace leat::study {

// Batches of one size.
struct BatchProfile {
  uint32_t size = 0;
  double compute_s = 0;
  double first_gradient = 0;        // the part of the time before the first gradient is known
  std::vector<double> quantiles_s;  // quantiles of the time: two or more
  sim::Distribution compute() const {
    return {sim::Distribution::Kind::kMeasured, compute_s, 0, quantiles_s};
  }
};
LEAT_FIELDS(BatchProfile, (size, AtLeast(1), AtMost(1'000'000'000)), (compute_s, NotNegative, AtMost(3600)),
            (first_gradient, NotNegative, AtMost(1)),
            (quantiles_s, AtMost(1000), Each(NotNegative, AtMost(3600))));
Status Check(const BatchProfile& batch);

struct InputProfile {
  double event_bytes = 0;  // size of a record in the stream; 0: unknown
  double decode_s = 0;     // per event
};
LEAT_FIELDS(InputProfile, (event_bytes, NotNegative, AtMost(1'000'000'000)),
            (decode_s, NotNegative, AtMost(60)));

struct CostProfile {
  double message_s = 0, byte_s = 0;
  sim::MessageCost cost() const { return {FromSeconds(message_s), byte_s}; }
};
LEAT_FIELDS(CostProfile, (message_s, NotNegative, AtMost(1)), (byte_s, NotNegative));
Status Check(const CostProfile& cost);

struct LinkProfile {
  std::string to;          // the other host's address
  double bytes_per_s = 0;  // rate of payload in each direction, while both are busy
  double latency_s = 0;    // in one direction
};
LEAT_FIELDS(LinkProfile, (to, AtMost(1000)),
            (bytes_per_s, NotNegative, AtLeast(1), AtMost(1'000'000'000'000'000)),
            (latency_s, NotNegative, AtMost(10)));

struct Profile {
  std::string job;        // its name
  uint64_t job_hash = 0;  // ProfiledHash
  std::string machine;    // the processor's name
  uint32_t cores = 0;
  std::string build;                  // version of the program
  std::vector<BatchProfile> batches;  // by size, each once, at least one
  InputProfile input;
  CostProfile server;  // cost of a push and its reply
  CostProfile worker;  // cost of a message to or from a server
  CostProfile member;  // all-reduce: cost of a piece that another worker sends
  std::optional<LinkProfile> link;
};
LEAT_FIELDS(Profile, (job, AtMost(1000)), (job_hash, Fixed), (machine, AtMost(1000)),
            (cores, AtLeast(1), AtMost(1'000'000)), (build, AtMost(1000)), (batches, AtMost(1000)), (input),
            (server), (worker), (member), (link));

// A hash of all that the times of a job depend on: schema, model, optimizer, precision, threads, delays for
// tests. Strategy, batch size and cluster may differ.
uint64_t ProfiledHash(const job::Job& job);

std::string ToJson(const Profile& profile);
// Checks everything. `name` stands for the file in errors, which are one line.
Result<Profile> ParseProfile(std::string_view json, std::string_view name);
// Reads a file; throws std::invalid_argument with one line.
Profile ReadProfile(const std::string& file);
// Why the profile is of no use for the job, in one line, or ok. `name` stands for the file.
Status CheckProfile(const Profile& profile, const job::Job& job, std::string_view name);

// The compute time of a batch. Between two measured sizes it is interpolated; a size outside of them is
// kInvalidArgument.
Result<BatchProfile> BatchOf(const Profile& profile, uint32_t size, std::string_view name);

}  // namespace leat::study
