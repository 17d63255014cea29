// The options of commands for a topic: its name and where it is, or a job that reads it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "job/input/stream_spec.h"

namespace leat {

struct TopicOptions {
  // The option of a kind of source (job::TopicOption), and the settings beside it. Without a value: not
  // given.
  struct Place {
    const job::StreamKind* kind;
    std::string value;
    std::vector<std::string> settings;
  };
  std::string topic, job;
  std::vector<Place> places;  // filled by AddTopicOptions, whose options refer to the elements
};

// Returns the options that name a topic.
std::vector<CLI::Option*> AddTopicOptions(CLI::App* command, TopicOptions* options);

// The options that say where a topic is, as a message lists them: "--kafka or --log".
std::string PlaceOptions();

// The settings of `stream:` that the options stand for. Throws std::invalid_argument if they do not say where
// the topic is, or say it twice.
Config StreamConfig(const TopicOptions& options);

// A topic. Throws std::invalid_argument, also for a job that reads files.
job::AnyStream ReadTopic(const TopicOptions& options);

}  // namespace leat
