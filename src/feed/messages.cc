#include "feed/messages.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace leat::feed {
namespace {

constexpr uint32_t kMaxName = 4096;
constexpr uint32_t kMaxText = 4096;
constexpr size_t kMaxAttributes = 256;
constexpr uint8_t kLastCode = static_cast<uint8_t>(Code::kInternal);

// A reason never makes a header too long.
std::string_view Short(std::string_view text) {
  return text.substr(0, kMaxText);
}

constexpr uint64_t kMarkBytes = 3 * 8;

void Put(const stream::LabelMark& mark, ByteWriter* out) {
  out->Put(mark.events);
  out->Put(mark.labels_begin);
  out->Put(mark.labels_end);
}

stream::LabelMark GetMark(ByteReader* in) {
  stream::LabelMark mark;
  mark.events = in->Get<uint64_t>();
  mark.labels_begin = in->Get<uint64_t>();
  mark.labels_end = in->Get<uint64_t>();
  if (mark.labels_begin > mark.labels_end) in->Fail();
  return mark;
}

}  // namespace

bool Follows(const stream::LabelMark& mark, const stream::LabelMark& last) {
  return mark.events > last.events && mark.labels_begin >= last.labels_begin &&
         mark.labels_end >= last.labels_end;
}

Bytes Encode(const Request& request) {
  ByteWriter out;
  out.Put(request.sequence);
  out.Put(request.content);
  out.Put(request.kind);
  out.Put(request.partition);
  out.Put(request.begin);
  out.Put(request.end);
  out.PutString(request.name);
  out.Put(static_cast<uint32_t>(request.wanted.size()));
  for (const auto& attribute : request.wanted) {
    out.Put(attribute.kind);
    out.PutString(attribute.header);
  }
  out.Put(static_cast<uint32_t>(request.offsets.size()));
  for (const uint64_t offset : request.offsets) out.Put(offset);
  out.Put(request.labels_begin);
  out.Put(request.labels_end);
  out.Put(static_cast<uint32_t>(request.marks.size()));
  for (const KnownMarks& known : request.marks) {
    Put(known.last, &out);
    out.Put(known.room);
  }
  out.Put(request.checksum);
  return out.Take();
}

Result<Request> DecodeRequest(ByteView header) {
  ByteReader in(header);
  Request request;
  request.sequence = in.Get<uint64_t>();
  request.content = in.Get<uint64_t>();
  const auto kind = in.Get<uint8_t>();
  request.partition = in.Get<uint32_t>();
  request.begin = in.Get<uint64_t>();
  request.end = in.Get<uint64_t>();
  request.name = in.GetString(kMaxName);
  constexpr uint64_t kLeastAttributeBytes = 1 + 4;
  for (uint32_t i = 0, n = in.GetCount(kLeastAttributeBytes); i < n; ++i) {
    const auto attribute = in.Get<uint8_t>();
    if (attribute < static_cast<uint8_t>(stream::Attribute::Kind::kKey) ||
        attribute > static_cast<uint8_t>(stream::Attribute::Kind::kLabel) || i >= kMaxAttributes)
      in.Fail();
    request.wanted.push_back({static_cast<stream::Attribute::Kind>(attribute), in.GetString(kMaxText)});
  }
  for (uint32_t i = 0, n = in.GetCount(sizeof(uint64_t)); i < n; ++i)
    request.offsets.push_back(in.Get<uint64_t>());
  request.labels_begin = in.Get<uint64_t>();
  request.labels_end = in.Get<uint64_t>();
  if (request.labels_begin > request.labels_end) in.Fail();
  for (uint32_t i = 0, n = in.GetCount(kMarkBytes + sizeof(uint64_t)); i < n; ++i) {
    const auto last = GetMark(&in);
    request.marks.push_back({last, in.Get<uint64_t>()});
  }
  request.checksum = in.Get<uint64_t>();
  if (!in.Done()) return Status(Code::kDataLoss, "malformed request to a feed");
  if (kind < static_cast<uint8_t>(RequestKind::kRanges) || kind > static_cast<uint8_t>(RequestKind::kScores))
    return Status(Code::kDataLoss, "unknown kind of request to a feed: " + std::to_string(kind));
  request.kind = static_cast<RequestKind>(kind);
  return request;
}

