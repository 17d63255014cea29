// Measures a job's profile on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compute/engine/plan.h"
#include "job/job.h"
#include "lab/study/profile.h"
#include "run/launcher/security.h"

namespace leat::study {

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
