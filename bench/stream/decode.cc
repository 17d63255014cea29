// The decoders on one core: payments of the demo's bots as JSON and as CSV, against the fastest libraries
// that read the same fields, and as Avro, against our own JSON.

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "frame/baseline.h"
#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "payments.h"
#include "payments_avro.h"
#include "stream/bots/testing.h"
#include "stream/decode/decoder.h"

namespace {

using namespace leat;

// Many splits in turn, so that no branch predictor knows them by heart.
constexpr size_t kSplits = 16;
constexpr size_t kSplitEvents = 4096;

[[noreturn]] void Fail(const std::string& why) {
  throw std::runtime_error(why);
}

stream::Schema PaymentSchema() {
  return stream::Schema::FromConfig(Config::Parse(stream::BotsSchemaYaml(), "schema"));
}

// Decodes a batch, of which every record has to fit.
class Decoding {
 public:
  explicit Decoding(const stream::Schema& schema) : decoder_(stream::MakeDecoder(schema)) {}
  const stream::DecodedRows& Decode(const stream::RecordBatch& batch) {
    rows_.clear();
    decoder_->Decode(batch, &rows_);
    if (!rows_.dead.empty() || rows_.rows != batch.size())
      Fail("a payment does not fit: " + rows_.dead[0].reason);
    return rows_;
  }

 private:
  std::unique_ptr<stream::Decoder> decoder_;
  stream::DecodedRows rows_;
};

void CheckEqual(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) Fail("the decoders differ in the number of values");
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 1e-5f * (1 + std::abs(a[i])))
      Fail("the decoders differ: " + std::to_string(a[i]) + " and " + std::to_string(b[i]));
  }
}

// Splits lines from memory into records, as a source of CSV does, and decodes them.
class CsvReading {
 public:
  CsvReading() : decoding_(Schema()) {}
  // The text ends in a line end.
  const stream::DecodedRows& Read(std::string_view text) {
    records_.Restart(0, 0);
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      records_.data.insert(records_.data.end(), begin + at, begin + end);
      records_.offsets.push_back(records_.data.size());
      at = end + 1;
    }
    records_.data.resize(records_.data.size() + stream::RecordBatch::kPadding);
    return decoding_.Decode(records_);
  }

 private:
  static stream::Schema Schema() {
    stream::Schema schema = PaymentSchema();
    schema.format = stream::Schema::Format::kCsv;
    schema.UseColumns(bench::PaymentColumns());
    return schema;
  }

  Decoding decoding_;
  stream::RecordBatch records_;
};

struct Data {
  std::array<stream::RecordBatch, kSplits> json, avro, framed;
  std::array<std::string, kSplits> csv;                  // lines
  size_t json_bytes = 0, csv_bytes = 0, avro_bytes = 0;  // per payment, on average

  Data() {
    stream::Bots bots({.events = kSplits * kSplitEvents});
    for (size_t s = 0; s < kSplits; ++s) {
      bench::AppendPayments(bots, kSplitEvents, &json[s]);
      for (size_t i = 0; i < json[s].size(); ++i) csv[s] += bench::PaymentLine(AsText(json[s][i])) + "\n";
      bench::AppendAvroPayments(json[s], false, &avro[s]);
      bench::AppendAvroPayments(json[s], true, &framed[s]);
      json_bytes += json[s].offsets.back();
      csv_bytes += csv[s].size();
      avro_bytes += avro[s].offsets.back();
    }
    json_bytes /= kSplits * kSplitEvents;
    csv_bytes /= kSplits * kSplitEvents;
    avro_bytes /= kSplits * kSplitEvents;
  }

  // With a header.
  void WriteCsv(const std::string& file) const {
    std::ofstream out(file, std::ios::binary);
    std::string header;
    for (const std::string& column : bench::PaymentColumns()) header += (header.empty() ? "" : ",") + column;
    out << header << '\n';
    for (const std::string& lines : csv) out << lines;
    if (!out.flush()) Fail("cannot write " + file);
  }
};

// Rates in events per second, one per run.
struct Rates {
  std::vector<double> ours, reference;
};

struct Results {
  Rates json, csv, avro, framed;
  std::string arrow_name;
};

