// The options of commands for a topic: where it is, of Kafka or of the embedded log.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "job/input/stream_spec.h"

namespace leat {

struct TopicOptions {
  std::string topic, kafka, log, job;
  std::vector<std::string> settings;  // settings of librdkafka: NAME=VALUE
};

// Returns the options that name a topic.
std::vector<CLI::Option*> AddTopicOptions(CLI::App* command, TopicOptions* options);

// The settings of `stream:` that the options stand for. Throws std::invalid_argument if they do not say where
// the topic is, or say it twice.
Config StreamConfig(const TopicOptions& options);

// A topic. Throws std::invalid_argument, also for a job that reads files.
job::StreamSpec ReadTopic(const TopicOptions& options);

}  // namespace leat
