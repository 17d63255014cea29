#include "stream/kafka/kafka_topic.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace leat::stream {
namespace {

// A read that begins at most so many offsets later discards prefetched records. Others ask the broker again.
constexpr uint64_t kMostSkipped = 20'000;
// A fingerprint is that of a record at most so many offsets back; the offsets between are of transactions.
constexpr uint64_t kLookBack = 64;
constexpr size_t kMessages = 1000;  // messages that librdkafka hands over at a time
// Time for a leader, before other partitions come first. Then it is left alone for twice as long.
constexpr Duration kLeaderPatience = std::chrono::seconds(2);
constexpr Duration kReadPatience = std::chrono::seconds(5);
// Time for records, before librdkafka is told that a queue has room again.
constexpr Duration kFetchPatience = std::chrono::milliseconds(5);

class KafkaSource final : public TimedSource {
 public:
  KafkaSource(const KafkaOptions& options, KafkaClient client, KafkaPtr<rd_kafka_topic_t> topic)
      : options_(options), client_(std::move(client)), topic_(std::move(topic)) {}
  ~KafkaSource() override {
    for (auto& [id, partition] : partitions_) {
      partition.held.clear();
      rd_kafka_consume_stop(topic_.get(), static_cast<int32_t>(id));
    }
  }

  Result<std::vector<PartitionRange>> Ranges() override {
    LEAT_ASSIGN_OR_RETURN(const uint32_t there, CountPartitions(options_.timeout));
    const auto partitions = options_.start.empty() ? there : static_cast<uint32_t>(options_.start.size());
    if (there > partitions && !std::exchange(warned_, true)) {
      spdlog::warn("{} has {} partitions by now; this job reads the first {} (max_partitions)", Where(),
                   there, partitions);
    }
    const auto offsets = AskLeaders(std::min(there, partitions));
    std::vector<PartitionRange> ranges;
    uint64_t records = 0;
    for (uint32_t id = 0; id < partitions; ++id) {
      PartitionRange range{.partition = id, .begin = 0, .end = 0, .sealed = false};
      if (id < there) {
        const auto asked = offsets.find(id);
        LEAT_ASSIGN_OR_RETURN(range, asked != offsets.end()
                                         ? Note(id, asked->second.first, asked->second.second)
                                         : RangeOrLast(id));
      }
      records += range.end;
      if (id < options_.start.size()) range.begin = std::max(range.begin, options_.start[id]);
      if (id < options_.end.size()) {
        range.sealed = range.end >= options_.end[id];
        range.end = std::min(range.end, options_.end[id]);
      }
      range.begin = std::min(range.begin, range.end);
      ranges.push_back(range);
    }
    if (options_.records > 0 && records >= options_.records) {
      for (auto& range : ranges) range.sealed = true;
    }
    return ranges;
  }

  Result<std::vector<std::vector<int32_t>>> Replicas() {
    LEAT_ASSIGN_OR_RETURN(const auto metadata, Metadata(options_.timeout));
    const rd_kafka_metadata_topic_t& topic = metadata->topics[0];
    std::vector<std::vector<int32_t>> replicas(static_cast<size_t>(std::max(topic.partition_cnt, 0)));
    for (int i = 0; i < topic.partition_cnt; ++i) {
      const rd_kafka_metadata_partition_t& partition = topic.partitions[i];
      if (partition.id < 0 || static_cast<size_t>(partition.id) >= replicas.size()) continue;
      replicas[static_cast<size_t>(partition.id)].assign(partition.replicas,
                                                         partition.replicas + partition.replica_cnt);
    }
    return replicas;
  }

