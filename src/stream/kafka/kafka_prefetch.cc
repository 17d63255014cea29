#include "stream/kafka/kafka_prefetch.h"

#include <algorithm>
#include <functional>

#include "stream/kafka/kafka_client.h"

namespace leat::stream {
namespace {

constexpr uint64_t kLeastFetched = 64 << 10, kMostFetched = 1 << 20;  // bytes of a partition in one reply
constexpr uint64_t kShortRecord = 100;
// By default librdkafka of some versions looks at a full queue again only after a second.
constexpr const char* kQueueBackoff = "fetch.queue.backoff.ms";

}  // namespace

void DividePrefetch(uint64_t budget, size_t partitions, std::map<std::string, std::string>* settings) {
  const uint64_t share = budget / std::max<size_t>(1, partitions);
  const uint64_t reply = std::clamp(share / 10, kLeastFetched, kMostFetched);
  // A reply may come to a queue that is almost full, and short records take several times their bytes.
  const uint64_t with_reply = reply + reply / kShortRecord * kKafkaMessageBytes;
  const uint64_t queue = share - std::min(with_reply, share / 8 * 7);
  const auto set = [settings](const char* name, uint64_t value) {
    settings->emplace(name, std::to_string(std::max<uint64_t>(1, value)));
  };
  set("queued.max.messages.kbytes", queue / 2 / 1024);
  set("queued.min.messages", queue / 2 / kKafkaMessageBytes);
  // It has two names.
  if (!settings->contains("max.partition.fetch.bytes")) set("fetch.message.max.bytes", reply);
  if (CheckKafkaSetting(kQueueBackoff).ok()) set(kQueueBackoff, 5);
}

std::vector<uint32_t> FindUnneeded(std::vector<PrefetchedPartition> all, uint64_t budget, Time now) {
  std::ranges::sort(all, std::greater(), &PrefetchedPartition::used);
  uint64_t bytes = 0;
  std::vector<uint32_t> unneeded;
  for (size_t i = 0; i < all.size(); ++i) {
    bytes += all[i].bytes;
    if (i > 0 && (bytes > budget || now - all[i].used > kPrefetchIdle)) unneeded.push_back(all[i].partition);
  }
  return unneeded;
}

}  // namespace leat::stream