Bytes Encode(const Reply& reply) {
  ByteWriter out;
  out.Put(reply.sequence);
  out.Put(static_cast<uint8_t>(reply.status.code()));
  out.PutString(Short(reply.status.message()));
  out.Put(reply.checksum);
  out.Put(static_cast<uint32_t>(reply.ranges.size()));
  for (const auto& range : reply.ranges) {
    out.Put(range.partition);
    out.Put(range.begin);
    out.Put(range.end);
    out.Put(static_cast<uint8_t>(range.sealed));
    out.Put(static_cast<uint32_t>(range.marks.size()));
    for (const auto& mark : range.marks) Put(mark, &out);
    out.PutString(Short(range.unasked));
  }
  out.Put(reply.fingerprint);
  out.Put(reply.records);
  out.Put(static_cast<uint32_t>(reply.lost.size()));
  for (const auto& lost : reply.lost) {
    out.Put(static_cast<uint64_t>(lost.begin));
    out.Put(static_cast<uint64_t>(lost.end));
    out.PutString(Short(lost.reason));
  }
  out.Put(static_cast<uint32_t>(reply.absent.size()));
  for (const auto& absent : reply.absent) {
    out.Put(static_cast<uint64_t>(absent.begin));
    out.Put(static_cast<uint64_t>(absent.end));
  }
  out.Put(reply.expired);
  return out.Take();
}

Result<Reply> DecodeReply(ByteView header) {
  ByteReader in(header);
  Reply reply;
  reply.sequence = in.Get<uint64_t>();
  const auto code = in.Get<uint8_t>();
  std::string message = in.GetString(kMaxText);
  if (code > kLastCode) in.Fail();
  if (in.ok() && code != 0) reply.status = Status(static_cast<Code>(code), std::move(message));
  reply.checksum = in.Get<uint64_t>();
  constexpr uint64_t kLeastRangeBytes = 4 + 8 + 8 + 1 + 4 + 4;
  for (uint32_t i = 0, n = in.GetCount(kLeastRangeBytes); i < n; ++i) {
    stream::PartitionRange range;
    range.partition = in.Get<uint32_t>();
    range.begin = in.Get<uint64_t>();
    range.end = in.Get<uint64_t>();
    range.sealed = in.Get<uint8_t>() != 0;
    if (range.partition != i || range.begin > range.end) in.Fail();
    for (uint32_t m = 0, marks = in.GetCount(kMarkBytes); m < marks; ++m) {
      const stream::LabelMark mark = GetMark(&in);
      if (!range.marks.empty() && !Follows(mark, range.marks.back())) in.Fail();
      range.marks.push_back(mark);
    }
    range.unasked = in.GetString(kMaxText);
    reply.ranges.push_back(std::move(range));
  }
  reply.fingerprint = in.Get<uint64_t>();
  reply.records = in.Get<uint32_t>();
  constexpr uint64_t kLeastLostBytes = 8 + 8 + 4;
  uint64_t last = 0;
  for (uint32_t i = 0, n = in.GetCount(kLeastLostBytes); i < n; ++i) {
    const auto begin = in.Get<uint64_t>(), end = in.Get<uint64_t>();
    std::string reason = in.GetString(kMaxText);
    if (begin < last || end <= begin || end > reply.records) in.Fail();
    last = end;
    reply.lost.push_back({begin, end, std::move(reason)});
  }
  constexpr uint64_t kAbsentBytes = 8 + 8;
  last = 0;
  uint64_t absent = 0;
  for (uint32_t i = 0, n = in.GetCount(kAbsentBytes); i < n; ++i) {
    const auto begin = in.Get<uint64_t>(), end = in.Get<uint64_t>();
    if (begin < last || end <= begin || end > reply.records) in.Fail();
    last = end;
    absent += end - begin;
    reply.absent.push_back({begin, end});
  }
  reply.expired = in.Get<uint64_t>();
  if (reply.expired > absent) in.Fail();
  if (!in.Done()) return Status(Code::kDataLoss, "malformed reply of a feed");
  return reply;
}

namespace {

template <class T>
void Append(const T& value, Bytes* payload) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  payload->insert(payload->end(), bytes, bytes + sizeof(value));
}

struct Texts {
  std::vector<uint32_t> lengths;
  ByteView bytes;
};

// Takes `count` lengths and as many bytes as they say off the payload. `base`: what a length is too large by,
// unless it is 0. False if the payload has less.
bool TakeTexts(ByteView* payload, uint32_t count, uint32_t base, Texts* texts) {
  const uint64_t table = uint64_t{count} * sizeof(uint32_t);
  if (table > payload->size()) return false;
  texts->lengths.resize(count);
  if (count > 0) std::memcpy(texts->lengths.data(), payload->data(), table);
  *payload = payload->subspan(table);
  uint64_t bytes = 0;
  for (const uint32_t length : texts->lengths) bytes += length - std::min(length, base);
  if (bytes > payload->size()) return false;
  texts->bytes = payload->first(bytes);
  *payload = payload->subspan(bytes);
  return true;
}

}  // namespace

