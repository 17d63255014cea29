// `stream: {topic: …}`: a topic of the embedded log.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "job/input/stream_spec.h"
#include "stream/log/log.h"

namespace leat::job {

class LogStream final : public StreamSpec {
 public:
  // Throws std::invalid_argument with the line and the values.
  LogStream(const Config& config, const StreamPaths& paths);

  const StreamTraits& traits() const override { return LogKind().traits; }
  std::string Describe() const override { return "topic '" + topic + "'"; }
  SourceIdentity Identity() const override;
  std::string directory() const override { return where; }
  LossRules loss_rules() const override;
  Result<std::vector<std::string>> Identify() const override;
  Status Prepare() const override;
  Status CheckEmpty() const override;
  Result<std::unique_ptr<stream::Source>> Open() const override;
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const override;
  Status Create(uint32_t count) const override;

  std::string topic;
  std::string where;  // the log's directory
  stream::TopicOptions options;
  bool live = false;  // without bots: the job waits for records in an empty topic
  // Whether a job refuses to resume if the topic ends before an offset that the job has already used. If
  // false, empty records take the place of the lost ones.
  bool fail_on_data_loss = true;
  bool quarantine = false;  // the records of a damaged chunk become dead letters
};

}  // namespace leat::job