  // The first record of each of these partitions since then, or the partition's end.
  Result<std::vector<uint64_t>> Since(std::span<const uint32_t> partitions, int64_t since_ms) {
    KafkaList found;
    const Status asked = AskAgain({.unavailable = options_.timeout}, [&](Duration left) -> Status {
      // Negative ones have other meanings.
      found = MakeKafkaList(options_.topic, partitions, std::max<int64_t>(0, since_ms));
      LEAT_RETURN_IF_ERROR(
          client_.Error(rd_kafka_offsets_for_times(client_.get(), found.get(), Milliseconds(left)), Where()));
      for (int i = 0; i < found->cnt; ++i) {
        const auto id = static_cast<uint32_t>(found->elems[i].partition);
        LEAT_RETURN_IF_ERROR(client_.Error(found->elems[i].err, Where(id)));
      }
      return {};
    });
    LEAT_RETURN_IF_ERROR(asked);
    std::vector<uint64_t> offsets;
    for (int i = 0; i < found->cnt; ++i) {
      const rd_kafka_topic_partition_t& partition = found->elems[i];
      if (partition.offset >= 0) {
        offsets.push_back(static_cast<uint64_t>(partition.offset));
      } else {
        LEAT_ASSIGN_OR_RETURN(const PartitionRange range, Range(static_cast<uint32_t>(partition.partition)));
        offsets.push_back(range.end);
      }
    }
    return offsets;
  }

  Result<uint64_t> FirstSince(uint32_t partition, int64_t time_ms) override {
    LEAT_ASSIGN_OR_RETURN(const auto offsets, Since({&partition, 1}, time_ms));
    return offsets.front();
  }

  Status Read(uint32_t partition, uint64_t begin, uint64_t end, RecordBatch* out) override {
    return Read(partition, begin, end, KafkaPayload::kCopied, out);
  }

  Status ReadTimes(uint32_t partition, uint64_t begin, uint64_t end, RecordTimes* times) override {
    RecordBatch batch;
    batch.wanted = {{Attribute::Kind::kTimestamp, ""}};
    LEAT_RETURN_IF_ERROR(Read(partition, begin, end, KafkaPayload::kSkipped, &batch));
    *times = TimesOf(batch, 0);
    return {};
  }

  Result<uint64_t> Fingerprint(uint32_t partition, uint64_t offset) override {
    LEAT_ASSIGN_OR_RETURN(const PartitionRange range, Range(partition));
    if (offset <= range.begin || offset > range.end) return uint64_t{0};
    RecordBatch batch;
    batch.wanted = {{Attribute::Kind::kKey, ""}, {Attribute::Kind::kTimestamp, ""}};
    const uint64_t begin = std::max(range.begin, offset - std::min(offset, kLookBack));
    LEAT_RETURN_IF_ERROR(Read(partition, begin, offset, &batch));
    Stop(partition);  // it is read again much later, if at all
    for (size_t i = batch.size(); i-- > 0;) {
      if (!batch.IsAbsent(i)) return KafkaFingerprint(batch, i);
    }
    return uint64_t{0};
  }

  // A group is a client's, so that another one than KafkaOptions::group has a client of its own.
  Status CommitOffsets(const std::string& group, std::span<const uint64_t> offsets) override {
    const bool own = group == options_.group;
    if (!own && !group_client_) {
      LEAT_ASSIGN_OR_RETURN(group_client_, KafkaClient::Make(RD_KAFKA_CONSUMER, options_,
                                                             {{"group.id", group},
                                                              {"enable.auto.commit", "false"},
                                                              {"socket.timeout.ms", "10000"}}));
    }
    const KafkaList list(rd_kafka_topic_partition_list_new(static_cast<int>(offsets.size())));
    for (size_t id = 0; id < offsets.size(); ++id) {
      if (id >= known_ && offsets[id] == 0) continue;  // there may be no such partition
      rd_kafka_topic_partition_list_add(list.get(), options_.topic.c_str(), static_cast<int32_t>(id))
          ->offset = static_cast<int64_t>(offsets[id]);
    }
    const KafkaClient& client = own ? client_ : group_client_;
    return client.Error(rd_kafka_commit(client.get(), list.get(), /*async=*/1), Where());
  }

  // Partitions of the topic, as of the last answer.
  uint32_t known() const { return known_; }

