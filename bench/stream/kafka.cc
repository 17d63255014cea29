// Payments in a topic of Kafka, with a broker on the same cores: how fast a worker reads and decodes them,
// compared with a loop around librdkafka and simdjson; how fast a job trains on them, compared with the
// training loop that a user would write; the demo, compared with the demo on the embedded log; and what it
// costs to score a model with dropout in a pass of its own.

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "frame/baseline.h"
#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/session.h"
#include "job/job.h"
#include "kafka_loop.h"
#include "payments.h"
#include "run/roles/input/split_loader.h"
#include "stream/bots/bots.h"
#include "stream/kafka/kafka_client.h"
#include "stream/kafka/kafka_topic.h"

namespace {

using namespace leat;
using bench::Check, bench::CheckInterrupted, bench::Fail, bench::PrintProgress;
using Clock = std::chrono::steady_clock;

constexpr int kCores = 2;
constexpr uint32_t kPartitions = 4;
constexpr const char* kTopic = "payments";
constexpr const char* kShortTopic = "payments-short";
constexpr double kDeadline = 600;  // seconds for each run of a program
// The loops read the first events only, enough for ten seconds, and so many are in the short topic.
constexpr uint64_t kLoopEvents = 2'000'000;

// ---- the broker and its topic

// A broker whose topics are in a directory.
class Broker {
 public:
  explicit Broker(std::string directory) : directory_(std::move(directory)) {
    std::istringstream said(Tool("start", {"--listen", "127.0.0.1:0"}));
    if (!(said >> address_)) Fail("tools/kafka start has printed no address");
  }
  ~Broker() {
    try {
      Tool("stop", {"--kill"});
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench kafka: %s\n", e.what());
    }
  }
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  const std::string& address() const { return address_; }

 private:
  std::string Tool(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"/usr/bin/python3", LEAT_KAFKA_TOOL, command, "--directory",
                                      directory_};
    words.insert(words.end(), more.begin(), more.end());
    return bench::Baseline("tools/kafka " + command, words).Finish(kDeadline);
  }

  const std::string directory_;
  std::string address_;
};

// The same number of payments in each partition, in turn.
void Fill(const std::string& address, const char* topic, uint64_t events) {
  constexpr size_t kAppend = 20'000;
  const stream::KafkaOptions options{.topic = topic,
                                     .settings = {{"bootstrap.servers", address}, {"linger.ms", "20"}}};
  Check(stream::CreateKafkaTopic(options, kPartitions));
  auto writer = stream::OpenKafkaWriter(options);
  Check(writer.status());
  stream::Bots bots({.events = events});
  std::vector<std::string> texts(kAppend);
  for (uint64_t written = 0, append = 0; written < events; ++append) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kAppend, events - written));
    for (size_t i = 0; i < count; ++i) {
      texts[i].clear();
      bots.Next(&texts[i]);
    }
    const std::vector<std::string_view> records(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(count));
    Check((*writer)->Append(static_cast<uint32_t>(append % kPartitions), records).status());
    CheckInterrupted();
    written += count;
    PrintProgress("%3.0f %% of %.1f M events written",
                  100.0 * static_cast<double>(written) / static_cast<double>(events),
                  static_cast<double>(events) * 1e-6);
  }
}

// ---- decoding without training

struct Reading {
  double rate = 0;   // events per second
  double cpu_s = 0;  // seconds of this process per million events
};

// Measures a reading of this process from here to Done.
class Stopwatch {
 public:
  Reading Done(uint64_t events) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    return {static_cast<double>(events) / seconds, (Cpu() - cpu_) * 1e6 / static_cast<double>(events)};
  }

 private:
  static double Cpu() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  Clock::time_point begin_ = Clock::now();
  double cpu_ = Cpu();
};

// Reads splits of all partitions in turn, as the only worker of a job would, until `events` are decoded.
Reading Decode(const job::Job& job, uint64_t events) {
  auto source = job.stream->Open();
  Check(source.status());
  auto ranges = (*source)->Ranges();
  Check(ranges.status());
  roles::SplitReader reader(std::move(*source), job.schema);
  roles::PreparedSplit split;
  const uint64_t size = uint64_t{job.batch_size} * job.split_batches;
  uint64_t decoded = 0;
  const Stopwatch time;
  for (uint64_t at = 0; decoded < events; at += size) {
    const uint64_t before = decoded;
    for (const stream::PartitionRange& range : *ranges) {
      if (at >= range.end) continue;
      split.lease.cut = {.partition = range.partition,
                         .begin = {.offset = at},
                         .end = std::min(at + size, range.end),
                         .batch_size = job.batch_size,
                         .shuffle_seed = job.Cuts().shuffle_seed};
      Check(reader.Read(&split));
      if (!split.rows.dead.empty()) Fail("a payment does not fit: " + split.rows.dead[0].reason);
      decoded += split.rows.rows;
    }
    if (decoded == before) Fail("the topic has only " + std::to_string(decoded) + " events");
    CheckInterrupted();
  }
  return time.Done(decoded);
}

