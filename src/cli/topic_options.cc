#include "cli/topic_options.h"

#include <algorithm>
#include <stdexcept>

#include "job/job.h"

namespace leat {

std::vector<CLI::Option*> AddTopicOptions(CLI::App* command, TopicOptions* options) {
  for (const job::StreamKind* kind : job::TopicKinds()) options->places.push_back({kind, {}, {}});
  std::vector<CLI::Option*> named = {command->add_option("--topic", options->topic, "name of the topic")};
  for (TopicOptions::Place& place : options->places) {
    const job::TopicOption& topic = *place.kind->topic;
    CLI::Option* option = command->add_option(topic.name(), place.value, topic.help);
    if (topic.setting != nullptr) {
      command->add_option(topic.setting, place.settings, topic.setting_help)
          ->allow_extra_args(false)
          ->needs(option);
    }
    for (size_t i = 1; i < named.size(); ++i) option->excludes(named[i]);
    named.push_back(option);
  }
  auto* job = command->add_option("--job", options->job, "the topic is the one that this job file reads");
  job->check(CLI::ExistingFile);
  for (CLI::Option* option : named) job->excludes(option);
  named.push_back(job);
  return named;
}

std::string PlaceOptions() {
  std::string names;
  for (const job::StreamKind* kind : job::TopicKinds())
    names += (names.empty() ? "" : " or ") + kind->topic->name();
  return names;
}

Config StreamConfig(const TopicOptions& options) {
  if (!options.job.empty()) return Config::ParseFile(options.job).At("stream");
  const auto place =
      std::ranges::find_if(options.places, [](const auto& option) { return !option.value.empty(); });
  if (place == options.places.end()) {
    std::string all;
    for (const auto& [kind, value, settings] : options.places)
      all += (all.empty() ? "" : ", ") + kind->topic->name() + " " + kind->topic->value;
    throw std::invalid_argument("where is the topic? " + all + " or --job FILE");
  }
  if (options.topic.empty()) throw std::invalid_argument("which topic? --topic NAME");
  const Config stream = Config::EmptyMap("command line").With("topic", options.topic);
  return place->kind->topic->add(stream, place->value, place->settings);
}

job::AnyStream ReadTopic(const TopicOptions& options) {
  job::StreamPaths paths;
  const Config stream = StreamConfig(options);
  if (!options.job.empty()) {
    // The job file in a job's directory says where that is.
    const Config job = Config::ParseFile(options.job);
    if (job.Has(job::kResolved)) {
      const Config resolved = job.At(job::kResolved);
      paths = {.data = resolved.String("data", ""), .directory = resolved.String("directory", "")};
    }
    if (stream.Has("files")) stream.Fail("this stream is files; a topic is needed");
    const bool placed = std::ranges::any_of(job::TopicKinds(),
                                            [&](const auto* kind) { return stream.Has(kind->topic->key); });
    if (!placed && paths.directory.empty())
      stream.Fail("its topic is in the job's directory: take the job.yaml there, or --log and --topic");
  }
  job::AnyStream topic = job::StreamFromConfig(stream, paths);
  topic->DropLateLabels();  // a command reads the events alone
  return topic;
}

}  // namespace leat
