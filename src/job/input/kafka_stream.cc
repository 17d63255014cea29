#include "job/input/kafka_stream.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/text.h"
#include "stream/csv/csv_settings.h"
#include "stream/decode/decoder.h"
#include "stream/join/join_source.h"
#include "stream/kafka/kafka_topic.h"

namespace leat::job {
namespace {

constexpr double kLongestWindow = 30 * 86'400;
constexpr double kLongestIdle = 86'400;
// A process looks at both topics from two places.
constexpr uint64_t kReaders = 4;

constexpr int64_t kMostPartitions = 1024;
constexpr const char* kCommandLine = "command line";

// Whether a topic keeps each record for so long. Adds to the warning if not.
Status CheckKept(const stream::KafkaOptions& options, double checkpoint_interval_s, double window_s,
                 std::string* warning) {
  const std::string name = options.Where();
  const auto warn = [warning](const std::string& text) { *warning += (warning->empty() ? "" : "; ") + text; };
  const auto settings = stream::DescribeKafkaTopic(options);
  if (settings.status().code() == Code::kPermissionDenied) {
    warn(settings.status().message() +
         ": whether it is compacted, and for how long it keeps records, is unknown");
    return {};
  }
  if (!settings.ok()) return settings.status();
  if (settings->compacted) {
    return {
        Code::kInvalidArgument,
        name +
            " is compacted (cleanup.policy): its records disappear one by one, so a job cannot count each "
            "of them once"};
  }
  const double kept_s = static_cast<double>(settings->retention_ms) / 1000;
  if (settings->retention_ms < 0 || kept_s >= window_s + 3 * checkpoint_interval_s) return {};
  std::ostringstream text;
  text << name << " keeps records for " << kept_s << " s (retention.ms), less than ";
  if (window_s > 0) text << "the window of " << window_s << " s and ";
  text << "three checkpoint intervals of " << checkpoint_interval_s << " s: after a crash some may be gone";
  warn(text.str());
  return {};
}

// NAME=VALUE of --kafka-setting, where VALUE may say where the value is: env:VARIABLE or file:PATH.
Config WithSetting(const Config& kafka, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0)
    throw std::invalid_argument("--kafka-setting '" + setting + "' is not NAME=VALUE");
  const std::string name = setting.substr(0, equals), value = setting.substr(equals + 1);
  for (const std::string where : {"env", "file"}) {
    if (value.starts_with(where + ":"))
      return kafka.With(name, Config::EmptyMap(kCommandLine).With(where, value.substr(where.size() + 1)));
  }
  if (stream::IsKafkaSecret(name)) {
    throw std::invalid_argument("--kafka-setting " + name +
                                ": others can see a secret on a command line; say where it is: " + name +
                                "=env:VARIABLE or " + name + "=file:PATH");
  }
  return kafka.With(name, value);
}

Config AddBrokers(const Config& stream, const std::string& brokers,
                  const std::vector<std::string>& settings) {
  Config kafka = Config::EmptyMap(kCommandLine).With("bootstrap.servers", brokers);
  for (const std::string& setting : settings) kafka = WithSetting(kafka, setting);
  return stream.With("kafka", kafka);
}

}  // namespace

LabelTopic LabelTopic::FromConfig(const Config& labels) {
  labels.Allow({"topic", "window_s", "idle_s", "unjoined", "format", "delimiter", "columns"});
  using Format = stream::Schema::Format;
  LabelTopic late;
  late.topic = labels.At("topic").String();
  if (late.topic.empty()) labels.At("topic").Fail("topic is empty");
  (void)labels.At("window_s");
  late.window_ms = std::llround(1000 * labels.Number("window_s", 0, 0.001, kLongestWindow));
  late.idle = FromSeconds(labels.Number("idle_s", Seconds(late.idle), 0.1, kLongestIdle));
  if (labels.Has("unjoined"))
    late.records.negative = labels.At("unjoined").OneOf("unjoined", {"skip", "negative"}) == "negative";
  if (labels.Has("format") && labels.At("format").OneOf("format", {"json", "csv"}) == "csv")
    late.records.format = Format::kCsv;
  for (const char* key : {"delimiter", "columns"}) {
    if (labels.Has(key) && late.records.format != Format::kCsv)
      labels.At(key).Fail(std::string(key) + (key[0] == 'c' ? " are" : " is") + " for the format csv");
  }
  if (labels.Has("delimiter")) late.records.delimiter = stream::DelimiterFrom(labels.At("delimiter"));
  if (labels.Has("columns")) late.records.columns = stream::NamesFrom(labels.At("columns"), "columns");
  return late;
}

