// The power fails after any file operation of the log, the journal or a checkpoint. Unsynced operations are
// lost in part. The job is resumed and more events are produced: every durably acknowledged event is in the
// log at its offset, and every event of the log counts exactly once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "disk_image.h"
#include "disk_recorder.h"
#include "protocol/coordinator/coordinator.h"
#include "protocol/slices.h"
#include "run/roles/commit/commit_queue.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"
#include "stream/log/log.h"
#include "stream/log/log_layout.h"

namespace leat::power_cut {
namespace {

using namespace protocol;

constexpr uint64_t kIds = 4096;  // events are numbered; the model counts how often it has seen each
constexpr uint32_t kPartitions = 2;
constexpr const char* kTopic = "events";

struct Event {
  uint32_t partition = 0;
  uint64_t offset = 0;
  uint64_t id = 0;
};

// A coordinator with its shell, one server and one worker, all played in this thread on real files.
class Job {
 public:
  Job(const std::string& root, bool resume) : table_(MakeSlices({{"count", Shape{kIds}, {}}}, 1, 1)) {
    auto store = checkpoint::Store::Open(root + "/job", resume);
    if (!store.ok()) throw std::runtime_error(store.status().ToString());
    store_ = std::move(*store);
    if (!resume) Check(store_->WriteJob("name: power\n"));
    auto restored = resume ? store_->Restore() : RecoveredState();
    Check(restored.status());
    if (restored->manifest)
      restored->manifest->directory = store_->directory() + "/" + restored->manifest->directory;
    auto source = stream::EmbeddedLog::OpenSource(root + "/log", kTopic);
    Check(source.status());
    source_ = std::move(*source);
    CoordinatorConfig config;
    config.table = table_;
    config.cuts = {.hash = 1, .batch_size = 4, .split_batches = 2, .shuffle_seed = 3, .epochs = 1};
    config.partitions = {0, 1};
    coordinator_ = std::make_unique<Coordinator>(std::move(config), std::move(*restored));
    Look();
    server_ = Join(Role::kServer);
    worker_ = Join(Role::kWorker);
    SendServerHeartbeat();
    SendServerHeartbeat();
  }

  // Makes a round of heartbeats.
  void Step() {
    now_ += std::chrono::milliseconds(300);
    Look();
    Do(coordinator_->OnTimer(now_));
    SendServerHeartbeat();
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker_;
    heartbeat.leases_wanted = 2;
    heartbeat.released = std::exchange(released_, {});
    const auto reply = Call<WorkerHeartbeatReply>(heartbeat);
    if (!reply) return;
    for (const Lease& lease : reply->leases) {
      Train(lease);
      released_.push_back(lease.id);
    }
    SendServerHeartbeat();
  }
  void Checkpoint() {
    AdminRequest request;
    request.kind = AdminRequest::Kind::kCheckpoint;
    Call<AdminReply>(request);
    for (int i = 0; i < 3; ++i) SendServerHeartbeat();
  }
  bool ended() const { return ended_; }
  const std::vector<float>& counts() const { return counts_; }
  stream::Source& source() { return *source_; }