Bytes EncodeRecords(const stream::RecordBatch& records) {
  Bytes payload;
  payload.reserve(records.size() * sizeof(uint32_t) + records.offsets.back());
  for (size_t i = 0; i < records.size(); ++i)
    Append(static_cast<uint32_t>(records.offsets[i + 1] - records.offsets[i]), &payload);
  payload.insert(payload.end(), records.data.begin(),
                 records.data.begin() + static_cast<ptrdiff_t>(records.offsets.back()));
  for (size_t attribute = 0; attribute < records.wanted.size(); ++attribute) {
    for (size_t i = 0; i < records.size(); ++i) {
      const auto value = records.Value(attribute, i);
      Append(value ? static_cast<uint32_t>(value->size() + 1) : uint32_t{0}, &payload);
    }
    for (size_t i = 0; i < records.size(); ++i) {
      if (const auto value = records.Value(attribute, i))
        payload.insert(payload.end(), value->begin(), value->end());
    }
  }
  return payload;
}

Status DecodeRecords(ByteView payload, uint32_t count, stream::RecordBatch* out) {
  Texts records;
  std::vector<Texts> attributes(out->wanted.size());
  bool whole = TakeTexts(&payload, count, 0, &records);
  for (Texts& values : attributes) whole = whole && TakeTexts(&payload, count, 1, &values);
  for (size_t i = 0; i < attributes.size() && whole; ++i) {
    // A label begins with its offset.
    const bool label = out->wanted[i].kind == stream::Attribute::Kind::kLabel;
    whole = !label || std::ranges::all_of(attributes[i].lengths, [](uint32_t length) {
      return length == 0 || length - 1 >= sizeof(uint64_t);
    });
  }
  if (!whole || !payload.empty()) return {Code::kDataLoss, "malformed records of a feed"};
  uint64_t end = out->offsets.back();
  out->data.resize(end);
  out->data.insert(out->data.end(), records.bytes.begin(), records.bytes.end());
  for (const uint32_t length : records.lengths) out->offsets.push_back(end += length);
  out->attributes.resize(attributes.size());
  for (size_t i = 0; i < attributes.size(); ++i) {
    ByteView values = attributes[i].bytes;
    for (const uint32_t length : attributes[i].lengths) {
      out->attributes[i].Append(length == 0 ? std::nullopt : std::optional(values.first(length - 1)));
      if (length > 0) values = values.subspan(length - 1);
    }
  }
  return {};
}

Bytes EncodeScores(const std::vector<protocol::RunScores>& scores) {
  ByteWriter out;
  out.Put(static_cast<uint32_t>(scores.size()));
  for (const auto& run : scores) {
    protocol::Encode(run.cut, &out);
    out.Put(run.run);
    out.Put(static_cast<uint8_t>(run.rescored));
    out.Put(run.width);
    out.Put(static_cast<uint32_t>(run.events.size()));
    for (const uint32_t event : run.events) out.Put(event);
    for (const float score : run.scores) out.Put(score);
    for (const auto& key : run.keys) {
      out.Put(static_cast<uint8_t>(key.has_value()));
      if (key) out.PutString(*key);
    }
  }
  return out.Take();
}

Result<std::vector<protocol::RunScores>> DecodeScores(ByteView payload) {
  constexpr uint32_t kMaxKey = 1 << 20;
  constexpr uint64_t kLeastRunBytes = 4 + 1 + 4 + 4;
  const Status malformed(Code::kDataLoss, "malformed scores");
  ByteReader in(payload);
  std::vector<protocol::RunScores> scores;
  for (uint32_t i = 0, n = in.GetCount(kLeastRunBytes); i < n && in.ok(); ++i) {
    auto& run = scores.emplace_back();
    run.cut = protocol::DecodeCut(&in);
    run.run = in.Get<uint32_t>();
    const auto rescored = in.Get<uint8_t>();
    run.rescored = rescored == 1;
    if (rescored > 1) in.Fail();
    run.width = in.Get<uint32_t>();
    const uint32_t events = in.GetCount(sizeof(uint32_t));
    // Before there is memory for them.
    if (!in.ok() || uint64_t{events} * run.width * sizeof(float) > payload.size()) return malformed;
    for (uint32_t event = 0; event < events; ++event) run.events.push_back(in.Get<uint32_t>());
    for (uint64_t score = 0; score < uint64_t{events} * run.width; ++score)
      run.scores.push_back(in.Get<float>());
    for (uint32_t event = 0; event < events && in.ok(); ++event) {
      run.keys.emplace_back();
      const auto has_key = in.Get<uint8_t>();
      if (has_key > 1) in.Fail();
      if (has_key == 1) run.keys.back() = in.GetString(kMaxKey);
    }
    if (!in.ok() || !run.valid()) return malformed;
  }
  if (!in.Done()) return malformed;
  return scores;
}

}  // namespace leat::feed
