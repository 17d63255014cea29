#include "payments_avro.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/config/config.h"
#include "stream/bots/testing.h"
#include "stream/schema.h"

namespace leat::bench {
namespace {

struct Part {
  const char* name;
  const char* type;  // Avro's name of the type
};
// In the order of the JSON records.
constexpr Part kParts[] = {
    {"id", "string"},          {"time", "string"},    {"customer", "long"},    {"amount", "double"},
    {"times_usual", "double"}, {"hour", "double"},    {"hours_off", "double"}, {"since_last", "int"},
    {"distance_km", "double"}, {"kind", "string"},    {"country", "string"},   {"channel", "string"},
    {"device", "string"},      {"new_device", "int"}, {"fraud", "int"},        {"p_fraud", "double"}};

// A byte 0 and the id 1.
constexpr std::string_view kFrame("\0\0\0\0\1", 5);

std::string WritersSchema() {
  nlohmann::json fields = nlohmann::json::array();
  for (const Part& part : kParts) fields.push_back({{"name", part.name}, {"type", part.type}});
  return nlohmann::json({{"type", "record"}, {"name", "Payment"}, {"fields", fields}}).dump();
}

void PutLong(int64_t x, std::string* out) {
  uint64_t bits = static_cast<uint64_t>(x) << 1 ^ static_cast<uint64_t>(x >> 63);
  for (; bits >= 0x80; bits >>= 7) out->push_back(static_cast<char>(bits | 0x80));
  out->push_back(static_cast<char>(bits));
}

void PutPayment(std::string_view payment, std::string* out) {
  const auto json = nlohmann::json::parse(payment);
  for (const Part& part : kParts) {
    const auto& value = json.at(part.name);
    if (std::string_view(part.type) == "string") {
      const auto text = value.get<std::string>();
      PutLong(static_cast<int64_t>(text.size()), out);
      *out += text;
    } else if (std::string_view(part.type) == "double") {
      const auto x = value.get<double>();
      out->append(reinterpret_cast<const char*>(&x), sizeof(x));
    } else {
      PutLong(value.get<int64_t>(), out);
    }
  }
}

}  // namespace

void AppendAvroPayments(const stream::RecordBatch& json, bool framed, stream::RecordBatch* out) {
  std::string record;
  for (size_t i = 0; i < json.size(); ++i) {
    record = framed ? kFrame : "";
    PutPayment(AsText(json[i]), &record);
    const ByteView bytes = AsBytes(record);
    out->data.insert(out->data.end(), bytes.begin(), bytes.end());
    out->offsets.push_back(out->data.size());
  }
  out->data.resize(out->data.size() + stream::RecordBatch::kPadding);
}

stream::Schema AvroPaymentSchema(bool framed) {
  std::string yaml = stream::BotsSchemaYaml();
  const std::string json = "format: json";
  yaml.replace(yaml.find(json), json.size(),
               framed ? "avro: {registry: {1: payment.avsc}}\nformat: avro"
                      : "avro: {schema: payment.avsc}\nformat: avro");
  auto schema = stream::Schema::FromConfig(Config::Parse(yaml, "bots"));
  (void)stream::UseAvro({{framed ? 1 : 0, WritersSchema()}}, &schema);
  return schema;
}

}  // namespace leat::bench