 private:
  static void Check(const Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }
  void Look() {
    auto ranges = source_->Ranges();
    Check(ranges.status());
    std::vector<StreamRange> known;
    for (const auto& r : *ranges) known.push_back({r.partition, r.begin, r.end, r.sealed});
    Do(coordinator_->OnStream(now_, known));
  }
  template <class Reply>
  std::optional<Reply> Call(const ControlRequest& request) {
    const uint64_t call = ++last_call_;
    Do(coordinator_->OnRequest(now_, call, request));
    const auto reply = replies_.extract(call);
    if (reply.empty() || !std::holds_alternative<Reply>(reply.mapped())) return std::nullopt;
    return std::get<Reply>(reply.mapped());
  }
  NodeId Join(Role role) {
    JoinRequest request;
    request.role = role;
    request.address = "here";
    return Call<JoinReply>(request)->node;
  }
  void Do(CoordinatorActions actions) {
    for (CoordinatorAction& action : actions) {
      if (auto* reply = std::get_if<Reply>(&action)) {
        replies_[reply->call] = std::move(reply->reply);
      } else if (const auto* journal = std::get_if<AppendJournal>(&action)) {
        Check(roles::WriteAhead(*source_, *store_, std::span(&journal->record, 1)));
      } else if (const auto* prepare = std::get_if<PrepareCheckpoint>(&action)) {
        Do(coordinator_->OnCheckpointPrepared(now_, prepare->id,
                                              store_->Prepare(prepare->id, prepare->bytes)));
      } else if (const auto* commit = std::get_if<CommitManifest>(&action)) {
        auto manifest = commit->manifest;
        manifest.directory = std::filesystem::path(manifest.directory).filename();
        const Status status = store_->Commit(manifest);
        Check(status);
        Do(coordinator_->OnManifestCommitted(now_, manifest.id, status));
      } else if (const auto* drop = std::get_if<DropCheckpoints>(&action)) {
        Check(store_->Drop(drop->oldest_kept, drop->watermark));
        for (uint32_t p = 0; p < kPartitions; ++p) Check(source_->Pin("job", p, drop->watermark[p].offset));
      } else if (const auto* remove = std::get_if<RemoveCheckpoint>(&action)) {
        Check(store_->Remove(remove->id));
      } else if (std::holds_alternative<JobEnded>(action)) {
        Check(std::get<JobEnded>(action).status);
        ended_ = true;
      }
    }
  }

  // ---- the server
  void SendServerHeartbeat() {
    ServerHeartbeat heartbeat;
    heartbeat.node = server_;
    heartbeat.shard = std::exchange(shard_, {});
    if (!orders_.empty()) {
      LedgerReport report;
      for (const SliceOrder& order : orders_) report.slices.push_back({order.slice, order.incarnation});
      report.partitions = ledger_.partitions();
      report.events = events_;
      heartbeat.ledgers = {report};
    }
    const auto reply = Call<ServerHeartbeatReply>(heartbeat);
    if (!reply) return;
    if (orders_.empty() && !reply->orders.empty()) Load(*reply);
    if (reply->checkpoint) Save(*reply->checkpoint);
  }
  void Load(const ServerHeartbeatReply& reply) {
    orders_ = reply.orders;
    ledger_ = Ledger(reply.start);
    std::map<std::string, std::unique_ptr<checkpoint::ShardReader>> readers;
    for (const SliceOrder& order : orders_) {
      if (order.directory.empty()) continue;
      auto& reader = readers[order.file];
      if (reader == nullptr) {
        auto opened = checkpoint::ShardReader::Open(order.directory + "/" + order.file, order.file_checksum);
        Check(opened.status());
        reader = std::move(*opened);
      }
      auto slice = reader->Read(table_, order.slice, 0);
      Check(slice.status());
      std::ranges::copy(slice->values(), counts_.begin() + static_cast<ptrdiff_t>(SpecOf(order.slice).begin));
      ledger_ = slice->ledger;
      events_ = slice->events;
    }
  }
  void Save(const CheckpointOrder& order) {
    std::vector<std::shared_ptr<const Slice>> slices;
    for (const SliceOrder& o : orders_) {
      auto slice = std::make_shared<Slice>();
      const SliceSpec& spec = SpecOf(o.slice);
      slice->id = o.slice;
      slice->incarnation = o.incarnation;
      slice->events = events_;
      slice->elements = spec.elements();
      slice->memory = Buffer(spec.elements() * sizeof(float));
      std::copy_n(counts_.begin() + static_cast<ptrdiff_t>(spec.begin), spec.elements(),
                  slice->values().begin());
      slice->ledger = ledger_;
      slices.push_back(slice);
    }
    auto shard = checkpoint::WriteShard(order.directory, server_.value, table_, {}, slices);
    Check(shard.status());
    shard_.emplace();
    shard_->checkpoint = order.id;
    shard_->file = shard->file;
    shard_->bytes = shard->bytes;
    shard_->checksum = shard->checksum;
    shard_->slices = shard->slices;
  }
  const SliceSpec& SpecOf(SliceId slice) const { return table_.slices[slice.value]; }

