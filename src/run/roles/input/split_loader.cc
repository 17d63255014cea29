#include "run/roles/input/split_loader.h"

#include <algorithm>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/rng.h"
#include "run/roles/feed/job_feeds.h"

namespace leat::roles {
namespace {

constexpr uint32_t kNoRow = ~uint32_t{0};

Result<std::unique_ptr<stream::Source>> OpenOwn(const job::Job& job, const topology::HostPlace& place) {
  LEAT_RETURN_IF_ERROR(job.CheckInputs());
  return job.StreamIn(ZoneOf(job, place))->Open();
}

// How long a worker retries, in read timeouts. Brokers and feeds that are started again may take minutes.
int Patience(Code code) {
  if (ExitStatusOf(code) == ExitStatus::kMayHeal) return 60;
  return code == Code::kNotFound || code == Code::kDataLoss ? 1 : 6;
}

}  // namespace

void OpenedStream::Count(protocol::WorkerProgress* progress) const {
  if (feed == nullptr) return;
  progress->feed_bytes = feed->counts().bytes;
  progress->feed_retries = feed->counts().retries;
}

Result<OpenedStream> OpenStream(const job::Job& job, const RoleOptions& options) {
  auto own = OpenOwn(job, options.coordinator_client.place);
  if (own.ok()) {
    LEAT_ASSIGN_OR_RETURN(auto dead_letters, job.stream->OpenDeadLetters());
    return OpenedStream{std::move(*own), nullptr, std::move(dead_letters)};
  }
  const auto feed =
      FeedsOf(options.coordinator_client, TransportOf(options, feed::FeedPort()), job.InputsHash());
  const auto addresses = feed.find_feeds();
  if (!addresses.ok() || addresses->empty()) return own.status();
  auto client = std::make_shared<feed::Client>(feed);
  OpenedStream stream{feed::MakeRemoteSource(client), client, nullptr};
  // A feed that does not answer in time may do so later. A feed that cannot open the stream either is no
  // help.
  const auto ranges = stream.source->Ranges();
  if (!ranges.ok() && ranges.status().code() != Code::kUnavailable) return own.status();
  spdlog::warn("{}; the stream is read from a feed", own.status().message());
  return stream;
}

uint64_t RandomSeedOf(const protocol::Cut& cut, uint32_t batch) {
  return Mix(Mix(Mix(Mix(cut.hash, cut.begin.epoch), cut.partition), cut.begin.offset), batch);
}

void OrderRows(const protocol::Cut& cut, PreparedSplit* split) {
  std::vector<uint32_t> row_of(cut.events(), kNoRow);
  for (uint32_t row = 0; row < split->rows.index.size(); ++row) row_of[split->rows.index[row]] = row;
  std::vector<uint32_t> training;
  protocol::TrainingOrder(cut, &training);
  split->order.clear();
  split->starts.assign(1, 0);
  for (uint32_t batch = 0; batch < cut.batches(); ++batch) {
    const size_t end = std::min<size_t>(training.size(), size_t{batch + 1} * cut.batch_size);
    for (size_t k = size_t{batch} * cut.batch_size; k < end; ++k) {
      if (row_of[training[k]] != kNoRow) split->order.push_back(row_of[training[k]]);
    }
    split->starts.push_back(static_cast<uint32_t>(split->order.size()));
  }
}

SplitReader::SplitReader(std::unique_ptr<stream::Source> source, const stream::Schema& schema,
                         std::shared_ptr<stream::DeadLetterSink> dead_letters, bool keys)
    : source_(std::move(source)),
      decoder_(stream::MakeDecoder(schema)),
      dead_letters_(std::move(dead_letters)),
      late_labels_(schema.has_late_labels()) {
  records_.wanted = schema.attributes();
  const stream::Attribute key{stream::Attribute::Kind::kKey, ""};
  const auto wanted = std::ranges::find(records_.wanted, key);
  if (keys) keys_ = static_cast<size_t>(wanted - records_.wanted.begin());
  if ((keys || dead_letters_ != nullptr) && wanted == records_.wanted.end()) records_.wanted.push_back(key);
}

Status SplitReader::Read(PreparedSplit* split) {
  const auto& cut = split->lease.cut;
  const auto& labels = split->lease.labels;
  if (late_labels_ != labels.has_value())
    return {Code::kDataLoss, late_labels_ ? "a lease without labels" : "a lease with labels"};
  const protocol::LabelRange range = labels.value_or(protocol::LabelRange());
  records_.labels_begin = range.begin;
  records_.labels_end = range.end;
  LEAT_RETURN_IF_ERROR(source_->Read(cut.partition, cut.begin.offset, cut.end, &records_));
  split->bytes = records_.offsets.back();
  split->expired = records_.expired;
  const MonotonicClock clock;
  const Time begin = clock.Now();
  split->rows.clear();
  decoder_->Decode(records_, &split->rows);
  // Before any event of the split can count.
  if (dead_letters_ != nullptr && !split->rows.dead.empty())
    LEAT_RETURN_IF_ERROR(dead_letters_->Keep(records_, split->rows.dead));
  OrderRows(cut, split);
  split->decoding = clock.Now() - begin;
  split->keys = {};
  if (keys_ && *keys_ < records_.attributes.size()) std::swap(split->keys, records_.attributes[*keys_]);
  return {};
}

void SplitLoader::Prepare(const protocol::Lease& lease) {
  background_.Post([this, lease, alive = alive_] {
    auto split = std::make_shared<Result<std::unique_ptr<PreparedSplit>>>(Load(lease));
    loop_.Post([this, alive, id = lease.id, split] {
      if (*alive) done_(id, std::move(*split));
    });
  });
}

Result<std::unique_ptr<PreparedSplit>> SplitLoader::Load(const protocol::Lease& lease) {
  timeline::Scope scope(track_, timeline::Kind::kDecode);
  std::unique_ptr<PreparedSplit> split;
  {
    std::lock_guard lock(mutex_);
    if (!spares_.empty()) {
      split = std::move(spares_.back());
      spares_.pop_back();
    }
  }
  if (split == nullptr) split = std::make_unique<PreparedSplit>();
  split->lease = lease;
  LEAT_RETURN_IF_ERROR(reader_.Read(split.get()));
  scope.span().bytes = split->bytes;
  return split;
}

void SplitLoader::Recycle(std::unique_ptr<PreparedSplit> split) {
  constexpr size_t kSpares = 3;
  std::lock_guard lock(mutex_);
  if (spares_.size() < kSpares) spares_.push_back(std::move(split));
}

InputErrors::InputErrors(const job::Job& job, Duration read_timeout, protocol::WorkerProgress* progress)
    : directory_(job.directory.empty() ? "" : job.directory + "/dead_letters"),
      read_timeout_(read_timeout),
      progress_(progress),
      hint_(job.schema.format == stream::Schema::Format::kCsv),
      rate_(job.dead_letter_rate) {}

void InputErrors::OpenDeadLetters(NodeId node) {
  if (directory_.empty()) return;
  file_ = std::make_unique<stream::DeadLetterFile>(directory_, "worker-" + std::to_string(node.value));
}

Status InputErrors::OnSplit(const PreparedSplit& split) {
  unreadable_since_.reset();
  const auto& cut = split.lease.cut;
  for (const auto& dead : split.rows.dead) {
    ++progress_->dead_letters;
    progress_->last_dead_letter = "partition " + std::to_string(cut.partition) + " offset " +
                                  std::to_string(dead.offset) + ": " + dead.reason;
    hint_.See(dead);
    if (file_ == nullptr) continue;
    if (auto kept = file_->Append(cut.partition, dead.offset, dead.reason, dead.record); !kept.ok()) {
      spdlog::warn("dead letters are counted but not kept: {}", kept.ToString());
    }
  }
  hint_.SeeFitting(split.rows.rows);
  rate_.Count(cut.events(), split.rows.dead.size());
  if (!rate_.exceeded()) return {};
  return Status(Code::kFailedPrecondition, "too many dead letters: " + rate_.Describe() + ", the last: " +
                                               progress_->last_dead_letter + hint_.Describe());
}

Status InputErrors::OnUnreadable(Time now, uint64_t lease, const Status& why) {
  if (!unreadable_since_) unreadable_since_ = now;
  spdlog::error("split {}: {}", lease, why.ToString());
  progress_->last_dead_letter = why.ToString();
  if (now - *unreadable_since_ > Patience(why.code()) * read_timeout_)
    return why.With("the stream cannot be read");
  return {};
}

}  // namespace leat::roles
