#include "serve/inference_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace leat::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class InferenceReaderTest : public ::testing::Test {
 protected:
  InferenceRequest Read(const std::string& body, const std::string& json_bytes = "") {
    auto read = ReadInference(body, json_bytes, 2, 10);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    return std::move(read).value();
  }
  std::string Refusal(const std::string& body, const std::string& json_bytes = "") {
    const auto read = ReadInference(body, json_bytes, 2, 10);
    return read.ok() ? "" : read.status().message();
  }
};

TEST_F(InferenceReaderTest, FeaturesAsJson) {
  for (const char* data : {"[1, 2.5, 3, 4]", "[[1, 2.5], [3, 4]]"}) {
    const auto request =
        Read(R"({"id": "a", "inputs": [{"name": "features", "shape": [2, 2], "datatype": "FP32", "data": )" +
             std::string(data) + "}]}");
    EXPECT_EQ(request.id, "a");
    EXPECT_EQ(request.rows, 2u);
    EXPECT_THAT(request.features, ElementsAre(1, 2.5f, 3, 4));
    EXPECT_FALSE(request.binary_output);
  }
}

TEST_F(InferenceReaderTest, EventsAsJson) {
  const auto request = Read(
      R"({"inputs": [{"name": "events", "shape": [2, 1], "datatype": "BYTES", "data": ["{\"x\": 1}", "b"]}],
          "outputs": [{"name": "scores", "parameters": {"binary_data": true}}]})");
  EXPECT_THAT(request.events, ElementsAre(R"({"x": 1})", "b"));
  EXPECT_TRUE(request.binary_output);
}

TEST_F(InferenceReaderTest, NestingIsThatOfTheShape) {
  const auto refusal = [this](const std::string& name, const std::string& shape, const std::string& data) {
    return Refusal(R"({"inputs": [{"name": ")" + name + R"(", "shape": )" + shape + R"(, "datatype": ")" +
                   (name == "events" ? "BYTES" : "FP32") + R"(", "data": )" + data + "}]}");
  };
  EXPECT_EQ(refusal("events", "[2, 1]", R"([["a"], ["b"]])"), "");
  EXPECT_EQ(refusal("features", "[1, 2]", "[[1, 2]]"), "");
  for (const char* data :
       {"[[1, 2, 3], [4]]", "[[1], [2], [3], [4]]", "[[1, 2], 3, 4]", "[1, 2, [3, 4]]", "[1, [2, 3], 4]",
        "[[1, 2, 3, 4]]", "[[], [1, 2], [3, 4]]", "[[1, 2], [3, 4], [5, 6]]", "[[1, 2], [3, [4]]]",
        "[[1, 2]]", "[[[1, 2], [3, 4]]]", "[]", "[[]]", "[[1, 2], [3, 4], []]"})
    EXPECT_THAT(refusal("features", "[2, 2]", data), HasSubstr("'data' ")) << data;
  for (const char* data : {R"([["a"], ["b"]])", R"([["a", "b"]])", R"(["a", ["b"]])"})
    EXPECT_EQ(refusal("events", "[2]", data),
              "input 'events': 'data' is neither one list, nor lists in the shape [2]");
  EXPECT_THAT(refusal("events", "[2, 1]", R"([["a", "b"]])"), HasSubstr("lists in the shape [2, 1]"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_NE(refusal("features", "[2, 2]", deep), "");
}

TEST_F(InferenceReaderTest, AByteOrderMarkIsNoPartOfTheJson) {
  const std::string json =
      R"({"inputs": [{"name": "features", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})";
  EXPECT_THAT(Read("\xEF\xBB\xBF" + json).features, ElementsAre(1, 2));
  EXPECT_THAT(Read("\xEF\xBB\xBF" + json, std::to_string(json.size() + 3)).features, ElementsAre(1, 2));
  EXPECT_EQ(Refusal(std::string("\xFF\xFE{\0}\0", 6)), "the body is in UTF-16; send UTF-8");
  EXPECT_THAT(Refusal("\xEF\xBB\xBF"), HasSubstr("not JSON"));
}

TEST_F(InferenceReaderTest, BinaryTensors) {
  std::string json =
      R"({"inputs":[{"name":"features","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],
          "parameters":{"binary_data_output":true}})";
  const float values[] = {1.5f, -2};
  std::string body = json;
  body.append(reinterpret_cast<const char*>(values), sizeof(values));
  const auto request = Read(body, std::to_string(json.size()));
  EXPECT_THAT(request.features, ElementsAre(1.5f, -2));
  EXPECT_TRUE(request.binary_output);

  json =
      R"({"inputs":[{"name":"events","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":11}}]})";
  body = json + std::string("\3\0\0\0abc\0\0\0\0", 11);
  EXPECT_THAT(Read(body, std::to_string(json.size())).events, ElementsAre("abc", ""));
}