  // ---- the worker
  void Train(const Lease& lease) {
    const Cut& cut = lease.cut;
    Check(source_->Read(cut.partition, cut.begin.offset, cut.end, &records_));
    std::vector<uint32_t> order;
    TrainingOrder(cut, &order);
    for (uint32_t run = 0; run < cut.runs(); ++run) {
      if (!lease.missing.Has(run) || ledger_.Record(cut, run) != Ledger::Entry::kNew) continue;
      for (uint64_t k = 0; k < cut.EventsOf(run); ++k) {
        const std::string id(AsText(records_[order[uint64_t{run} * cut.batch_size + k]]));
        counts_.at(std::stoul(id)) += 1;
        ++events_;
      }
    }
  }

  SliceTable table_;
  std::unique_ptr<checkpoint::Store> store_;
  std::unique_ptr<stream::Source> source_;
  std::unique_ptr<Coordinator> coordinator_;
  Time now_{std::chrono::seconds(1000)};
  uint64_t last_call_ = 0;
  std::map<uint64_t, ControlReply> replies_;
  bool ended_ = false;
  NodeId server_, worker_;
  std::vector<SliceOrder> orders_;
  Ledger ledger_;
  uint64_t events_ = 0;
  std::vector<float> counts_ = std::vector<float>(kIds, 0);
  std::optional<ShardReport> shard_;
  std::vector<uint64_t> released_;
  stream::RecordBatch records_;
};

// Appends numbered events.
class Producer {
 public:
  Producer(const std::string& root, bool durable, uint64_t* next) : next_(next) {
    auto writer =
        stream::LogWriter::Open(root + "/log", kTopic, {.sync_each_append = durable, .min_free_bytes = 1});
    if (!writer.ok()) throw std::runtime_error(writer.status().ToString());
    writer_ = std::move(*writer);
  }
  std::vector<Event> Append(uint32_t partition, size_t count) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) texts.push_back(std::to_string(*next_ + i));
    const auto first = writer_->Append(partition, std::vector<std::string_view>(texts.begin(), texts.end()));
    if (!first.ok()) throw std::runtime_error(first.status().ToString());
    std::vector<Event> events;
    for (size_t i = 0; i < count; ++i) events.push_back({partition, *first + i, (*next_)++});
    return events;
  }
  void Seal() {
    if (const Status sealed = writer_->Seal(); !sealed.ok()) throw std::runtime_error(sealed.ToString());
  }

 private:
  uint64_t* next_;
  std::unique_ptr<stream::LogWriter> writer_;
};

// The run before the power failure.
struct History {
  std::vector<Operation> operations;
  // Durably acknowledged events, and the number of operations by then.
  std::vector<std::pair<size_t, Event>> acknowledged;
  uint64_t next = 0;  // number of the next event
};

History Record() {
  const TempDir directory;
  History history;
  const Recorder recorder(std::filesystem::canonical(directory.path()));
  std::filesystem::create_directory(directory / "log");
  const Status made = stream::EmbeddedLog::Create(directory / "log", kTopic, {.partitions = kPartitions});
  if (!made.ok()) throw std::runtime_error(made.ToString());
  Producer lazy(directory.path(), false, &history.next);
  Producer durable(directory.path(), true, &history.next);
  Job job(directory.path(), false);
  Rng rng(5);
  for (int step = 0; step < 60; ++step) {
    const auto partition = static_cast<uint32_t>(rng.Below(kPartitions));
    lazy.Append(partition, 1 + rng.Below(9));
    if (rng.Below(3) == 0) {
      for (const Event& event :
           durable.Append(static_cast<uint32_t>(rng.Below(kPartitions)), 1 + rng.Below(3)))
        history.acknowledged.emplace_back(recorder.count(), event);
    }
    job.Step();
    if (step % 9 == 8) job.Checkpoint();
    if (step % 20 == 19) {
      // The WAL is copied into the database and begins again.
      auto db = stream::Database::Open(
          stream::PartitionPath(stream::TopicPath(directory / "log", kTopic), partition), false);
      if (!db.ok() || !db->Run("PRAGMA wal_checkpoint(RESTART)").ok()) throw std::runtime_error("restart");
    }
  }
  history.operations = recorder.operations();
  return history;
}

