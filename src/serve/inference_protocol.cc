#include "serve/inference_protocol.h"

#include <simdjson.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/json/text.h"
#include "base/text.h"
#include "serve/event_reader.h"

namespace leat::serve {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kEvents = "events", kFeatures = "features", kScores = "scores";

Status Bad(std::string why) {
  return {Code::kInvalidArgument, std::move(why)};
}

std::string Quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

template <class T>
Result<T> Get(dom::object object, std::string_view key, std::string_view where, const char* kind) {
  T value;
  if (object.at_key(key).get(value) == simdjson::SUCCESS) return value;
  return Bad(std::string(where) + ": " + Quoted(key) + " is missing, or is not " + kind);
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return "[" + Joined(shape, ", ", [](uint64_t extent) { return std::to_string(extent); }) + "]";
}

Result<std::vector<uint64_t>> ShapeOf(dom::object input, std::string_view where) {
  LEAT_ASSIGN_OR_RETURN(const auto array, Get<dom::array>(input, "shape", where, "a list"));
  std::vector<uint64_t> shape;
  for (const dom::element element : array) {
    uint64_t extent = 0;
    if (element.get(extent) != simdjson::SUCCESS || shape.size() == 8)
      return Bad(std::string(where) + ": 'shape' is not a list of up to eight whole numbers");
    shape.push_back(extent);
  }
  return shape;
}

template <class T>
Status Take(dom::element element, std::vector<T>* out) {
  constexpr bool kNumber = std::is_same_v<T, float>;
  std::conditional_t<kNumber, double, std::string_view> value;
  if (element.get(value) != simdjson::SUCCESS)
    return Bad(std::string("'data' has something that is not a ") + (kNumber ? "number" : "string"));
  out->push_back(T(value));
  return {};
}

// The elements of a tensor, [n] or [n, width]: all in one list, or in a list of rows.
template <class T>
Status TakeData(dom::array data, const std::vector<uint64_t>& shape, std::vector<T>* out) {
  const uint64_t width = shape.size() > 1 ? shape[1] : 1;
  const auto misfit = [&shape] {
    return Bad("'data' is neither one list, nor lists in the shape " + ShapeText(shape));
  };
  uint64_t lists = 0;
  for (const dom::element element : data) {
    if (out->size() == shape[0] * width) return Bad("'data' has more elements than 'shape' says");
    dom::array row;
    if (element.get(row) != simdjson::SUCCESS) {
      if (lists > 0) return misfit();
      LEAT_RETURN_IF_ERROR(Take(element, out));
      continue;
    }
    const size_t end = out->size() + width;
    if (shape.size() == 1 || out->size() != lists++ * width) return misfit();
    for (const dom::element value : row) {
      if (out->size() == end || value.is_array()) return misfit();
      LEAT_RETURN_IF_ERROR(Take(value, out));
    }
    if (out->size() != end) return misfit();
  }
  if (out->size() == shape[0] * width) return {};
  return Bad("'data' has " + std::to_string(out->size()) + " elements, and the shape " +
             std::to_string(shape[0] * width));
}

Status TakeFloats(std::string_view bytes, size_t count, std::vector<float>* out) {
  static_assert(std::endian::native == std::endian::little);
  if (bytes.size() / sizeof(float) != count || bytes.size() % sizeof(float) != 0)
    return Bad("'binary_data_size' is " + std::to_string(bytes.size()) + ", and the shape has " +
               std::to_string(count) + " elements of 4 bytes");
  out->resize(count);
  std::memcpy(out->data(), bytes.data(), bytes.size());
  return {};
}

// Each string has its length before it, as four bytes.
Status TakeTexts(std::string_view bytes, size_t count, std::vector<std::string>* out) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t size = 0;
    if (bytes.size() < sizeof(size)) return Bad("the strings end before the last one");
    std::memcpy(&size, bytes.data(), sizeof(size));
    bytes.remove_prefix(sizeof(size));
    if (bytes.size() < size) return Bad("a string is longer than what is there");
    out->emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (!bytes.empty())
    return Bad("there are " + std::to_string(bytes.size()) + " bytes after the last string");
  return {};
}

Result<bool> BoolParameter(dom::object of, std::string_view key) {
  dom::object parameters;
  if (of.at_key("parameters").get(parameters) != simdjson::SUCCESS) return false;
  dom::element value;
  if (parameters.at_key(key).get(value) != simdjson::SUCCESS) return false;
  bool set = false;
  if (value.get(set) != simdjson::SUCCESS) return Bad(Quoted(key) + " is not true or false");
  return set;
}

}  // namespace

