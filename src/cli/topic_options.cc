#include "cli/topic_options.h"

#include <stdexcept>

#include "job/job.h"
#include "stream/kafka/kafka_client.h"

namespace leat {
namespace {

constexpr const char* kOrigin = "command line";

// NAME=VALUE, where VALUE may say where the value is: env:VARIABLE or file:PATH.
Config WithSetting(const Config& kafka, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0)
    throw std::invalid_argument("--kafka-setting '" + setting + "' is not NAME=VALUE");
  const std::string name = setting.substr(0, equals), value = setting.substr(equals + 1);
  for (const std::string where : {"env", "file"}) {
    if (value.starts_with(where + ":"))
      return kafka.With(name, Config::EmptyMap(kOrigin).With(where, value.substr(where.size() + 1)));
  }
  if (stream::IsKafkaSecret(name)) {
    throw std::invalid_argument("--kafka-setting " + name +
                                ": others can see a secret on a command line; say where it is: " + name +
                                "=env:VARIABLE or " + name + "=file:PATH");
  }
  return kafka.With(name, value);
}

}  // namespace

std::vector<CLI::Option*> AddTopicOptions(CLI::App* command, TopicOptions* options) {
  auto* topic = command->add_option("--topic", options->topic, "name of the topic");
  auto* kafka = command->add_option("--kafka", options->kafka,
                                    "the topic is in Kafka, with these brokers: HOST:PORT,HOST:PORT");
  command
      ->add_option(
          "--kafka-setting", options->settings,
          "a setting of librdkafka, NAME=VALUE; env:VARIABLE or file:PATH as VALUE says where a secret is")
      ->allow_extra_args(false)
      ->needs(kafka);
  auto* log =
      command->add_option("--log", options->log, "the topic is in the embedded log in this directory");
  auto* job = command->add_option("--job", options->job, "the topic is the one that this job file reads");
  job->check(CLI::ExistingFile)->excludes(kafka)->excludes(log)->excludes(topic);
  log->excludes(kafka);
  return {topic, kafka, log, job};
}

Config StreamConfig(const TopicOptions& options) {
  if (!options.job.empty()) return Config::ParseFile(options.job).At("stream");
  if (options.kafka.empty() && options.log.empty())
    throw std::invalid_argument("where is the topic? --kafka BROKERS, --log DIR or --job FILE");
  if (options.topic.empty()) throw std::invalid_argument("which topic? --topic NAME");
  const Config stream = Config::EmptyMap(kOrigin).With("topic", options.topic);
  if (!options.log.empty()) return stream.With("log", options.log);
  Config kafka = Config::EmptyMap(kOrigin).With("bootstrap.servers", options.kafka);
  for (const std::string& setting : options.settings) kafka = WithSetting(kafka, setting);
  return stream.With("kafka", kafka);
}

job::StreamSpec ReadTopic(const TopicOptions& options) {
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
    if (!stream.Has("kafka") && !stream.Has("log") && paths.directory.empty())
      stream.Fail("its topic is in the job's directory: take the job.yaml there, or --log and --topic");
  }
  job::StreamSpec topic = job::StreamFromConfig(stream, paths);
  if (topic.kafka() != nullptr) topic.kafka()->labels.reset();  // it is about the events alone
  return topic;
}

}  // namespace leat
