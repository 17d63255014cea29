#include "job/input/log_stream.h"

#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "stream/log/log_layout.h"

namespace leat::job {

LogStream::LogStream(const Config& config, const StreamPaths& paths) {
  topic = config.At("topic").String();
  if (const auto good = stream::CheckTopicName(topic); !good.ok()) config.At("topic").Fail(good.message());
  where = config.Has("log") ? PathBelow(paths.data, config.At("log").String())
                            : PathBelow(paths.directory, "log");
  live = config.Bool("live", false);
  fail_on_data_loss = config.Bool("fail_on_data_loss", true);
  if (config.Has("errors_tolerance"))
    quarantine = config.At("errors_tolerance").OneOf("errors_tolerance", {"none", "all"}) == "all";
  options.partitions =
      static_cast<uint32_t>(config.Integer("partitions", 4, 1, stream::EmbeddedLog::kMaxPartitions));
  options.retention_bytes =
      static_cast<uint64_t>(config.Number("retention_mb", 0, 0, 1e9) * 1e6 / options.partitions);
  options.retention_time = FromSeconds(config.Number("retention_hours", 0, 0, 1e6) * 3600);
  if (config.Has("bots")) bots_ = stream::BotsConfig::FromConfig(config.At("bots"));
}

const StreamKind& LogKind() {
  static constexpr TopicOption kOption = {
      .key = "log",
      .value = "DIR",
      .help = "the topic is in the embedded log in this directory",
      .add = [](const Config& stream, const std::string& value, const std::vector<std::string>&) {
        return stream.With("log", value);
      }};
  static const StreamKind kKind = {.name = "a topic",
                                   .keys = {"topic", "log", "partitions", "retention_mb", "retention_hours",
                                            "bots", "live", "fail_on_data_loss", "errors_tolerance"},
                                   .read = [](const Config& config, const StreamPaths& paths) -> AnyStream {
                                     return LogStream(config, paths);
                                   },
                                   .traits = {},
                                   .topic = &kOption};
  return kKind;
}

SourceIdentity LogStream::Identity() const {
  return {.topic = topic, .partitions = options.partitions, .windows = ""};
}

LossRules LogStream::loss_rules() const {
  return {.expired = Loss::kRefused,
          .shortened = fail_on_data_loss ? Loss::kRefusedBySetting : Loss::kAccepted};
}

Result<std::vector<std::string>> LogStream::Identify() const {
  LEAT_ASSIGN_OR_RETURN(const uint64_t id, stream::EmbeddedLog::ReadId(where, topic));
  if (id == 0) return std::vector<std::string>();
  return std::vector<std::string>{StrCat("topic:", id)};
}

Status LogStream::Prepare() const {
  return bots() != nullptr ? stream::EmbeddedLog::Create(where, topic, options) : Status();
}

Result<std::unique_ptr<stream::Source>> LogStream::Open() const {
  return stream::EmbeddedLog::OpenSource(where, topic, {.quarantine = quarantine});
}

Status LogStream::CheckEmpty() const {
  if (bots() != nullptr || live) return {};
  return {Code::kInvalidArgument,
          Describe() + " in " + where + " is empty; a stream that is waited for says 'live: true'"};
}

Result<std::unique_ptr<stream::TopicWriter>> LogStream::OpenWriter() const {
  LEAT_ASSIGN_OR_RETURN(auto writer, stream::LogWriter::Open(where, topic));
  return std::unique_ptr<stream::TopicWriter>(std::move(writer));
}

Status LogStream::Create(uint32_t count) const {
  // An existing topic may have another number of partitions.
  if (stream::EmbeddedLog::OpenSource(where, topic).status().code() != Code::kNotFound) return {};
  stream::TopicOptions made = options;
  if (count > 0) made.partitions = count;
  return stream::EmbeddedLog::Create(where, topic, made);
}

}  // namespace leat::job