  // Waits for a topic that was only just made, and for brokers that are starting.
  Status AwaitTopic() {
    return AskAgain(
        {.unavailable = options_.timeout, .not_found = std::min<Duration>(options_.timeout, kNewTopic)},
        [&](Duration left) { return CountPartitions(left).status(); });
  }

 private:
  // The position of reads in a partition.
  struct Partition {
    KafkaPtr<rd_kafka_queue_t> queue;
    uint64_t next = 0;  // records before it are taken, or do not exist
    // Messages that librdkafka has handed over, in the order of its queue.
    std::vector<KafkaPtr<rd_kafka_message_t>> held;
    size_t taken = 0;            // the reads have taken so many of them
    uint64_t message_bytes = 0;  // mean bytes of the messages that were handed over last
    Time used{0};
  };

  Status Read(uint32_t partition, uint64_t begin, uint64_t end, KafkaPayload payload, RecordBatch* out) {
    out->Restart(partition, begin);
    Status status = ReadRange(partition, begin, end, payload, out);
    if (status.code() == Code::kNotFound && options_.skip_expired)
      status = ReadRest(partition, begin, end, payload, out);
    if (!status.ok()) {
      Stop(partition);  // its prefetched records are in doubt
      out->Restart(partition, begin);
    }
    out->data.resize(out->data.size() + RecordBatch::kPadding);
    return status;
  }

  // The cluster's current metadata of the topic, and of no other. kNotFound: there is no such topic.
  Result<KafkaPtr<const rd_kafka_metadata_t>> Metadata(Duration timeout) {
    const rd_kafka_metadata_t* got = nullptr;
    const auto error = rd_kafka_metadata(client_.get(), 0, topic_.get(), &got, Milliseconds(timeout));
    KafkaPtr<const rd_kafka_metadata_t> metadata(got);
    const auto brokers = options_.settings.find("bootstrap.servers");
    LEAT_RETURN_IF_ERROR(
        client_.Error(error, Where() + (brokers != options_.settings.end() ? " at " + brokers->second : "")));
    if (metadata->topic_cnt != 1) return Status(Code::kNotFound, Where() + ": there is no such topic");
    LEAT_RETURN_IF_ERROR(client_.Error(metadata->topics[0].err, Where()));
    return metadata;
  }

  // The partitions that the topic has now.
  Result<uint32_t> CountPartitions(Duration timeout) {
    LEAT_ASSIGN_OR_RETURN(const auto metadata, Metadata(timeout));
    const rd_kafka_metadata_topic_t& topic = metadata->topics[0];
    known_ = static_cast<uint32_t>(topic.partition_cnt);
    leaders_at_ = MonotonicClock().Now();
    for (int i = 0; i < topic.partition_cnt; ++i) {
      const rd_kafka_metadata_partition_t& partition = topic.partitions[i];
      leaders_[static_cast<uint32_t>(partition.id)] = partition.leader;
    }
    return known_;
  }

  // Without a question to the partition's leader. Ok: it is not known to be away.
  Status Away(uint32_t id) const {
    const auto leader = leaders_.find(id);
    if (leader == leaders_.end()) return {};
    if (leader->second < 0) return {Code::kUnavailable, Where(id) + ": no broker leads it at present"};
    const auto silent = silent_.find(leader->second);
    if (silent == silent_.end() || MonotonicClock().Now() >= silent->second.until) return {};
    return {Code::kUnavailable, Where(id) + ": " + silent->second.why};
  }

  // Where the partitions begin (RD_KAFKA_OFFSET_BEGINNING) or end (_END), with one request for each leader.
  // Negative: no answer.
  std::vector<int64_t> Offsets(std::span<const uint32_t> ids, int64_t which, Duration patience) const {
    const KafkaList list = MakeKafkaList(options_.topic, ids, which);
    const auto error = rd_kafka_offsets_for_times(client_.get(), list.get(), Milliseconds(patience));
    std::vector<int64_t> offsets;
    for (int i = 0; i < list->cnt; ++i) {
      const rd_kafka_topic_partition_t& found = list->elems[i];
      const bool answered = error == RD_KAFKA_RESP_ERR_NO_ERROR && found.err == RD_KAFKA_RESP_ERR_NO_ERROR;
      offsets.push_back(answered ? found.offset : -1);
    }
    return offsets;
  }

