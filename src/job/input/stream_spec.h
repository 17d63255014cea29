// The source of a job's events: the `stream:` section.
//
// Each kind of source is a class derived from StreamSpec, with a row of StreamKinds() for
// its settings. Callers never ask for the kind: what a source can do is in its traits and in the functions
// that the kind overrides. A function with a body here is for the sources that have nothing of that sort.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/config/config.h"
#include "base/status.h"
#include "stream/bots/bots.h"
#include "stream/decode/decoder.h"
#include "stream/files.h"
#include "stream/schema.h"
#include "stream/source.h"
#include "stream/topic_writer.h"

namespace leat::job {

// The source that a checkpoint's offsets refer to; a job resumes only if all of it is equal.
struct SourceIdentity {
  std::string topic;  // and that of its labels
  uint32_t partitions = 0;
  std::string windows;  // how text is cut into records; of CSV and JSON the encoding
};

// Facts about all sources of a kind, whatever their settings.
struct StreamTraits {
  const char* product = "";   // as messages call it: "Kafka"; empty: it is Leat's own
  bool remote = false;        // servers have it: every host can open it, and each call may take long
  bool attributes = false;    // records have keys, timestamps and headers
  bool predictions = false;   // OpenPredictions, in the same cluster
  bool fingerprints = false;  // Source::Fingerprint
  bool upkeep = true;      // the coordinator syncs, pins and commits, with a Source of its own (OpenEvents)
  bool previewed = false;  // its first records are compared with the schema before a job starts
};

// Offsets of each partition at which a job begins and ends. No entries: it reads all that there is.
struct StreamBounds {
  std::vector<uint64_t> start, end;
};

// Whether a job resumes although records are lost. kRefusedBySetting: 'fail_on_data_loss: false' accepts it.
enum class Loss : uint8_t { kAccepted, kRefused, kRefusedBySetting };
struct LossRules {
  Loss expired = Loss::kAccepted;   // retention has removed records that the job has not trained
  Loss shortened = Loss::kRefused;  // a partition ends before an offset that the job has used
  // A partition may only seem shortened for so long: its new leader does not know yet how far it goes.
  Duration leader_change{0};
};

// The settings of a stream. Copies are independent; const functions may be called from any thread. Functions
// that ask servers block, at most for a few times the timeout of the source. Their errors name the source.
class StreamSpec {
 public:
  virtual ~StreamSpec() = default;

  uint32_t epochs = 1;

  // ---- the settings
  virtual const StreamTraits& traits() const = 0;
  virtual std::string Describe() const = 0;  // "topic 'payments'", "file a.csv and 2 more"
  virtual SourceIdentity Identity() const = 0;
  // The bots that write the stream; null: others do.
  const stream::BotsConfig* bots() const { return bots_ ? &*bots_ : nullptr; }
  stream::BotsConfig* bots() { return bots_ ? &*bots_ : nullptr; }
  // The files that the stream is read from; null: it is no files.
  virtual const stream::FileSourceOptions* files() const { return nullptr; }
  virtual stream::FileSourceOptions* files() { return nullptr; }
  // The directory of this host that has the topic; empty: none has.
  virtual std::string directory() const { return ""; }
  // Topics of the cluster that the stream uses, its own included.
  virtual std::vector<std::string> topics() const { return {}; }
  // Records of labels that come later, in a topic of their own; null: there are none.
  virtual const stream::Schema::LabelRecords* late_labels() const { return nullptr; }
  virtual void DropLateLabels() {}  // for a reader of the events alone
  virtual LossRules loss_rules() const { return {}; }
  virtual StreamBounds bounds() const { return {}; }
  virtual void SetBounds(StreamBounds /*bounds*/) {}
  // Reads from the copies in this zone, unless the settings say where to read from.
  virtual void ReadNear(const std::string& /*zone*/) {}