Result<InferenceRequest> ReadInference(std::string_view body, std::string_view json_bytes, uint32_t features,
                                       size_t max_rows) {
  size_t head = body.size();
  if (!json_bytes.empty()) {
    head = ToNumber<size_t>(json_bytes).value_or(SIZE_MAX);
    if (head > body.size())
      return Bad("the header Inference-Header-Content-Length is " + Quoted(json_bytes) + ", the body has " +
                 std::to_string(body.size()) + " bytes");
  }
  std::string_view binary = body.substr(head);
  LEAT_ASSIGN_OR_RETURN(const std::string_view json, TextOf(body.substr(0, head)));
  thread_local dom::parser parser;  // keeps its memory
  dom::element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document))
    return Bad(std::string("not JSON: ") + simdjson::error_message(error));
  dom::object root;
  if (document.get(root) != simdjson::SUCCESS) return Bad("the request is not a JSON object");

  InferenceRequest request;
  if (std::string_view id; root.at_key("id").get(id) == simdjson::SUCCESS) request.id = id;
  LEAT_ASSIGN_OR_RETURN(request.binary_output, BoolParameter(root, "binary_data_output"));
  dom::array outputs;
  if (root.at_key("outputs").get(outputs) == simdjson::SUCCESS) {
    for (const dom::element element : outputs) {
      dom::object output;
      if (element.get(output) != simdjson::SUCCESS) return Bad("an output is not an object");
      LEAT_ASSIGN_OR_RETURN(const auto name, Get<std::string_view>(output, "name", "outputs", "a string"));
      if (name != kScores) return Bad("there is no output " + Quoted(name) + "; the output is 'scores'");
      LEAT_ASSIGN_OR_RETURN(const bool as_bytes, BoolParameter(output, "binary_data"));
      request.binary_output = request.binary_output || as_bytes;
    }
  }

  LEAT_ASSIGN_OR_RETURN(const auto inputs, Get<dom::array>(root, "inputs", "request", "a list"));
  if (inputs.size() != 1)
    return Bad("there are " + std::to_string(inputs.size()) + " inputs; send one, 'events' or 'features'");
  dom::object input;
  if (inputs.at(0).get(input) != simdjson::SUCCESS) return Bad("an input is not an object");
  LEAT_ASSIGN_OR_RETURN(const auto name, Get<std::string_view>(input, "name", "inputs", "a string"));
  const std::string where = "input " + Quoted(name);
  const bool events = name == kEvents;
  if (!events && name != kFeatures)
    return Bad("there is no " + where + "; the inputs are 'events' and 'features'");
  LEAT_ASSIGN_OR_RETURN(const auto type, Get<std::string_view>(input, "datatype", where, "a string"));
  const std::string_view wanted = events ? "BYTES" : "FP32";
  if (type != wanted)
    return Bad(where + " has datatype " + Quoted(type) + "; it must be " + std::string(wanted));
  LEAT_ASSIGN_OR_RETURN(const auto shape, ShapeOf(input, where));
  const bool fits = events ? (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1))
                           : (shape.size() == 2 && shape[1] == features);
  if (!fits) {
    return Bad(where + " has shape " + ShapeText(shape) + "; it must be " +
               (events ? "[n]" : "[n, " + std::to_string(features) + "]"));
  }
  if (shape[0] == 0) return Bad(where + " has no rows");
  if (shape[0] > max_rows) {
    return Status(Code::kResourceExhausted, where + " has " + std::to_string(shape[0]) + " rows; at most " +
                                                std::to_string(max_rows) + " go into a request");
  }
  request.rows = shape[0];
  const size_t count = request.rows * (events ? 1 : features);

  dom::object parameters;
  uint64_t bytes = 0;
  const bool is_binary = input.at_key("parameters").get(parameters) == simdjson::SUCCESS &&
                         parameters.at_key("binary_data_size").get(bytes) == simdjson::SUCCESS;
  Status status;
  if (is_binary) {
    if (bytes != binary.size()) {
      return Bad(where + ": 'binary_data_size' is " + std::to_string(bytes) + ", and " +
                 std::to_string(binary.size()) + " bytes come after the JSON");
    }
    status =
        events ? TakeTexts(binary, count, &request.events) : TakeFloats(binary, count, &request.features);
  } else {
    if (!binary.empty())
      return Bad(where + ": bytes come after the JSON, and there is no 'binary_data_size'");
    LEAT_ASSIGN_OR_RETURN(const auto data, Get<dom::array>(input, "data", where, "a list"));
    status = events ? TakeData(data, shape, &request.events) : TakeData(data, shape, &request.features);
  }
  if (!status.ok()) return status.With(where);
  return request;
}

http::Reply InferenceReply(const InferenceModel& model, const InferenceRequest& request,
                           std::span<const float> scores, const Version& version, double age_seconds) {
  std::string out;
  AppendJson(&out, R"({"model_name":)", JsonString(model.name), R"(,"model_version":")", version.number,
             R"(")", request.id.empty() ? "" : R"(,"id":)" + JsonString(request.id),
             R"(,"parameters":{"age_seconds":)", static_cast<float>(age_seconds),
             R"(},"outputs":[{"name":"scores","datatype":"FP32","shape":[)", request.rows, ",",
             model.scores_per_row, "]");
  if (!request.binary_output) {
    AppendJson(&out, R"(,"data":[)", scores, "]}]}");
    return {.body = std::move(out)};
  }
  AppendJson(&out, R"(,"parameters":{"binary_data_size":)", scores.size_bytes(), "}}]}");
  const size_t json = out.size();
  out.append(reinterpret_cast<const char*>(scores.data()), scores.size_bytes());
  return {.type = "application/octet-stream",
          .body = std::move(out),
          .headers = "Inference-Header-Content-Length: " + std::to_string(json) + "\r\n"};
}

std::string ServerMetadata(std::string_view program_version) {
  return R"({"name":"leat","version":)" + JsonString(program_version) +
         R"(,"extensions":["binary_tensor_data"]})" + "\n";
}

std::string ModelMetadata(const InferenceModel& model, std::optional<uint64_t> version) {
  std::string out;
  AppendJson(&out, R"({"name":)", JsonString(model.name), R"(,"versions":[)",
             version ? JsonString(std::to_string(*version)) : "",
             R"(],"platform":"leat","inputs":[{"name":"events","datatype":"BYTES","shape":[-1]},)"
             R"({"name":"features","datatype":"FP32","shape":[-1,)",
             model.features, R"(]}],"outputs":[{"name":"scores","datatype":"FP32","shape":[-1,)",
             model.scores_per_row, "]}]}\n");
  return out;
}

}  // namespace leat::serve
