#include "observe/history/records.h"

#include <utility>

namespace leat::observe {
namespace {

enum class Type : uint8_t { kSample = 1, kCoarse = 2, kEvent = 3, kStatus = 4 };

// Length of the payload and the checksum of type and payload.
constexpr size_t kHead = sizeof(uint32_t) + sizeof(uint64_t);
constexpr uint32_t kMaxMembers = 4096;
constexpr uint32_t kMaxName = 512;

// Some thousand years after 1970.
constexpr float kMaxTime_s = 1e11f;

// What is shown has room for such times, and computes with them.
bool IsTime(double time_s) {
  return time_s >= 0 && time_s <= static_cast<double>(kMaxTime_s);
}

void Put(const Sample& sample, ByteWriter* out) {
  out->Put(sample.time_s);
  out->Put(sample.span_s);
  // A later version may have more series.
  out->Put(static_cast<uint8_t>(kSeries));
  for (const float figure : sample.figures) out->Put(figure);
  out->Put(static_cast<uint32_t>(sample.members.size()));
  for (const MemberSample& member : sample.members) {
    out->Put(member.role);
    out->Put(member.index);
    for (const float figure : member.figures) out->Put(figure);
  }
}

void Put(const Event& event, ByteWriter* out) {
  out->Put(event.kind);
  out->Put(event.number);
  out->Put(event.time_s);
  out->Put(event.node);
  out->PutString(event.member);
  out->PutString(event.text);
}

Sample TakeSample(ByteReader* in) {
  Sample sample;
  sample.time_s = in->Get<double>();
  sample.span_s = in->Get<float>();
  const auto series = in->Get<uint8_t>();
  for (size_t i = 0; i < series; ++i) {
    const auto figure = in->Get<float>();
    if (i < kSeries) sample.figures[i] = figure;
  }
  constexpr size_t kMember = 1 + sizeof(uint32_t) + MemberSample::kFigures * sizeof(float);
  const uint32_t members = in->GetCount(kMember);
  if (members > kMaxMembers) in->Fail();
  for (uint32_t i = 0; i < members && in->ok(); ++i) {
    MemberSample member;
    const auto role = in->Get<uint8_t>();
    if (role > static_cast<uint8_t>(MemberSample::Role::kServer)) in->Fail();
    member.role = static_cast<MemberSample::Role>(role);
    member.index = in->Get<uint32_t>();
    for (float& figure : member.figures) figure = in->Get<float>();
    sample.members.push_back(member);
  }
  if (!IsTime(sample.time_s) || !(sample.span_s > 0) || sample.span_s > kMaxTime_s) in->Fail();
  return sample;
}

Event TakeEvent(ByteReader* in) {
  Event event;
  const auto kind = in->Get<uint8_t>();
  if (kind >= static_cast<uint8_t>(Event::Kind::kCount)) in->Fail();
  event.kind = static_cast<Event::Kind>(kind);
  event.number = in->Get<uint64_t>();
  event.time_s = in->Get<double>();
  event.node = in->Get<uint64_t>();
  event.member = in->GetString(kMaxName);
  event.text = in->GetString(Event::kMaxText);
  // Numbers grow by one each time; this one could leave none to follow.
  if (!IsTime(event.time_s) || event.number > (uint64_t{1} << 53)) in->Fail();
  return event;
}

std::optional<Record> TakeRecord(ByteView payload) {
  ByteReader in(payload);
  std::optional<Record> record;
  switch (static_cast<Type>(in.Get<uint8_t>())) {
    case Type::kSample:
      record = TakeSample(&in);
      break;
    case Type::kCoarse:
      record = CoarseSample{TakeSample(&in)};
      break;
    case Type::kEvent:
      record = TakeEvent(&in);
      break;
    case Type::kStatus: {
      StoredStatus status;
      status.time_s = in.Get<double>();
      status.json = in.GetString(kMaxRecordBytes);
      if (!IsTime(status.time_s)) in.Fail();
      record = std::move(status);
      break;
    }
    default:
      return std::nullopt;
  }
  return in.Done() ? std::move(record) : std::nullopt;
}

}  // namespace

void Append(const Record& record, ByteWriter* out) {
  if (const auto* status = std::get_if<StoredStatus>(&record);
      status != nullptr && status->json.size() > kMaxStatusBytes)
    return;
  const size_t head = out->size();
  out->Put(uint32_t{0});
  out->Put(uint64_t{0});
  if (const auto* sample = std::get_if<Sample>(&record)) {
    out->Put(Type::kSample);
    Put(*sample, out);
  } else if (const auto* coarse = std::get_if<CoarseSample>(&record)) {
    out->Put(Type::kCoarse);
    Put(coarse->sample, out);
  } else if (const auto* event = std::get_if<Event>(&record)) {
    out->Put(Type::kEvent);
    Put(*event, out);
  } else {
    const auto& status = std::get<StoredStatus>(record);
    out->Put(Type::kStatus);
    out->Put(status.time_s);
    out->PutString(status.json);
  }
  const ByteView payload = out->view().subspan(head + kHead);
  const uint64_t checksum = Checksum(payload);
  out->PatchAt(head, static_cast<uint32_t>(payload.size()));
  out->PatchAt(head + sizeof(uint32_t), checksum);
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
  std::optional<Record> record;
  if (Checksum(payload) == checksum) record = TakeRecord(payload);
  damaged_ = !record;
  if (record) position_ += kHead + size;
  return record;
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
