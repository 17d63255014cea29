// When a request that failed is tried again. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace leat::object_store {

// A reply of the store, or its absence, as a Status.
struct Outcome {
  Status status;
  bool again = false;            // the same request may succeed later
  bool new_credentials = false;  // it may succeed with credentials that are asked for anew
  bool refused = false;          // the store knows no such credentials: others may have taken their place
};
// `sent`: the error of a request without a reply, or ok. `http`: the status of the reply. `code` and
// `message`: of its body, if it has one.
Outcome Judge(const Status& sent, int http, const std::string& code, const std::string& message);

struct RetryPolicy {
  Duration first = std::chrono::milliseconds(100);
  Duration most = std::chrono::seconds(10);
  Duration deadline = std::chrono::minutes(2);  // limit of a request with all its attempts
};

// The attempts of one request.
class Retries {
 public:
  Retries(const RetryPolicy& policy, Time begun) : policy_(policy), begun_(begun) {}
  // After the `attempt`-th failure (from 1): the pause before the next attempt, between half of and the whole
  // of first * 2^(attempt-1), at most `most`. Negative: there is no time for one. `random`: any number.
  Duration Pause(Time now, uint32_t attempt, uint64_t random) const;
  // The time that is left for an attempt.
  Duration Left(Time now) const { return policy_.deadline - (now - begun_); }

 private:
  const RetryPolicy policy_;
  const Time begun_;
};

}  // namespace leat::object_store