Reading Consume(const std::string& address, uint64_t events, bool parse) {
  const Stopwatch time;
  const uint64_t read =
      bench::ConsumePayments({{"bootstrap.servers", address}}, kTopic, kPartitions, events, parse, kDeadline);
  if (read < events) Fail("the loop around librdkafka has read " + std::to_string(read) + " events only");
  return time.Done(read);
}

// ---- training

std::string Replaced(std::string text, std::string_view old, std::string_view with) {
  const size_t begin = text.find(old);
  if (begin == std::string::npos) Fail("there is no '" + std::string(old) + "' in " LEAT_DEMO_JOB);
  return text.replace(begin, old.size(), with);
}

// The demo's job, which reads this topic to its end.
std::string JobText(const std::string& address, const std::string& topic) {
  std::ifstream in(LEAT_DEMO_JOB);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = text.find("\nstream:\n"), end = text.find("\nschema:\n");
  if (begin == std::string::npos || end == std::string::npos) Fail("there is no stream in " LEAT_DEMO_JOB);
  return text.replace(begin, end - begin,
                      "\nstream:\n  topic: " + topic + "\n  kafka: {bootstrap.servers: \"" + address +
                          "\"}\n  bounded: true\n");
}

std::string WithDropout(const std::string& job) {
  constexpr std::string_view kLast = "    - dense: {units: 2}\n";
  return Replaced(job, kLast, "    - dropout: {rate: 0.1}\n" + std::string(kLast));
}

// Its figures are those of the model as it is used, without dropout.
std::string WithDrift(const std::string& job) {
  return Replaced(job, "metrics: {", "metrics: {drift: adwin, ");
}

// Runs a command to its end, and returns the summary of its job.
nlohmann::json Summary(const bench::Scratch& scratch, const std::string& name, std::vector<std::string> words,
                       uint64_t events) {
  words.insert(words.end(), {"--directory", scratch / name, "--json"});
  bench::Running program(words, scratch / (name + ".log"));
  const int status = program.Wait();
  const std::string said = program.Output();
  CheckInterrupted();
  if (status != 0) Fail("the job failed with status " + std::to_string(status) + ": " + said);
  auto summary = nlohmann::json::parse(said.substr(said.rfind("\n{") + 1), nullptr, false);
  if (summary.is_discarded()) Fail("there is no summary: " + said);
  if (summary.value("events", uint64_t{0}) != events) Fail("not every event was trained: " + said);
  return summary;
}

double RateOf(const nlohmann::json& summary) {
  return summary.value("events_per_s", 0.0);
}

double AucOf(const nlohmann::json& summary) {
  const auto found = summary.find("auc");
  if (found == summary.end() || !found->is_number()) Fail("the summary has no auc: " + summary.dump());
  return found->get<double>();
}

double TrainRate(const bench::Scratch& scratch, const std::string& job, uint64_t events,
                 const std::string& name) {
  return RateOf(Summary(scratch, name, {"train", scratch / job, "--workers", "2"}, events));
}

struct Loop {
  std::string name;  // the libraries and their versions
  double rate = 0;
};

Loop TrainByLoop(const std::string& python, const std::string& address, uint64_t events, int threads) {
  bench::Baseline loop("kafka_torch.py",
                       {python, LEAT_LOOP_SCRIPT, address, kTopic, std::to_string(kPartitions),
                        std::to_string(events), std::to_string(threads)},
                       bench::ThreadSettings(threads));
  std::istringstream said(loop.Finish(kDeadline));
  Loop result;
  if (!(said >> result.rate >> std::ws && std::getline(said, result.name)))
    Fail("kafka_torch.py printed no rate: " + said.str());
  return result;
}

// The number of threads with which the loop is faster in its first runs.
int BestThreads(const std::string& python, const std::string& address, uint64_t events) {
  const double one = TrainByLoop(python, address, events, 1).rate;
  return TrainByLoop(python, address, events, kCores).rate > one ? kCores : 1;
}

// Each vector has one element per run.
struct Readings {
  std::vector<double> rates, cpu;
  void Add(const Reading& reading) {
    rates.push_back(reading.rate);
    cpu.push_back(reading.cpu_s);
  }
};
// Results of the demo, on Kafka and on the embedded log.
struct Demos {
  std::vector<double> kafka, log;  // events per second
  std::vector<double> distance;    // between their AUCs
};
struct Results {
  Readings decode, parse, bare;
  std::vector<double> train, loop;         // events per second
  std::vector<double> dropout, inference;  // the same, without and with a pass of its own for scores
  std::string loop_name;
  Demos demos;
};

