// Decoding of payments as Avro records, beside the same payments as JSON, on one core.

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frame/measure.h"
#include "frame/report.h"
#include "stream/avro/avro_decoder.h"
#include "stream/bots/bots.h"
#include "stream/decode/decoder.h"

namespace {

using namespace leat;

constexpr size_t kPayments = 4096;  // a split of the demo

struct Part {
  const char* name;
  const char* type;  // of Avro
};
// In the order of the JSON records.
constexpr Part kParts[] = {
    {"id", "string"},          {"time", "string"},    {"customer", "long"},    {"amount", "double"},
    {"times_usual", "double"}, {"hour", "double"},    {"hours_off", "double"}, {"since_last", "int"},
    {"distance_km", "double"}, {"kind", "string"},    {"country", "string"},   {"channel", "string"},
    {"device", "string"},      {"new_device", "int"}, {"fraud", "int"},        {"p_fraud", "double"}};

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

// `framed`: with the id 1 of its schema.
std::string AsAvro(const std::string& payment, bool framed) {
  const auto json = nlohmann::json::parse(payment);
  std::string out = framed ? std::string("\0\0\0\0\1", 5) : "";
  for (const Part& part : kParts) {
    const auto& value = json.at(part.name);
    if (std::string_view(part.type) == "string") {
      const auto text = value.get<std::string>();
      PutLong(static_cast<int64_t>(text.size()), &out);
      out += text;
    } else if (std::string_view(part.type) == "double") {
      const auto x = value.get<double>();
      out.append(reinterpret_cast<const char*>(&x), sizeof(x));
    } else {
      PutLong(value.get<int64_t>(), &out);
    }
  }
  return out;
}

stream::RecordBatch BatchOf(const std::vector<std::string>& records) {
  stream::RecordBatch batch;
  for (const std::string& record : records) {
    const ByteView bytes = AsBytes(record);
    batch.data.insert(batch.data.end(), bytes.begin(), bytes.end());
    batch.offsets.push_back(batch.data.size());
  }
  batch.data.resize(batch.data.size() + stream::RecordBatch::kPadding);
  return batch;
}

stream::Schema AvroSchema(bool framed) {
  std::string yaml = stream::BotsSchemaYaml();
  const std::string json = "format: json";
  yaml.replace(yaml.find(json), json.size(),
               framed ? "avro: {registry: {1: payment.avsc}}\nformat: avro"
                      : "avro: {schema: payment.avsc}\nformat: avro");
  auto schema = stream::Schema::FromConfig(Config::Parse(yaml, "bots"));
  (void)stream::UseAvro({{framed ? 1 : 0, WritersSchema()}}, &schema);
  return schema;
}

// Decodes a batch again and again.
class Decoding {
 public:
  Decoding(const stream::Schema& schema, const std::vector<std::string>& records)
      : decoder_(stream::MakeDecoder(schema)), batch_(BatchOf(records)) {}
  void operator()() {
    rows_.clear();
    decoder_->Decode(batch_, &rows_);
  }
  const stream::DecodedRows& rows() const { return rows_; }

 private:
  std::unique_ptr<stream::Decoder> decoder_;
  stream::RecordBatch batch_;
  stream::DecodedRows rows_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 4);
  args.RefuseTheRest();

  std::vector<std::string> payments(kPayments);
  stream::Bots bots({.seed = 1, .events = kPayments});
  for (std::string& payment : payments) bots.Next(&payment);
  Decoding json(stream::Schema::FromConfig(Config::Parse(stream::BotsSchemaYaml(), "bots")), payments);
  json();

  bench::Report report("avro", args);
  for (const bool framed : {false, true}) {
    std::vector<std::string> records;
    for (const std::string& payment : payments) records.push_back(AsAvro(payment, framed));
    Decoding avro(AvroSchema(framed), records);
    avro();
    if (avro.rows().rows != kPayments || avro.rows().features != json.rows().features) {
      std::fprintf(stderr, "bench avro: its rows are not those of JSON\n");
      return 1;
    }
    const auto compared = bench::Compare([&] { avro(); }, [&] { json(); }, seconds, bench::Time::kThread);
    report.Add({.name = framed ? "Avro payments with framing" : "Avro payments",
                .value = kPayments / compared.a,
                .unit = "1/s",
                .reference = "as JSON",
                .reference_value = kPayments / compared.b,
                .ratio = 1 / compared.ratio,
                .runs = compared.runs,
                .bound = bench::RatioAtLeast(2.5)});
  }
  report.Note("payments of the bots by the demo's schema, one core");
  return report.Finish();
}