  // Begin and end of the first `count` partitions. The partitions of a broker that does not answer for each
  // of them are missing.
  std::map<uint32_t, std::pair<int64_t, int64_t>> AskLeaders(uint32_t count) {
    std::map<int32_t, std::vector<uint32_t>> led;
    for (const auto& [id, leader] : leaders_) {
      if (id < count && Away(id).ok()) led[leader].push_back(id);
    }
    std::map<uint32_t, std::pair<int64_t, int64_t>> found;
    for (const auto& [leader, ids] : led) {
      const auto begins = Offsets(ids, RD_KAFKA_OFFSET_BEGINNING, kLeaderPatience);
      const auto silent = silent_.find(leader);
      if (silent != silent_.end() && std::ranges::max(begins) < 0)  // it still is
        silent->second.until = MonotonicClock().Now() + 2 * kLeaderPatience;
      if (std::ranges::min(begins) < 0) continue;
      const auto ends = Offsets(ids, RD_KAFKA_OFFSET_END, kLeaderPatience);
      if (std::ranges::min(ends) < 0) continue;
      silent_.erase(leader);
      for (size_t i = 0; i < ids.size(); ++i) found[ids[i]] = {begins[i], ends[i]};
    }
    return found;
  }

  // Asks the leader, with little patience. Leaders that do not answer are left alone for a while, with all of
  // their partitions.
  Result<PartitionRange> AskLeader(uint32_t id, Duration patience) {
    LEAT_RETURN_IF_ERROR(Away(id));
    const int32_t leader = leaders_.contains(id) ? leaders_[id] : -1;
    auto range = Range(id, patience);
    if (range.status().code() == Code::kUnavailable) {
      silent_[leader] = {MonotonicClock().Now() + 2 * patience,
                         StrCat("broker ", leader, ", which leads it, does not answer")};
    } else {
      silent_.erase(leader);
    }
    return range;
  }

  // The last range that is known, if there is one and the partition cannot be asked.
  Result<PartitionRange> RangeOrLast(uint32_t id) {
    const auto last = ranges_.find(id);
    if (last == ranges_.end()) return Range(id, options_.timeout);
    auto range = AskLeader(id, kLeaderPatience);
    if (range.status().code() != Code::kUnavailable) return range;
    PartitionRange known = last->second.range;
    known.unasked = range.status().message();
    return known;
  }

  std::string Where(auto... partition) const { return options_.Where(partition...); }

  Result<PartitionRange> Range(uint32_t id) { return Range(id, options_.timeout); }
  Result<PartitionRange> Range(uint32_t id, Duration patience) {
    int64_t low = 0;
    int64_t high = 0;
    const auto ask = [&](Duration left) {
      const Status asked = client_.Error(
          rd_kafka_query_watermark_offsets(client_.get(), options_.topic.c_str(), static_cast<int32_t>(id),
                                           &low, &high, Milliseconds(left)),
          Where(id));
      // librdkafka knows no partition that has never had a leader.
      const bool there = asked.code() == Code::kNotFound && id < known_;
      return there ? Status(Code::kUnavailable, asked.message()) : asked;
    };
    LEAT_RETURN_IF_ERROR(AskAgain({.unavailable = patience}, ask));
    return Note(id, low, high);
  }

