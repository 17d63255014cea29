// The kinds of sources that `stream:` can name, a row for each.
#pragma once

#include <string>
#include <vector>

#include "base/config/config.h"
#include "job/input/stream_spec.h"

namespace leat::job {

// How commands name a topic of this kind: `leat peek --topic payments --kafka b:9092`.
struct TopicOption {
  const char* key;    // the setting of `stream:` that it stands for, and its name: "kafka"
  const char* value;  // name of its value: "BROKERS"
  const char* help;
  // Adds what the option says to a `stream:` section that has the topic. Throws std::invalid_argument.
  Config (*add)(const Config& stream, const std::string& value, const std::vector<std::string>& settings);
  // An option beside it for further settings, NAME=VALUE, any number of times. Null: there is none.
  const char* setting = nullptr;
  const char* setting_help = nullptr;

  std::string name() const { return std::string("--") + key; }
};

struct StreamKind {
  const char* name;               // as messages call it: "a Kafka topic"
  std::vector<std::string> keys;  // its settings; the first one chooses the kind
  AnyStream (*read)(const Config& config, const StreamPaths& paths);
  StreamTraits traits;
  const TopicOption* topic = nullptr;  // null: no command names it

  const std::string& key() const { return keys.front(); }
  bool Has(const std::string& key) const;
};

// A kind is defined beside its class.
const StreamKind& LogKind();
const StreamKind& FileKind();
const StreamKind& KafkaKind();
const StreamKind& OwnKind();

// All of them. A kind whose settings include those that choose another one comes after that one.
const std::vector<const StreamKind*>& StreamKinds();
// The kinds with topics that commands can name. The one without a setting of its own comes last.
std::vector<const StreamKind*> TopicKinds();
// The products with such a trait, as a message lists them: "Kafka or Pulsar".
std::string ProductsWith(bool StreamTraits::*trait);

// A path of the job file: as it is when absolute, else below `base`.
std::string PathBelow(const std::string& base, const std::string& path);

}  // namespace leat::job