TEST_F(InferenceReaderTest, WhatDoesNotFit) {
  const auto with = [](const std::string& input) { return R"({"inputs": [{)" + input + "}]}"; };
  EXPECT_THAT(Refusal("{"), HasSubstr("not JSON"));
  EXPECT_EQ(Refusal("[]"), "the request is not a JSON object");
  EXPECT_EQ(Refusal("{}"), "request: 'inputs' is missing, or is not a list");
  EXPECT_EQ(Refusal(R"({"inputs": []})"), "there are 0 inputs; send one, 'events' or 'features'");
  EXPECT_EQ(Refusal(R"({"inputs": [7]})"), "an input is not an object");
  EXPECT_EQ(Refusal(with(R"("name": "x")")), "there is no input 'x'; the inputs are 'events' and 'features'");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP64", "shape": [1, 2], "data": [1, 2])")),
            "input 'features' has datatype 'FP64'; it must be FP32");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3])")),
            "input 'features' has shape [1, 3]; it must be [n, 2]");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [-1, 2], "data": [1, 2])")),
            "input 'features': 'shape' is not a list of up to eight whole numbers");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [0, 2], "data": [])")),
            "input 'features' has no rows");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [11, 2], "data": [])")),
            "input 'features' has 11 rows; at most 10 go into a request");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [1, 2], "data": [1])")),
            "input 'features': 'data' has 1 elements, and the shape 2");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [1, 2], "data": [1, 2, 3])")),
            "input 'features': 'data' has more elements than 'shape' says");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [1, 2], "data": [1, "a"])")),
            "input 'features': 'data' has something that is not a number");
  EXPECT_EQ(Refusal(with(R"("name": "features", "datatype": "FP32", "shape": [1, 2], "data": [[[1], 2]])")),
            "input 'features': 'data' is neither one list, nor lists in the shape [1, 2]");
  EXPECT_EQ(Refusal(with(R"("name": "events", "datatype": "BYTES", "shape": [1], "data": [1])")),
            "input 'events': 'data' has something that is not a string");
  EXPECT_EQ(Refusal(R"({"outputs": [{"name": "y"}], "inputs": []})"),
            "there is no output 'y'; the output is 'scores'");
}

TEST_F(InferenceReaderTest, BinaryTensorsThatDoNotFit) {
  const auto refusal = [&](const std::string& name, const std::string& shape, uint64_t said,
                           const std::string& bytes) {
    const std::string json = R"({"inputs":[{"name":")" + name + R"(","shape":)" + shape + R"(,"datatype":")" +
                             (name == "events" ? "BYTES" : "FP32") +
                             R"(","parameters":{"binary_data_size":)" + std::to_string(said) + "}}]}";
    return Refusal(json + bytes, std::to_string(json.size()));
  };
  EXPECT_EQ(refusal("features", "[1,2]", 8, "1234"),
            "input 'features': 'binary_data_size' is 8, and 4 bytes come after the JSON");
  EXPECT_EQ(refusal("features", "[1,2]", 4, "1234"),
            "input 'features': 'binary_data_size' is 4, and the shape has 2 elements of 4 bytes");
  EXPECT_EQ(refusal("features", "[1,2]", 9, "123456789"),
            "input 'features': 'binary_data_size' is 9, and the shape has 2 elements of 4 bytes");
  EXPECT_EQ(refusal("events", "[1]", 2, "ab"), "input 'events': the strings end before the last one");
  EXPECT_EQ(refusal("events", "[1]", 5, std::string("\2\0\0\0a", 5)),
            "input 'events': a string is longer than what is there");
  EXPECT_EQ(refusal("events", "[1]", 6, std::string("\1\0\0\0ab", 6)),
            "input 'events': there are 1 bytes after the last string");
  EXPECT_THAT(Refusal("{}", "3"), HasSubstr("Inference-Header-Content-Length is '3'"));
  EXPECT_THAT(Refusal("{}", "-1"), HasSubstr("Inference-Header-Content-Length is '-1'"));
}

TEST(InferenceReplyTest, JsonAndBinary) {
  const InferenceModel model{.name = "a \"b\"", .features = 2, .scores_per_row = 2};
  InferenceRequest request{.id = "id \"1\"", .rows = 2, .events = {}, .features = {}};
  const std::vector<float> scores{0.25f, 0.75f, 1e-9f, NAN};
  const Version version{.number = 7};
  http::Reply reply = InferenceReply(model, request, scores, version, 0.5);
  Json json = Json::parse(reply.body);
  EXPECT_EQ(json["model_name"], "a \"b\"");
  EXPECT_EQ(json["model_version"], "7");
  EXPECT_EQ(json["id"], "id \"1\"");
  EXPECT_EQ(json["parameters"]["age_seconds"], 0.5);
  EXPECT_EQ(json["outputs"][0]["shape"], Json({2, 2}));
  EXPECT_EQ(json["outputs"][0]["data"].dump(), "[0.25,0.75,1e-09,null]");
  EXPECT_EQ(reply.headers, "");

  request.binary_output = true;
  reply = InferenceReply(model, request, scores, version, 0.5);
  constexpr std::string_view kHeader = "Inference-Header-Content-Length: ";
  ASSERT_TRUE(reply.headers.starts_with(kHeader));
  const size_t json_bytes = std::stoul(reply.headers.substr(kHeader.size()));
  json = Json::parse(reply.body.substr(0, json_bytes));
  EXPECT_EQ(json["outputs"][0]["parameters"]["binary_data_size"], 16);
  EXPECT_EQ(reply.body.size(), json_bytes + 16);
  EXPECT_EQ(std::memcmp(reply.body.data() + json_bytes, scores.data(), 16), 0);
}

TEST(MetadataTest, IsJson) {
  const Json server = Json::parse(ServerMetadata("0.1"));
  EXPECT_EQ(server["extensions"], Json({"binary_tensor_data"}));
  const Json model = Json::parse(ModelMetadata({.name = "m", .features = 5, .scores_per_row = 3}, 12));
  EXPECT_EQ(model["versions"], Json({"12"}));
  EXPECT_EQ(model["inputs"][1]["shape"], Json({-1, 5}));
  EXPECT_EQ(model["outputs"][0]["shape"], Json({-1, 3}));
  EXPECT_EQ(Json::parse(ModelMetadata({.name = "m"}, std::nullopt))["versions"], Json::array());
}

}  // namespace
}  // namespace leat::serve
