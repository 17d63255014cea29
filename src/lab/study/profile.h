// Costs of a job on a machine, which the simulator needs: `leat calibrate` measures them, and a file keeps
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields/fields.h"
#include "base/status.h"
#include "compute/engine/plan.h"
#include "job/job.h"
#include "lab/sim/cluster/cluster.h"
#include "run/launcher/security.h"

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
  std::string job;  // its name
  // A hash of all that the times of a job depend on: schema, model, optimizer, precision, threads, delays for
  // tests. Strategy, batch size and cluster may differ.
  uint64_t job_hash = 0;
  std::string machine;  // the processor's name
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

// ---- calibration

struct CalibrationOptions {
  std::vector<uint32_t> batches;  // sizes; empty: the job's
  std::string to;                 // where another host answers (ServeLinkTest); empty: no link is measured
  double seconds = 1;             // for each figure, about; a large batch may take longer
  engine::PlanOptions kernels;
  std::string token;            // with `to`: the other host's
  launcher::Security security;  // with `to`: the other host's
};

// The time of batches of this size, measured for about so many seconds.
BatchProfile MeasureBatch(const job::Job& job, const engine::PlanOptions& kernels, uint32_t size,
                          double seconds);

// The bytes of an event in the job's files, and the time to decode it. Leaves the input as it is if this host
// does not have them.
void MeasureInput(const job::Job& job, double seconds, InputProfile* input);

// Computes batches of the job's model, and pushes to a server on a thread of this process. If the job's input
// can be read here, decodes some of it. Reads nothing else and writes nothing. Errors: kUnavailable and
// kDeadlineExceeded if the other host does not answer.
Result<Profile> Calibrate(const job::Job& job, const CalibrationOptions& options);

// Answers Calibrate of other hosts on `listen`, until a signal ends it. `on_ready` gets the address.
Status ServeLinkTest(const std::string& listen, const std::string& token, const launcher::Security& security,
                     const std::function<void(const std::string&)>& on_ready);

// The time of `bytes` is `message` and `byte` for each of them, from two measured sizes; none is negative.
CostProfile CostOf(uint64_t small_bytes, double small_s, uint64_t large_bytes, double large_s);

}  // namespace leat::study
