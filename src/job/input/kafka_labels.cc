#include "job/input/kafka_labels.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

#include "stream/csv/delimiter.h"
#include "stream/join/join_source.h"
#include "stream/kafka/kafka_source.h"

namespace leat::job {
namespace {

constexpr double kLongestWindow = 30 * 86'400;
constexpr double kLongestIdle = 86'400;
// A process looks at both topics from two places.
constexpr uint64_t kReaders = 4;

std::string TopicName(const std::string& topic) {
  return "Kafka topic '" + topic + "'";
}

std::vector<std::string> ColumnsFrom(const Config& columns) {
  if (!columns.IsList() || columns.size() == 0) columns.Fail("columns must be a list of one or more");
  std::vector<std::string> names;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::string name = columns[i].String();
    if (std::ranges::find(names, name) != names.end()) columns[i].Fail("'" + name + "' is in columns twice");
    names.push_back(std::move(name));
  }
  return names;
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
  if (labels.Has("columns")) late.records.columns = ColumnsFrom(labels.At("columns"));
  return late;
}

std::string LabelTopic::Describe() const {
  return TopicName(topic);
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

Result<std::unique_ptr<stream::Source>> LabelTopic::Open(const stream::KafkaOptions& events) const {
  const auto opener = [](stream::KafkaOptions options) {
    options.prefetch_bytes /= kReaders;
    return [options = std::move(options)] { return stream::OpenKafka(options); };
  };
  return stream::MakeJoinSource({.open_events = opener(events),
                                 .open_labels = opener(OptionsLike(events)),
                                 .events_name = TopicName(events.topic),
                                 .labels_name = Describe(),
                                 .window_ms = window_ms,
                                 .idle = idle});
}

Status LabelTopic::CheckCopartitioned(const stream::KafkaOptions& events) const {
  stream::KafkaOptions all = events;
  all.start.clear();
  all.end.clear();
  LEAT_ASSIGN_OR_RETURN(const auto its_events, stream::OpenKafka(all));
  LEAT_ASSIGN_OR_RETURN(const auto its_labels, stream::OpenKafka(OptionsLike(events)));
  return stream::CheckCopartitioned(*its_events, TopicName(events.topic), *its_labels, Describe(), window_ms);
}

}  // namespace leat::job
