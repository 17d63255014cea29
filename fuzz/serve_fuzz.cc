// Bodies of requests for predictions: the first byte says of which kind, and how much of the rest is JSON.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "job/job.h"
#include "serve/event_reader.h"
#include "serve/inference_protocol.h"

namespace {

constexpr const char* kJob = R"(name: payments
stream: {topic: payments, bots: {events: 100}}
schema:
  format: json
  fields:
    amount: {type: number, mean: 3, std: 2}
    country: {type: category, values: [ES, MX, US]}
    shop: {type: id, below: 10, length: 3}
    note: {type: text, buckets: 8}
    fraud: {type: number, role: label, classes: 2}
model:
  layers: [dense: {units: 2}]
  loss: softmax_cross_entropy
optimizer: {type: sgd, learning_rate: 0.1}
)";

constexpr size_t kMaxRows = 20;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  static const job::Job job = job::Job::FromText(kJob, "job.yaml");
  static serve::EventReader events(job, kMaxRows);
  if (size == 0) return 0;
  const std::string body(reinterpret_cast<const char*>(data + 1), size - 1);
  constexpr std::string_view kTypes[] = {"application/json", "application/x-ndjson",
                                         "application/octet-stream", "text/csv"};
  if (data[0] < 4) {
    const auto read = events.Read(kTypes[data[0]], body);
    if (!read.ok()) return 0;
    LEAT_CHECK((*read)->count <= kMaxRows);
    LEAT_CHECK((*read)->rows.rows + (*read)->rows.dead.size() == (*read)->count);
    LEAT_CHECK(events.CheckFeatures((*read)->rows.features).ok());
    return 0;
  }
  const size_t json = std::min<size_t>(body.size(), data[0]);
  const std::string json_bytes = data[0] == 255 ? "" : std::to_string(json);
  const auto read = serve::ReadInference(body, json_bytes, events.features(), kMaxRows);
  if (!read.ok()) return 0;
  LEAT_CHECK(read->rows >= 1 && read->rows <= kMaxRows);
  if (read->events.empty()) {
    LEAT_CHECK(read->features.size() == read->rows * events.features());
    (void)events.CheckFeatures(read->features);
  } else {
    LEAT_CHECK(read->events.size() == read->rows);
    const std::vector<std::string_view> records(read->events.begin(), read->events.end());
    LEAT_CHECK(events.ReadRecords(records).ok());
  }
  return 0;
}