  // ---- before a job starts
  // Identities of each file, or of the topic, as this host has them; empty: unknown. The errors of Open.
  virtual Result<std::vector<std::string>> Identify() const = 0;
  // Creates what the job writes to and reads from. The coordinator calls it before any role opens the source.
  virtual Status Prepare() const { return {}; }
  // Refuses a stream that no job can count. `warning`: set if it loses records sooner than a job with such
  // checkpoints may need them again.
  virtual Status Check(double /*checkpoint_interval_s*/, std::string* /*warning*/) const { return {}; }
  // The bounds that the settings of a new job mean now.
  virtual Result<StreamBounds> FindBounds() const { return StreamBounds(); }
  // Returns why a job cannot start without records; ok if it can wait for them.
  virtual Status CheckEmpty() const { return {}; }
  // The ids of the brokers that have each partition; empty: the source has no brokers.
  virtual Result<std::vector<std::vector<int32_t>>> Replicas() const {
    return std::vector<std::vector<int32_t>>();
  }

  // ---- opening it
  // The one place that opens the stream.
  virtual Result<std::unique_ptr<stream::Source>> Open() const = 0;
  // The events without late labels, for a second Source. `group`: for which it commits offsets; empty: none.
  virtual Result<std::unique_ptr<stream::Source>> OpenEvents(const std::string& /*group*/) const {
    return Open();
  }
  // kFailedPrecondition: nothing is appended to such a source.
  virtual Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const {
    return Status(Code::kFailedPrecondition, Describe() + ": nothing is appended to it");
  }
  // For writers that are no bots: makes the topic unless it exists, with `count` partitions; 0: as the job
  // would. kFailedPrecondition: the stream is no topic. kPermissionDenied: the user makes no topics.
  virtual Status Create(uint32_t /*count*/) const { return OpenWriter().status(); }
  // Null: dead letters are kept in the job's directory.
  virtual Result<std::unique_ptr<stream::DeadLetterSink>> OpenDeadLetters() const {
    return std::unique_ptr<stream::DeadLetterSink>();
  }
  // For the predictions of a publishing group, in the topic `to`, which is made if it does not exist. `job`:
  // its name. Only for sources with the trait.
  virtual Result<std::unique_ptr<stream::TopicTransactions>> OpenPredictions(const std::string& to,
                                                                             const std::string& /*job*/,
                                                                             uint32_t /*group*/) const {
    return Status(Code::kFailedPrecondition,
                  Describe() + ": its cluster takes no predictions for '" + to + "'");
  }

 protected:
  std::optional<stream::BotsConfig> bots_;
};

// A stream of any kind as a value: a copy has its own settings. Empty until a stream is assigned, and after
// it was moved from; then it may be copied and assigned.
class AnyStream {
 public:
  AnyStream() = default;
  template <std::derived_from<StreamSpec> Kind>
  AnyStream(Kind stream)  // NOLINT: implicit on purpose
      : stream_(std::make_unique<Kind>(std::move(stream))), copy_([](const StreamSpec& from) {
          return std::unique_ptr<StreamSpec>(std::make_unique<Kind>(static_cast<const Kind&>(from)));
        }) {}
  AnyStream(const AnyStream& other)
      : stream_(other.stream_ ? other.copy_(*other.stream_) : nullptr), copy_(other.copy_) {}
  AnyStream(AnyStream&&) noexcept = default;
  AnyStream& operator=(AnyStream other) noexcept {
    stream_ = std::move(other.stream_);
    copy_ = other.copy_;
    return *this;
  }
  ~AnyStream() = default;

  StreamSpec& operator*() { return *stream_; }
  const StreamSpec& operator*() const { return *stream_; }
  StreamSpec* operator->() { return stream_.get(); }
  const StreamSpec* operator->() const { return stream_.get(); }

 private:
  std::unique_ptr<StreamSpec> stream_;
  std::unique_ptr<StreamSpec> (*copy_)(const StreamSpec&) = nullptr;
};

// The directories that paths of the `stream:` section are relative to.
struct StreamPaths {
  std::string data;       // base of paths in the file; empty: the current directory
  std::string directory;  // the job's; default location of the log
};

// Both throw std::invalid_argument with the line and the values.
AnyStream StreamFromConfig(const Config& config, const StreamPaths& paths);
// The `files:` of a stream or an evaluation. `sequence`: the default for text; 0: text must set it.
stream::FileSourceOptions FilesFromConfig(const Config& config, const std::string& data,
                                          uint32_t sequence = 0);

// The kinds of sources that `stream:` can name, a row for each.

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
  bool Has(const std::string& key) const { return std::ranges::find(keys, key) != keys.end(); }
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