// Returns the first fault after the power has failed at this moment; "" if there is none.
std::string Resume(const History& history, size_t count, uint64_t seed) {
  const TempDir directory;
  const std::string& root = directory.path();
  BuildDisk(history.operations, count, seed, root);
  std::vector<Event> acknowledged;
  for (const auto& [operations, event] : history.acknowledged) {
    if (operations <= count) acknowledged.push_back(event);
  }
  std::filesystem::create_directories(root + "/log");
  const Status made = stream::EmbeddedLog::Create(root + "/log", kTopic, {.partitions = kPartitions});
  if (!made.ok()) return made.ToString();
  uint64_t next = history.next;
  Job job(root, std::filesystem::exists(root + "/job/job.yaml"));
  Producer producer(root, false, &next);
  for (int step = 0; step < 4; ++step) {
    producer.Append(static_cast<uint32_t>(step) % kPartitions, 11);
    job.Step();
  }
  producer.Seal();
  for (int step = 0; step < 200 && !job.ended(); ++step) job.Step();
  if (!job.ended()) return "the job does not end";

  std::vector<std::vector<uint64_t>> log(kPartitions);
  std::vector<float> expected(kIds, 0);
  const auto ranges = job.source().Ranges();
  if (!ranges.ok()) return ranges.status().ToString();
  for (const auto& range : *ranges) {
    stream::RecordBatch records;
    if (const Status read = job.source().Read(range.partition, 0, range.end, &records); !read.ok())
      return read.ToString();
    for (size_t i = 0; i < records.size(); ++i) {
      log[range.partition].push_back(std::stoul(std::string(AsText(records[i]))));
      expected[log[range.partition].back()] += 1;
    }
  }
  for (const Event& event : acknowledged) {
    const auto& records = log[event.partition];
    if (event.offset >= records.size() || records[event.offset] != event.id)
      return "event " + std::to_string(event.id) + " is not at offset " + std::to_string(event.offset);
  }
  for (uint64_t id = 0; id < kIds; ++id) {
    if (job.counts()[id] != expected[id] || expected[id] > 1) {
      return "event " + std::to_string(id) + " is in the log " + std::to_string(expected[id]) +
             " times and counts " + std::to_string(job.counts()[id]) + " times";
    }
  }
  return "";
}

// The power fails at `moments` moments, spread over the history.
void CheckMoments(size_t moments) {
  const History history = Record();
  ASSERT_GT(history.operations.size(), 500u);
  ASSERT_GT(history.acknowledged.size(), 20u);
  for (size_t i = 0; i < moments; ++i) {
    const size_t count = i * history.operations.size() / moments + 1;
    std::string wrong;
    try {
      wrong = Resume(history, count, i);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    ASSERT_EQ(wrong, "") << "power failed after operation " << count << " of " << history.operations.size()
                         << ", seed " << i;
  }
}

TEST(PowerCut, EveryAcknowledgedEventCountsOnceAndNoOffsetIsReused) {
  CheckMoments(500);
}

TEST(PowerCutLong, EveryAcknowledgedEventCountsOnceAndNoOffsetIsReused) {
  CheckMoments(5000);
}

}  // namespace
}  // namespace leat::power_cut
