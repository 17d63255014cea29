// The Open Inference Protocol (KServe's version 2) over HTTP: bodies of requests and replies, with tensors as
// JSON or, by the extension for binary tensors, as bytes after the JSON.
//
// A model has two inputs, of which a request sends one: `events`, BYTES [n], records as the stream has them;
// or `features`, FP32 [n, width], rows as the decoder makes them. It has one output, `scores`, FP32 [n,
// scores per row].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/http/exchange.h"
#include "serve/versions.h"

namespace leat::serve {

namespace http = net::http;

struct InferenceRequest {
  std::string id;
  size_t rows = 0;
  // The rows are in `events` or in `features`.
  std::vector<std::string> events;
  std::vector<float> features;
  bool binary_output = false;
};

// `features`: of a row. `json_bytes`: the header Inference-Header-Content-Length; empty: the whole body is
// JSON. kInvalidArgument with the input and the values; kResourceExhausted: too many rows. Thread-safe.
Result<InferenceRequest> ReadInference(std::string_view body, std::string_view json_bytes, uint32_t features,
                                       size_t max_rows);

struct InferenceModel {
  std::string name;
  uint32_t features = 0;
  uint32_t scores_per_row = 1;
};

http::Reply InferenceReply(const InferenceModel& model, const InferenceRequest& request,
                           std::span<const float> scores, const Version& version, double age_seconds);
// GET /v2 and /v2/models/NAME.
std::string ServerMetadata(std::string_view program_version);
std::string ModelMetadata(const InferenceModel& model, std::optional<uint64_t> version);

}  // namespace leat::serve