std::string LabelTopic::Identity() const {
  std::ostringstream text;
  text << std::setprecision(12) << "labels of " << topic << " within "
       << static_cast<double>(window_ms) / 1000 << " s";
  return text.str();
}

stream::KafkaOptions LabelTopic::OptionsLike(const stream::KafkaOptions& events) const {
  stream::KafkaOptions options = events;
  options.topic = topic;
  options.start.clear();
  options.end.clear();
  options.records = 0;
  // A range may begin with labels that are too old for its events.
  options.skip_expired = true;
  return options;
}

std::optional<int64_t> ParseTime(const std::string& text) {
  std::tm time{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (rest == nullptr) return std::nullopt;
  int64_t ms = 0;
  if (*rest == '.') {
    int64_t unit = 100;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) ms += unit * (*rest - '0');
  }
  int64_t offset_s = 0;
  if (std::string_view(rest) != "Z") {
    int hours = 0, minutes = 0;
    char sign = 0, end = 0;
    if (std::sscanf(rest, "%c%2d:%2d%c", &sign, &hours, &minutes, &end) != 3 || (sign != '+' && sign != '-'))
      return std::nullopt;
    offset_s = (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
  }
  return (timegm(&time) - offset_s) * 1000 + ms;
}

const StreamKind& KafkaKind() {
  static constexpr TopicOption kOption = {
      .key = "kafka",
      .value = "BROKERS",
      .help = "the topic is in Kafka, with these brokers: HOST:PORT,HOST:PORT",
      .add = AddBrokers,
      .setting = "--kafka-setting",
      .setting_help =
          "a setting of librdkafka, NAME=VALUE; env:VARIABLE or file:PATH as VALUE says where a secret is"};
  static const StreamKind kKind = {
      .name = "a Kafka topic",
      .keys = {"kafka", "topic", "start", "bounded", "partitions", "max_partitions", "bots", "live",
               "fail_on_data_loss", "dead_letters", "labels"},
      .read = [](const Config& config, const StreamPaths&) -> AnyStream { return KafkaStream(config); },
      .traits =
          {.product = "Kafka", .remote = true, .attributes = true, .predictions = true, .fingerprints = true},
      .topic = &kOption};
  return kKind;
}

KafkaStream::KafkaStream(const Config& config) {
  options.topic = config.At("topic").String();
  if (options.topic.empty()) config.At("topic").Fail("topic is empty");
  const Config settings = config.At("kafka");
  for (const std::string& name : settings.Keys()) {
    const Config value = settings.At(name);
    if (value.IsMap() || stream::IsKafkaSecret(name)) {
      if (const Status good = stream::CheckKafkaSetting(name); !good.ok()) value.Fail(good.message());
      secrets.push_back(stream::ReadSecret(value, name));
      continue;
    }
    const std::string text = value.String();
    if (const Status good = stream::CheckKafkaSetting(name, text); !good.ok()) value.Fail(good.message());
    options.settings[name] = text;
  }
  if (options.settings["bootstrap.servers"].empty())
    settings.Fail("'bootstrap.servers' is missing: the addresses of brokers, as host:port,host:port");
  start = config.String("start", "earliest");
  if (start != "earliest" && start != "latest" && !ParseTime(start)) {
    config.At("start").Fail("start is '" + start +
                            "'; it is earliest, latest, or a time such as 2026-01-31T12:00:00Z");
  }
  bounded = config.Bool("bounded", false);
  live = config.Bool("live", false);
  fail_on_data_loss = config.Bool("fail_on_data_loss", true);
  dead_letters = config.String("dead_letters", "");
  if (dead_letters == options.topic)
    config.At("dead_letters").Fail("dead letters need another topic than '" + dead_letters + "'");
  if (config.Has("bots")) bots_ = stream::BotsConfig::FromConfig(config.At("bots"));
  if (config.Has("partitions") && !bots_)
    config.At("partitions").Fail("only a topic that bots write is made by the job; this one exists");
  partitions = static_cast<uint32_t>(config.Integer("partitions", partitions, 1, kMostPartitions));
  max_partitions = static_cast<uint32_t>(config.Integer("max_partitions", 0, 1, kMostPartitions));
  if (bots_ && bounded) config.At("bounded").Fail("a topic that bots write ends with their last event");
  ReadLabels(config);
}

void KafkaStream::ReadLabels(const Config& config) {
  if (!config.Has("labels")) return;
  const Config section = config.At("labels");
  labels = LabelTopic::FromConfig(section);
  if (labels->topic == options.topic || labels->topic == dead_letters)
    section.At("topic").Fail("labels need another topic than '" + labels->topic + "', which the stream uses");
  if (bots_) section.Fail("bots write labels into their events; labels that come later are for others");
}

Result<stream::KafkaOptions> KafkaStream::Complete() const {
  stream::KafkaOptions complete = options;
  for (const auto& secret : secrets) {
    LEAT_ASSIGN_OR_RETURN(complete.settings[secret.setting], stream::ReadSecretValue(secret));
  }
  if (bots_) complete.records = bots_->events;
  complete.skip_expired = !fail_on_data_loss;
  return complete;
}

SourceIdentity KafkaStream::Identity() const {
  // Partitions may be added.
  return {.topic = "kafka:" + options.topic + (labels ? ", " + labels->Identity() : ""),
          .partitions = 0,
          .windows = ""};
}

std::vector<std::string> KafkaStream::topics() const {
  std::vector<std::string> all = {options.topic};
  if (!dead_letters.empty()) all.push_back(dead_letters);
  if (labels) all.push_back(labels->topic);
  return all;
}

LossRules KafkaStream::loss_rules() const {
  return {.expired = fail_on_data_loss ? Loss::kRefusedBySetting : Loss::kAccepted,
          .leader_change = std::chrono::seconds(30)};
}

void KafkaStream::SetBounds(StreamBounds bounds) {
  options.start = std::move(bounds.start);
  options.end = std::move(bounds.end);
}

Result<std::vector<std::string>> KafkaStream::Identify() const {
  LEAT_ASSIGN_OR_RETURN(const auto complete, Complete());
  LEAT_ASSIGN_OR_RETURN(const std::string cluster, stream::KafkaClusterId(complete));
  return std::vector<std::string>{"kafka:" + cluster + "/" + options.topic};
}

Status KafkaStream::Prepare() const {
  if (!bots_ && dead_letters.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(auto complete, Complete());
  if (bots_) LEAT_RETURN_IF_ERROR(stream::CreateKafkaTopic(complete, partitions));
  if (dead_letters.empty()) return {};
  complete.topic = dead_letters;
  return stream::CreateKafkaTopic(complete, 1);
}

Result<std::unique_ptr<stream::DeadLetterSink>> KafkaStream::OpenDeadLetters() const {
  if (dead_letters.empty()) return std::unique_ptr<stream::DeadLetterSink>();
  LEAT_ASSIGN_OR_RETURN(auto complete, Complete());
  complete.topic = dead_letters;
  return stream::OpenKafkaDeadLetters(complete, options.topic);
}

Result<std::unique_ptr<stream::TopicTransactions>> KafkaStream::OpenPredictions(const std::string& to,
                                                                                const std::string& job,
                                                                                uint32_t group) const {
  LEAT_ASSIGN_OR_RETURN(auto complete, Complete());
  complete.topic = to;
  const std::string consumers = job + "-predictions";
  return stream::OpenKafkaTransactions({.kafka = std::move(complete),
                                        .partitions = partitions,
                                        .id = StrCat(consumers, "-", group),
                                        .group = consumers,
                                        .topic = options.topic});
}

Status KafkaStream::Create(uint32_t count) const {
  LEAT_ASSIGN_OR_RETURN(const auto complete, Complete());
  return stream::CreateKafkaTopic(complete, count > 0 ? count : partitions);
}

Result<std::unique_ptr<stream::Source>> KafkaStream::Open() const {
  LEAT_ASSIGN_OR_RETURN(const auto complete, Complete());
  if (!labels) {
    LEAT_ASSIGN_OR_RETURN(auto topic, stream::OpenKafka(complete));
    return std::unique_ptr<stream::Source>(std::move(topic));
  }
  const auto opener = [](stream::KafkaOptions topic) {
    topic.prefetch_bytes /= kReaders;
    return [topic = std::move(topic)] { return stream::OpenKafka(topic); };
  };
  const stream::KafkaOptions others = labels->OptionsLike(complete);
  return stream::MakeJoinSource({.open_events = opener(complete),
                                 .open_labels = opener(others),
                                 .events_name = complete.Where(),
                                 .labels_name = others.Where(),
                                 .window_ms = labels->window_ms,
                                 .idle = labels->idle});
}

Result<std::unique_ptr<stream::Source>> KafkaStream::OpenEvents(const std::string& group) const {
  KafkaStream events = *this;
  events.labels.reset();  // joined events have neither a group's offsets nor fingerprints
  events.options.group = group;
  return events.Open();
}

Status KafkaStream::CheckEmpty() const {
  if (bots_ || live) return {};
  return {Code::kInvalidArgument, Describe() + " is empty; a stream that is waited for says 'live: true'"};
}

Result<std::unique_ptr<stream::TopicWriter>> KafkaStream::OpenWriter() const {
  LEAT_ASSIGN_OR_RETURN(const auto complete, Complete());
  return stream::OpenKafkaWriter(complete);
}

Status KafkaStream::Check(double checkpoint_interval_s, std::string* warning) const {
  LEAT_ASSIGN_OR_RETURN(auto complete, Complete());
  const double window_s = labels ? static_cast<double>(labels->window_ms) / 1000 : 0;
  LEAT_RETURN_IF_ERROR(CheckKept(complete, checkpoint_interval_s, window_s, warning));
  if (!labels) return {};
  const stream::KafkaOptions others = labels->OptionsLike(complete);
  LEAT_RETURN_IF_ERROR(CheckKept(others, checkpoint_interval_s, window_s, warning));
  complete.start.clear();
  complete.end.clear();
  LEAT_ASSIGN_OR_RETURN(const auto all_events, stream::OpenKafka(complete));
  LEAT_ASSIGN_OR_RETURN(const auto all_labels, stream::OpenKafka(others));
  return stream::CheckCopartitioned(*all_events, complete.Where(), *all_labels, others.Where(),
                                    labels->window_ms);
}

Result<std::vector<std::vector<int32_t>>> KafkaStream::Replicas() const {
  LEAT_ASSIGN_OR_RETURN(const auto complete, Complete());
  return stream::FindKafkaReplicas(complete);
}

Result<StreamBounds> KafkaStream::FindBounds() const {
  LEAT_ASSIGN_OR_RETURN(auto complete, Complete());
  LEAT_ASSIGN_OR_RETURN(auto now, stream::FindKafkaOffsets(complete));
  StreamBounds bounds{.start = std::move(now.begin), .end = {}};
  if (start == "latest") {
    bounds.start = now.end;
  } else if (const auto since = ParseTime(start)) {
    LEAT_ASSIGN_OR_RETURN(bounds.start, stream::FindKafkaOffsets(complete, *since));
  }
  if (bounded) bounds.end = std::move(now.end);
  const size_t there = bounds.start.size();
  const size_t room =
      max_partitions > 0 ? max_partitions : std::min<size_t>(std::max(2 * there, there + 8), kMostPartitions);
  if (room < there) {
    return Status(Code::kInvalidArgument,
                  StrCat(Describe(), " has ", there, " partitions, more than max_partitions: ", room));
  }
  bounds.start.resize(room, 0);
  if (bounded) bounds.end.resize(room, 0);
  return bounds;
}

}  // namespace leat::job