void MeasureJson(const Data& data, double seconds, Results* all) {
  Decoding ours(PaymentSchema());
  bench::SimdjsonPayments peer;
  bench::PaymentRows rows;
  for (const stream::RecordBatch& split : data.json) {
    peer.Decode(split, &rows);
    const stream::DecodedRows& decoded = ours.Decode(split);
    CheckEqual(decoded.features, rows.features);
    CheckEqual(decoded.labels, rows.labels);
    CheckEqual(decoded.truth, rows.truth);
  }
  size_t a = 0, b = 0;
  const bench::Comparison times =
      bench::Compare([&] { ours.Decode(data.json[a++ % kSplits]); },
                     [&] { peer.Decode(data.json[b++ % kSplits], &rows); }, seconds, bench::Time::kThread);
  all->json.ours.push_back(kSplitEvents / times.a);
  all->json.reference.push_back(kSplitEvents / times.b);
}

void MeasureAvro(const Data& data, bool framed, double seconds, Rates* rates) {
  const auto& splits = framed ? data.framed : data.avro;
  Decoding avro(bench::AvroPaymentSchema(framed)), json(PaymentSchema());
  for (size_t s = 0; s < kSplits; ++s) {
    const stream::DecodedRows& decoded = avro.Decode(splits[s]);
    CheckEqual(decoded.features, json.Decode(data.json[s]).features);
    CheckEqual(decoded.labels, json.Decode(data.json[s]).labels);
  }
  size_t a = 0, b = 0;
  const bench::Comparison times =
      bench::Compare([&] { avro.Decode(splits[a++ % kSplits]); },
                     [&] { json.Decode(data.json[b++ % kSplits]); }, seconds, bench::Time::kThread);
  rates->ours.push_back(kSplitEvents / times.a);
  rates->reference.push_back(kSplitEvents / times.b);
}

void MeasureCsv(const Data& data, bench::Baseline& arrow, double seconds, Results* all) {
  Decoding json(PaymentSchema());
  CsvReading ours;
  for (size_t s = 0; s < kSplits; ++s)
    CheckEqual(ours.Read(data.csv[s]).features, json.Decode(data.json[s]).features);
  size_t a = 0;
  const double time =
      bench::Measure([&] { ours.Read(data.csv[a++ % kSplits]); }, seconds, bench::Time::kThread);
  all->csv.ours.push_back(kSplitEvents / time);
  std::istringstream said(arrow.Ask(std::to_string(seconds), 60 + 10 * seconds));
  double peer = 0;
  size_t rows = 0;
  if (!(said >> peer >> rows >> std::ws && std::getline(said, all->arrow_name)) ||
      rows != kSplits * kSplitEvents)
    Fail("decode_arrow.py has not read all payments: " + said.str());
  all->csv.reference.push_back(static_cast<double>(rows) / peer);
}

int Run(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 2);
  const int runs = static_cast<int>(args.Number("--runs", 5));
  args.RefuseTheRest();
  if (seconds <= 0 || runs < 1) Fail("too few seconds or runs");

  const std::string python = bench::EnvironmentPython("arrow");
  bench::UseCores(1);
  const Data data;
  const bench::Scratch scratch("decode");
  data.WriteCsv(scratch / "payments.csv");
  bench::Baseline arrow("decode_arrow.py", {python, LEAT_ARROW_SCRIPT, scratch / "payments.csv"},
                        bench::ThreadSettings(1));
  bench::Report report("decode", args);
  Results all;
  for (int run = 0; run < runs; ++run) {
    MeasureJson(data, seconds, &all);
    MeasureCsv(data, arrow, seconds, &all);
    MeasureAvro(data, false, seconds, &all.avro);
    MeasureAvro(data, true, seconds, &all.framed);
  }
  const auto add = [&](const char* name, const Rates& rates, const std::string& reference, double least) {
    report.Add(bench::MedianRow(name, rates.ours, "1/s of a core", reference, rates.reference,
                                bench::RatioAtLeast(least)));
  };
  add("JSON payments", all.json, bench::SimdjsonPayments::Name(), 0.9);
  add("CSV payments", all.csv, all.arrow_name + ", one thread", 1);
  add("Avro payments", all.avro, "as JSON", 2.5);
  add("Avro payments with framing", all.framed, "as JSON", 2.5);
  report.Note("16 fields, of which 12 are read into 30 features, a label and a probability; " +
              std::to_string(data.json_bytes) + " bytes as JSON, " + std::to_string(data.csv_bytes) +
              " as CSV, " + std::to_string(data.avro_bytes) +
              " as Avro; simdjson writes the same rows, pyarrow columns of the same fields; median of " +
              std::to_string(runs) + " runs");
  return report.Finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench decode: %s\n", e.what());
    return 1;
  }
}
