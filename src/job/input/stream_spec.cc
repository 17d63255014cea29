#include "job/input/stream_spec.h"

#include <filesystem>
#include <ranges>

namespace leat::job {
namespace {

// Settings belong to one kind of source; only `epochs` is for all.
const StreamKind& KindOf(const Config& config) {
  std::vector<std::string> known = {"epochs"};
  const StreamKind* chosen = nullptr;
  bool both = false;
  for (const StreamKind* kind : StreamKinds()) {
    known.insert(known.end(), kind->keys.begin(), kind->keys.end());
    if (!config.Has(kind->key())) continue;
    // A topic is Kafka's if the stream says so.
    both = both || (chosen != nullptr && !kind->Has(chosen->key()));
    chosen = kind;
  }
  config.Allow(known);
  if (chosen == nullptr || both) config.Fail("a stream has either a topic or files");
  for (const auto& key : config.Keys()) {
    if (key == "epochs" || chosen->Has(key)) continue;
    const auto other = std::ranges::find_if(StreamKinds(), [&](const auto* kind) { return kind->Has(key); });
    config.At(key).Fail("'" + key + "' is for " + (*other)->name + "; this stream has " + chosen->name);
  }
  return *chosen;
}

}  // namespace

AnyStream StreamFromConfig(const Config& config, const StreamPaths& paths) {
  const StreamKind& kind = KindOf(config);
  const auto epochs = static_cast<uint32_t>(config.Integer("epochs", 1, 1, 1'000'000));
  AnyStream stream = kind.read(config, paths);
  stream->epochs = epochs;
  if (stream->bots() != nullptr && epochs != 1)
    config.At("epochs").Fail("a stream that bots write is read once; epochs must be 1");
  if (stream->late_labels() != nullptr && epochs != 1)
    config.At("epochs").Fail("events whose labels come later are read once; epochs must be 1");
  return stream;
}

Result<std::unique_ptr<stream::TopicWriter>> StreamSpec::OpenWriter() const {
  return Status(Code::kFailedPrecondition, Describe() + ": nothing is appended to it");
}

Result<std::unique_ptr<stream::DeadLetterSink>> StreamSpec::OpenDeadLetters() const {
  return std::unique_ptr<stream::DeadLetterSink>();
}

Result<std::unique_ptr<stream::TopicTransactions>> StreamSpec::OpenPredictions(const std::string& to,
                                                                               const std::string& /*job*/,
                                                                               uint32_t /*group*/) const {
  return Status(Code::kFailedPrecondition,
                Describe() + ": its cluster takes no predictions for '" + to + "'");
}

const std::vector<const StreamKind*>& StreamKinds() {
  static const std::vector<const StreamKind*> kKinds = {&LogKind(), &FileKind(), &KafkaKind(), &OwnKind()};
  return kKinds;
}

std::vector<const StreamKind*> TopicKinds() {
  std::vector<const StreamKind*> kinds;
  for (const StreamKind* kind : StreamKinds() | std::views::reverse) {
    if (kind->topic != nullptr) kinds.push_back(kind);
  }
  return kinds;
}

std::string ProductsWith(bool StreamTraits::*trait) {
  std::string products;
  for (const StreamKind* kind : StreamKinds()) {
    if (kind->traits.*trait) products += (products.empty() ? "" : " or ") + std::string(kind->traits.product);
  }
  return products;
}

std::string PathBelow(const std::string& base, const std::string& path) {
  if (base.empty() || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(base) / path).string();
}

}  // namespace leat::job
