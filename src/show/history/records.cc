#include "show/history/records.h"

#include <utility>

#include "base/fields/codec.h"

namespace leat::observe {
namespace {

// Length of the payload and its checksum.
constexpr size_t kHead = sizeof(uint32_t) + sizeof(uint64_t);

}  // namespace

void Append(const Record& record, ByteWriter* out) {
  if (const auto* status = std::get_if<StoredStatus>(&record);
      status != nullptr && status->json.size() > kMaxStatusBytes)
    return;
  const Bytes payload = fields::Encode(record);
  out->Put(static_cast<uint32_t>(payload.size()));
  out->Put(Checksum(payload));
  out->PutRaw(payload);
}

Status Encode(const History& history, const StoredStatus& status,
              const std::function<Status(ByteView)>& write) {
  constexpr size_t kPiece = 64 << 10;
  ByteWriter out;
  out.PutRaw(AsBytes(kHistoryMagic));
  const auto add = [&](const Record& record) -> Status {
    Append(record, &out);
    return out.size() < kPiece ? Status() : write(std::exchange(out, ByteWriter()).view());
  };
  for (const Sample& sample : history.coarse()) LEAT_RETURN_IF_ERROR(add(CoarseSample{sample}));
  for (const Sample& sample : history.fine()) LEAT_RETURN_IF_ERROR(add(sample));
  for (const Event& event : history.EventsAfter(0, history.events().size() + history.dead_letters().size()))
    LEAT_RETURN_IF_ERROR(add(event));
  if (!status.json.empty()) LEAT_RETURN_IF_ERROR(add(status));
  return write(out.view());
}

RecordReader::RecordReader(ByteView bytes, bool begun) : bytes_(bytes) {
  if (begun) return;
  const size_t known = std::min(bytes.size(), kHistoryMagic.size());
  damaged_ = AsText(bytes.first(known)) != kHistoryMagic.substr(0, known);
  if (!damaged_ && known == kHistoryMagic.size()) position_ = known;
}

std::optional<Record> RecordReader::Next() {
  if (damaged_ || bytes_.size() - position_ < kHead) return std::nullopt;
  ByteReader head(bytes_.subspan(position_, kHead));
  const auto size = head.Get<uint32_t>();
  const auto checksum = head.Get<uint64_t>();
  if (size > kMaxRecordBytes) {
    damaged_ = true;
    return std::nullopt;
  }
  if (bytes_.size() - position_ - kHead < size) return std::nullopt;
  const ByteView payload = bytes_.subspan(position_ + kHead, size);
  damaged_ = true;
  if (Checksum(payload) != checksum) return std::nullopt;
  auto record = fields::Decode<Record>(payload, "record");
  if (!record.ok()) return std::nullopt;
  damaged_ = false;
  position_ += kHead + size;
  return std::move(*record);
}

void Apply(Record record, History* history, StoredStatus* status) {
  if (auto* sample = std::get_if<Sample>(&record)) {
    history->Add(std::move(*sample));
  } else if (auto* coarse = std::get_if<CoarseSample>(&record)) {
    history->AddCoarse(std::move(coarse->sample));
  } else if (auto* event = std::get_if<Event>(&record)) {
    history->Add(std::move(*event));
  } else {
    *status = std::move(std::get<StoredStatus>(record));
  }
}

}  // namespace leat::observe