void RunDemos(const bench::Scratch& scratch, const std::string& address, uint64_t events, int run,
              Demos* demos) {
  const std::string number = std::to_string(run);
  std::vector<std::string> words = {"demo", "--rate", "0", "--events", std::to_string(events)};
  const auto log = Summary(scratch, "demo-log-" + number, words, events);
  words.insert(words.end(), {"--kafka", address});
  const auto kafka = Summary(scratch, "demo-kafka-" + number, words, events);
  demos->log.push_back(RateOf(log));
  demos->kafka.push_back(RateOf(kafka));
  demos->distance.push_back(std::abs(AucOf(log) - AucOf(kafka)));
}

void AddRows(bench::Report& report, const Results& all) {
  const std::string librdkafka = std::string("librdkafka ") + rd_kafka_version_str();
  const std::string parsing = librdkafka + " and " + bench::SimdjsonPayments::Name() + ", one thread";
  report.Add(bench::MedianRow("decoding, one worker", all.decode.rates, "1/s", parsing, all.parse.rates,
                              bench::RatioAtLeast(0.8)));
  report.Add(bench::MedianRow("decoding, one worker", all.decode.rates, "1/s",
                              librdkafka + " without parsing", all.bare.rates));
  report.Add(
      bench::MedianRow("processor time, decoding", all.decode.cpu, "s/M events", parsing, all.parse.cpu));
  report.Add(bench::MedianRow("trained events, 2 workers", all.train, "1/s", all.loop_name + ", one process",
                              all.loop, bench::RatioAtLeast(4)));
  report.Add(bench::MedianRow("demo, bots without a rate", all.demos.kafka, "1/s", "on the embedded log",
                              all.demos.log, bench::RatioAtLeast(0.7)));
  report.Add(bench::MedianRow("demo, AUC away from that on the embedded log", all.demos.distance, "AUC", {},
                              {}, bench::ValueAtMost(0.01)));
  report.Add(bench::MedianRow("trained events, dropout, scores by inference", all.inference, "1/s",
                              "scores as in training", all.dropout));
}

int Run(int argc, char** argv) {
  bench::Args args(argc, argv);
  const auto events = static_cast<uint64_t>(args.Number("--events", 1e7));
  // Long runs: a broker that has just been started compiles its code for many seconds.
  const auto demo_events = static_cast<uint64_t>(args.Number("--demo-events", 1e7));
  const int runs = static_cast<int>(args.Number("--runs", 3));
  args.RefuseTheRest();
  if (events < 100'000 || demo_events < 100'000 || runs < 1) Fail("too few events or runs");

  const std::string python = bench::EnvironmentPython("frameworks");
  bench::UseCores(kCores);
  const bench::Scratch scratch("kafka");
  const Broker broker(scratch / "broker");
  const uint64_t loop_events = std::min(events, kLoopEvents);
  Fill(broker.address(), kTopic, events);
  Fill(broker.address(), kShortTopic, loop_events);
  std::ofstream(scratch / "job.yaml") << JobText(broker.address(), kTopic);
  const std::string dropout = WithDropout(JobText(broker.address(), kShortTopic));
  std::ofstream(scratch / "dropout.yaml") << dropout;
  std::ofstream(scratch / "inference.yaml") << WithDrift(dropout);
  const auto job = job::Job::Load({.file = scratch / "job.yaml", .text = {}, .resume = {}}, {});

  bench::Report report("kafka", args);
  const int threads = BestThreads(python, broker.address(), std::max<uint64_t>(loop_events / 8, 50'000));
  Results all;
  for (int run = 0; run < runs; ++run) {
    PrintProgress("run %d of %d", run + 1, runs);
    all.decode.Add(Decode(job, events));
    all.parse.Add(Consume(broker.address(), events, /*parse=*/true));
    all.bare.Add(Consume(broker.address(), events, /*parse=*/false));
    const std::string number = std::to_string(run);
    all.train.push_back(TrainRate(scratch, "job.yaml", events, "job-" + number));
    const Loop loop = TrainByLoop(python, broker.address(), loop_events, threads);
    all.loop.push_back(loop.rate);
    all.loop_name = loop.name;
    RunDemos(scratch, broker.address(), demo_events, run, &all.demos);
    all.dropout.push_back(TrainRate(scratch, "dropout.yaml", loop_events, "dropout-" + number));
    all.inference.push_back(TrainRate(scratch, "inference.yaml", loop_events, "inference-" + number));
    CheckInterrupted();
  }
  PrintProgress("");
  AddRows(report, all);
  report.Note(
      "payments of the demo as JSON in " + std::to_string(kPartitions) + " partitions, broker on the same " +
      std::to_string(kCores) +
      " cores; the demo's job with 2 workers and 2 servers, and the demo at --rate 0; the loop with " +
      std::to_string(threads) + (threads == 1 ? " thread" : " threads") + " of PyTorch; median of " +
      std::to_string(runs) + " runs");
  return report.Finish();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::Main("kafka", Run, argc, argv);
}