  // Keeps a leader's answer. A partition never becomes shorter, but a broker that has just become its leader
  // may not know yet how far it goes.
  Result<PartitionRange> Note(uint32_t id, int64_t low, int64_t high) {
    if (low < 0 || high < low) {
      return Status(Code::kDataLoss,
                    StrCat(Where(id), ": invalid offsets [", low, ", ", high, ") from the broker"));
    }
    Known& known = ranges_[id];
    auto end = static_cast<uint64_t>(high);
    if (end < known.range.end) {
      const Time now = MonotonicClock().Now();
      if (!known.shorter_since) known.shorter_since = now;
      if (now - *known.shorter_since > options_.timeout) {
        return Status(Code::kDataLoss,
                      StrCat(Where(id), " ends at offset ", end, ", before at ", known.range.end,
                             ": the topic was deleted and made again, or records are lost"));
      }
      end = known.range.end;
    } else {
      known.shorter_since.reset();
    }
    const uint64_t begin = std::min(static_cast<uint64_t>(low), end);
    return known.range = {.partition = id, .begin = begin, .end = end, .sealed = false};
  }

  void Stop(uint32_t id) {
    if (const auto partition = partitions_.extract(id)) {
      partition.mapped().held.clear();
      rd_kafka_consume_stop(topic_.get(), static_cast<int32_t>(id));
    }
  }

  void StopUnneeded(Time now) {
    std::vector<PrefetchedPartition> all;
    for (const auto& [id, partition] : partitions_) {
      const uint64_t messages = rd_kafka_queue_length(partition.queue.get()) + partition.held.size();
      all.push_back({id, messages * (partition.message_bytes + kKafkaMessageBytes), partition.used});
    }
    for (const uint32_t id : FindUnneeded(std::move(all), options_.prefetch_bytes, now)) Stop(id);
  }

  // librdkafka's thread for a broker does not notice for up to a second that a full queue has been emptied.
  // Any request wakes it, and nobody waits for the answer of this one.
  void Wake(uint32_t id) const { (void)Offsets({&id, 1}, RD_KAFKA_OFFSET_BEGINNING, Duration::zero()); }

  // The position at `begin` or at most kMostSkipped before it.
  Result<Partition*> Seek(uint32_t id, uint64_t begin) {
    const Time now = MonotonicClock().Now();
    const auto found = partitions_.find(id);
    if (found != partitions_.end() && found->second.next <= begin &&
        begin - found->second.next <= kMostSkipped) {
      found->second.used = now;
      StopUnneeded(now);
      return &found->second;
    }
    // The client asks for a partition only once it knows it.
    if (id >= known_) LEAT_RETURN_IF_ERROR(CountPartitions(options_.timeout).status());
    Stop(id);
    StopUnneeded(now);
    Partition partition;
    partition.queue.reset(rd_kafka_queue_new(client_.get()));
    partition.next = begin;
    partition.used = now;
    if (rd_kafka_consume_start_queue(topic_.get(), static_cast<int32_t>(id), static_cast<int64_t>(begin),
                                     partition.queue.get()) != 0)
      return client_.Error(rd_kafka_last_error(), Where(id));
    return &partitions_.emplace(id, std::move(partition)).first->second;
  }

  // Reads the part of a range that retention has left. The offsets before it are absent.
  Status ReadRest(uint32_t id, uint64_t begin, uint64_t end, KafkaPayload payload, RecordBatch* out) {
    Stop(id);
    LEAT_ASSIGN_OR_RETURN(const PartitionRange range, Range(id));
    const uint64_t from = std::clamp(range.begin, begin, end);
    spdlog::warn("{}: retention has removed the records of [{}, {}); {} offsets are skipped", Where(id),
                 begin, from, from - begin);
    out->Restart(id, begin);
    AddAbsent(from - begin, out);
    out->expired = from - begin;
    return ReadRange(id, from, end, payload, out);
  }

