// The source of a job's events: the `stream:` section.
//
// A kind of source is a struct with the seven functions of FileStream, an entry of StreamSpec::Source, and a
// row of kKinds in stream_spec.cc with its settings and the function that reads them. Properties of one kind
// only, such as the bots of a topic, are members of its struct.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "job/extensions/extensions.h"
#include "job/input/kafka_stream.h"
#include "stream/bots/bots.h"
#include "stream/files.h"
#include "stream/log/log.h"
#include "stream/source.h"
#include "stream/topic_writer.h"

namespace leat::job {

// The source that a checkpoint's offsets refer to; a job resumes only if all of it is equal.
struct SourceIdentity {
  std::string topic;  // and that of its labels
  uint32_t partitions = 0;
  std::string windows;  // how text is cut into records; of CSV and JSON the encoding
};

// Files, read where they are.
struct FileStream {
  stream::FileSourceOptions options;

  std::string Describe() const;  // "file a.csv and 2 more"
  SourceIdentity Identity() const;
  // Identities of each file, or of the topic, as this host has them. The errors of Open.
  Result<std::vector<std::string>> Identify() const;
  // Creates what the job writes to and reads from. The coordinator calls it before any role opens the source.
  Status Prepare() const { return {}; }
  Result<std::unique_ptr<stream::Source>> Open() const;
  // Returns why a job cannot start without records; ok if it can wait for them.
  Status CheckEmpty() const;
  // For bots. kFailedPrecondition: nothing writes to such a source.
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const;
};

// A topic of the embedded log.
struct LogStream {
  std::string topic;
  std::string directory;  // where the log is
  stream::TopicOptions options;
  std::optional<stream::BotsConfig> bots;  // they write the topic
  bool live = false;                       // without bots: the job waits for records in an empty topic
  // Whether a job refuses to resume if the topic ends before an offset that the job has already used. If
  // false, empty records take the place of the lost ones.
  bool fail_on_data_loss = true;
  bool quarantine = false;  // the records of a damaged chunk become dead letters

  std::string Describe() const;  // "topic 'payments'"
  SourceIdentity Identity() const;
  Result<std::vector<std::string>> Identify() const;
  Status Prepare() const;
  Result<std::unique_ptr<stream::Source>> Open() const;
  Status CheckEmpty() const;
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const;
  // Makes the topic unless it exists, with so many partitions; 0: with options.partitions.
  Status Create(uint32_t count) const;
};

// A source of the program's own (job/extensions/extensions.h).
struct OwnStream {
  std::string name;
  SourceRequest request;
  SourceFactory open;

  std::string Describe() const;  // "source 'ticks'"
  SourceIdentity Identity() const;
  // Unknown: the program alone can tell.
  Result<std::vector<std::string>> Identify() const { return std::vector<std::string>(); }
  Status Prepare() const { return {}; }
  Result<std::unique_ptr<stream::Source>> Open() const;
  Status CheckEmpty() const { return {}; }
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const;
};

struct StreamSpec {
  using Source = std::variant<FileStream, LogStream, KafkaStream, OwnStream>;
  Source source;
  uint32_t epochs = 1;

  // The source if it is of that kind, else null.
  const FileStream* files() const { return std::get_if<FileStream>(&source); }
  const LogStream* log() const { return std::get_if<LogStream>(&source); }
  const KafkaStream* kafka() const { return std::get_if<KafkaStream>(&source); }
  const OwnStream* own() const { return std::get_if<OwnStream>(&source); }
  KafkaStream* kafka() { return std::get_if<KafkaStream>(&source); }
  const stream::BotsConfig* bots() const;
  stream::BotsConfig* bots();

  // ---- the functions of the source
  auto Describe() const {
    return std::visit([](const auto& kind) { return kind.Describe(); }, source);
  }
  auto Identity() const {
    return std::visit([](const auto& kind) { return kind.Identity(); }, source);
  }
  auto Identify() const {
    return std::visit([](const auto& kind) { return kind.Identify(); }, source);
  }
  auto Prepare() const {
    return std::visit([](const auto& kind) { return kind.Prepare(); }, source);
  }
  // The one place that opens the stream. Errors name files, or directory and topic.
  auto Open() const {
    return std::visit([](const auto& kind) { return kind.Open(); }, source);
  }
  auto CheckEmpty() const {
    return std::visit([](const auto& kind) { return kind.CheckEmpty(); }, source);
  }
  auto OpenWriter() const {
    return std::visit([](const auto& kind) { return kind.OpenWriter(); }, source);
  }
  // For writers that are no bots: makes the topic unless it exists, with `count` partitions; 0: as the job
  // would. kFailedPrecondition: the stream is no topic. kPermissionDenied: the user makes no topics.
  Status Create(uint32_t count) const;
};

// The directories that paths of the `stream:` section are relative to.
struct StreamPaths {
  std::string data;       // base of paths in the file; empty: the current directory
  std::string directory;  // the job's; default location of the log
};

// Both throw std::invalid_argument with the line and the values.
StreamSpec StreamFromConfig(const Config& config, const StreamPaths& paths);
// The `files:` of a stream or an evaluation. `sequence`: the default for text; 0: text must set it.
stream::FileSourceOptions FilesFromConfig(const Config& config, const std::string& data,
                                          uint32_t sequence = 0);

}  // namespace leat::job
