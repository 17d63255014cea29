// Jobs that the tests of several folders share.
#pragma once

#include <string>

#include "base/testing.h"
#include "job/job.h"

namespace leat::job {

inline Job Parse(const std::string& yaml) {
  return Job::FromText(yaml, "job.yaml");
}
// The message of the error in a job, "" if there is none.
inline std::string MistakeIn(const std::string& yaml) {
  return Mistake([&] { Parse(yaml); });
}

// The settings of a stream of this kind; null: it is of another one.
template <class Kind>
const Kind* As(const AnyStream& stream) {
  return dynamic_cast<const Kind*>(&*stream);
}

// A job that names every section.
inline constexpr const char* kFullJob = R"(name: fraud
seed: 7
stream:
  topic: payments
  log: elsewhere
  partitions: 3
  retention_mb: 300
  retention_hours: 2
  bots: {events: 5000, rate: 1000, customers: 50, seed: 9}
schema:
  format: json
  fields:
    amount: {type: number, log: true, mean: 3.5, std: 2}
    hour: {type: number, period: 24}
    country: {type: category, values: [ES, MX]}
    fraud: {type: number, role: label}
    p_fraud: {type: number, role: truth}
model:
  layers:
    - dense: {units: 8, activation: relu}
    - dense: {units: 2}
  loss: softmax_cross_entropy
optimizer: {type: adam, learning_rate: 0.01}
strategy: async
train: {batch_size: 32, split_batches: 4, shuffle: false, max_dead_letter_rate: 0.5}
cluster: {workers: 3, ps: 2, max_ps: 4, placement: round_robin, trusted_network: true}
checkpoint: {interval_s: 5, keep: 3}
metrics: {window: 4000}
evaluate:
  files: {format: csv, paths: [a.csv, b.csv]}
)";

// A job on bots that is over within a second, its directory and log below `directory`.
inline constexpr const char* kSmallJob = R"(name: small
stream: {topic: events, partitions: 2, bots: {events: 4000, customers: 100}}
schema: {format: json, fields: {amount: {type: number}, fraud: {type: number, role: label}}}
model: {layers: [bias: {units: 40}], loss: {type: negative_sum, reduction: sum}}
optimizer: {type: sgd, learning_rate: 1}
train: {batch_size: 50, split_batches: 4}
cluster: {workers: 2, ps: 2, placement: partitioned}
)";

// A job on text, cut into records by the stream.
inline constexpr const char* kTextJob = R"(
stream: {files: {format: text, paths: [input.txt], sequence: 6, stride: 3, part: [0, 0.9]}}
schema: {format: text, fields: {text: {type: characters, alphabet: abcd}}}
model:
  layers:
    - reshape: {shape: [6, 1]}
    - dense: {units: 4}
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
evaluate:
  files: {format: text, paths: [input.txt], part: [0.9, 1]}
resolved: {data: /somewhere}
)";

// A job whose columns are found by name, in files that are to be written.
inline constexpr const char* kCsvJob = R"(
stream: {files: {format: csv, paths: [a.csv, b.csv], header: true}}
schema: {format: csv, fields: {y: {type: number, role: label}, x: {type: number}}}
model: {layers: [dense: {units: 1}], loss: squared_error}
optimizer: {type: sgd, learning_rate: 0.1}
evaluate: {files: {format: csv, paths: [c.csv], header: true}}
)";

}  // namespace leat::job