  // Appends the records to the batch, which begins at `begin` or earlier.
  Status ReadRange(uint32_t id, uint64_t begin, uint64_t end, KafkaPayload payload, RecordBatch* out) {
    if (begin >= end) return {};
    LEAT_ASSIGN_OR_RETURN(Partition* const at, Seek(id, begin));
    const MonotonicClock clock;
    const Time until = clock.Now() + options_.timeout;
    while (at->next < end) {
      if (at->taken == at->held.size()) LEAT_RETURN_IF_ERROR(Fetch(id, until - clock.Now(), end, at));
      const rd_kafka_message_t& message = *at->held[at->taken];
      LEAT_RETURN_IF_ERROR(Check(id, message, begin, end));
      const auto offset = static_cast<uint64_t>(message.offset);
      if (offset >= end) {
        at->next = end;  // the message is the next read's
        break;
      }
      ++at->taken;
      at->next = std::max(at->next, offset);
      if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) continue;  // the partition's end as of now
      at->next = offset + 1;
      if (offset >= begin) AddMessage(message, offset - out->first_offset, payload, out);
    }
    AddAbsent(end - out->first_offset, out);
    return {};
  }

  // The next messages, of which there is at least one. The position is before `end`.
  Status Fetch(uint32_t id, Duration timeout, uint64_t end, Partition* at) {
    at->held.clear();
    at->taken = 0;
    // Others wait for this reader, too: a leader that is away is noticed early.
    const bool early = timeout > kLeaderPatience;
    Duration wait = Away(id).ok() ? std::min<Duration>(timeout, kLeaderPatience) : Duration::zero();
    rd_kafka_message_t* first =
        rd_kafka_consume_queue(at->queue.get(), Milliseconds(std::min<Duration>(wait, kFetchPatience)));
    if (first == nullptr && wait > kFetchPatience) {
      Wake(id);
      first = rd_kafka_consume_queue(at->queue.get(), Milliseconds(wait - kFetchPatience));
    }
    if (first == nullptr && early) {
      // Large replies may hold up the answers to both questions.
      if (MonotonicClock().Now() - leaders_at_ > kLeaderPatience) (void)CountPartitions(kLeaderPatience);
      LEAT_RETURN_IF_ERROR(AskLeader(id, kReadPatience).status());
      wait = timeout - kLeaderPatience;
      first = rd_kafka_consume_queue(at->queue.get(), Milliseconds(wait));
    }
    if (first != nullptr) {
      at->held.emplace_back(first);
      // A batch of them would be waited for until it is full.
      std::array<rd_kafka_message_t*, kMessages> more;
      const ssize_t count = rd_kafka_consume_batch_queue(at->queue.get(), 0, more.data(), more.size());
      for (ssize_t i = 0; i < count; ++i) at->held.emplace_back(more[static_cast<size_t>(i)]);
      uint64_t bytes = 0;
      for (const auto& message : at->held) bytes += message->len + message->key_len;
      at->message_bytes = bytes / at->held.size();
      return {};
    }
    const std::string last = client_.LastError();
    return {Code::kUnavailable,
            StrCat(Where(id), ": no record of [", at->next, ", ", end, ") came within ",
                   Milliseconds(options_.timeout) / 1000, " s", last.empty() ? "" : " (" + last + ")")};
  }

  // A message that reports an error instead of a record.
  Status Check(uint32_t id, const rd_kafka_message_t& message, uint64_t begin, uint64_t end) {
    if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR || message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      if (message.offset >= 0) return {};
      return {Code::kDataLoss, StrCat(Where(id), ": offset ", message.offset)};
    }
    const Status error = client_.Error(message.err, Where(id));
    if (error.code() != Code::kNotFound) return error;
    LEAT_ASSIGN_OR_RETURN(const PartitionRange range, Range(id));
    const std::string asked = StrCat("[", begin, ", ", end, ")");
    const std::string has = StrCat("[", range.begin, ", ", range.end, ")");
    if (begin < range.begin)
      return {Code::kNotFound, Where(id) + ": retention has removed some of " + asked + "; it has " + has};
    if (end > range.end)
      return {Code::kFailedPrecondition, Where(id) + ": some of " + asked + " do not exist; it has " + has};
    return {Code::kUnavailable, error.message()};
  }

  const KafkaOptions options_;
  const KafkaClient client_;
  const KafkaPtr<rd_kafka_topic_t> topic_;
  std::map<uint32_t, Partition> partitions_;
  struct Known {
    PartitionRange range;
    std::optional<Time> shorter_since;  // when a broker first said that the partition ends before
  };
  std::map<uint32_t, Known> ranges_;     // last known ones
  std::map<uint32_t, int32_t> leaders_;  // by partition; -1: it has none
  Time leaders_at_{0};                   // time of `leaders_`
  struct Silent {
    Time until{0};  // it is left alone
    std::string why;
  };
  std::map<int32_t, Silent> silent_;  // brokers that did not answer
  uint32_t known_ = 0;                // partitions of the topic, as of the last answer
  bool warned_ = false;               // about partitions that the job does not read
  KafkaClient group_client_;
};

