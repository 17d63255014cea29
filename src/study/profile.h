// What the simulator has to know about a job and a machine, as `leat calibrate` measures it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/job.h"
#include "sim/cluster/cluster.h"

namespace leat::study {

// Batches of one size.
struct BatchProfile {
  uint32_t size = 0;
  sim::Distribution compute;
  double first_gradient = 0;  // the part of the time before the first gradient is known, from 0 to 1
};

struct LinkProfile {
  std::string to;          // the other host's address
  double bytes_per_s = 0;  // of payload, in each direction, while both are busy
  double latency_s = 0;    // one way
};

struct Profile {
  std::string job;        // its name
  uint64_t job_hash = 0;  // ProfiledHash
  std::string machine;    // the processor's name
  uint32_t cores = 0;
  std::string build;                  // of the program
  std::vector<BatchProfile> batches;  // by size, each once, at least one
  double event_bytes = 0;             // of a record in the stream; 0: unknown
  double decode_s = 0;                // per event
  sim::MessageCost server;            // of a push and its reply
  sim::MessageCost worker;            // of a message to or from a server
  sim::MessageCost member;            // all-reduce: of a piece that another worker sends
  std::optional<LinkProfile> link;
};

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