// `partitions`: how many share the memory for records that are fetched ahead.
Result<std::unique_ptr<KafkaSource>> Open(const KafkaOptions& options, size_t partitions = 1) {
  KafkaOptions complete = options;
  DividePrefetch(options.prefetch_bytes, partitions, &complete.settings);
  // A broker that has nothing new holds a request back so long, and a partition that is read next waits for
  // it.
  complete.settings.emplace("fetch.wait.max.ms", "10");
  std::map<std::string, std::string> own = {{"isolation.level", "read_committed"},
                                            {"enable.partition.eof", "true"},
                                            {"enable.auto.commit", "false"},
                                            {"auto.offset.reset", "error"}};
  if (!options.group.empty()) own.insert({{"group.id", options.group}, {"socket.timeout.ms", "10000"}});
  LEAT_ASSIGN_OR_RETURN(auto client, KafkaClient::Make(RD_KAFKA_CONSUMER, complete, own));
  KafkaPtr<rd_kafka_topic_t> topic(rd_kafka_topic_new(client.get(), options.topic.c_str(), nullptr));
  if (topic == nullptr) return client.Error(rd_kafka_last_error(), options.Where());
  auto source = std::make_unique<KafkaSource>(options, std::move(client), std::move(topic));
  LEAT_RETURN_IF_ERROR(source->AwaitTopic());
  return source;
}

}  // namespace

Result<std::unique_ptr<TimedSource>> OpenKafka(const KafkaOptions& options) {
  // A client cannot be given other shares later. More partitions than now are within the budget all the same,
  // but the oldest queues are given up for it.
  LEAT_ASSIGN_OR_RETURN(auto source, Open(options));
  const uint32_t partitions = source->known();
  if (partitions > 1) {
    source.reset();
    LEAT_ASSIGN_OR_RETURN(source, Open(options, partitions));
  }
  return std::unique_ptr<TimedSource>(std::move(source));
}

Result<KafkaOffsets> FindKafkaOffsets(const KafkaOptions& options) {
  KafkaOptions all = options;
  all.start.clear();
  all.end.clear();
  LEAT_ASSIGN_OR_RETURN(const auto source, Open(all));
  LEAT_ASSIGN_OR_RETURN(const auto ranges, source->Ranges());
  KafkaOffsets offsets;
  for (const PartitionRange& range : ranges) {
    offsets.begin.push_back(range.begin);
    offsets.end.push_back(range.end);
  }
  return offsets;
}

Result<uint32_t> CountKafkaPartitions(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const auto source, Open(options));
  return source->known();
}

Result<std::vector<std::vector<int32_t>>> FindKafkaReplicas(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const auto source, Open(options));
  return source->Replicas();
}

Result<std::vector<uint64_t>> FindKafkaOffsets(const KafkaOptions& options, int64_t since_ms) {
  LEAT_ASSIGN_OR_RETURN(const auto source, Open(options));
  std::vector<uint32_t> all(source->known());
  std::iota(all.begin(), all.end(), 0u);
  return source->Since(all, since_ms);
}

}  // namespace leat::stream
