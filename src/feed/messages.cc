#include "feed/messages.h"

#include <algorithm>
#include <cstring>

namespace leat::feed {
namespace {

constexpr uint32_t kMaxName = 4096;
constexpr uint32_t kMaxText = 4096;
constexpr uint8_t kLastCode = static_cast<uint8_t>(Code::kInternal);

// A reason never makes a header too long.
std::string_view Short(std::string_view text) {
  return text.substr(0, kMaxText);
}

}  // namespace

Bytes Encode(const Request& request) {
  ByteWriter out;
  out.Put(request.sequence);
  out.Put(request.content);
  out.Put(request.kind);
  out.Put(request.partition);
  out.Put(request.begin);
  out.Put(request.end);
  out.PutString(request.name);
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
  if (!in.Done()) return Status(Code::kDataLoss, "malformed request to a feed");
  if (kind < static_cast<uint8_t>(RequestKind::kRanges) ||
      kind > static_cast<uint8_t>(RequestKind::kDescribe))
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
  }
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
  constexpr uint64_t kRangeBytes = 4 + 8 + 8 + 1;
  for (uint32_t i = 0, n = in.GetCount(kRangeBytes); i < n; ++i) {
    stream::PartitionRange range;
    range.partition = in.Get<uint32_t>();
    range.begin = in.Get<uint64_t>();
    range.end = in.Get<uint64_t>();
    range.sealed = in.Get<uint8_t>() != 0;
    if (range.partition != i || range.begin > range.end) in.Fail();
    reply.ranges.push_back(range);
  }
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
  for (uint32_t i = 0, n = in.GetCount(kAbsentBytes); i < n; ++i) {
    const auto begin = in.Get<uint64_t>(), end = in.Get<uint64_t>();
    if (begin < last || end <= begin || end > reply.records) in.Fail();
    last = end;
    reply.absent.push_back({begin, end});
  }
  if (!in.Done()) return Status(Code::kDataLoss, "malformed reply of a feed");
  return reply;
}

Bytes EncodeRecords(const stream::RecordBatch& records) {
  const size_t table = records.size() * sizeof(uint32_t), bytes = records.offsets.back();
  Bytes payload(table + bytes);
  for (size_t i = 0; i < records.size(); ++i) {
    const auto length = static_cast<uint32_t>(records.offsets[i + 1] - records.offsets[i]);
    std::memcpy(payload.data() + i * sizeof(uint32_t), &length, sizeof(length));
  }
  std::copy_n(records.data.begin(), bytes, payload.begin() + static_cast<ptrdiff_t>(table));
  return payload;
}

Status DecodeRecords(ByteView payload, uint32_t count, stream::RecordBatch* out) {
  const Status malformed(Code::kDataLoss, "malformed records of a feed");
  const uint64_t table = uint64_t{count} * sizeof(uint32_t);
  if (table > payload.size()) return malformed;
  const ByteView data = payload.subspan(table);
  const uint64_t first = out->offsets.back();
  uint64_t end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    std::memcpy(&length, payload.data() + uint64_t{i} * sizeof(uint32_t), sizeof(length));
    end += length;
    if (end > data.size()) {
      out->offsets.resize(out->offsets.size() - i);
      return malformed;
    }
    out->offsets.push_back(first + end);
  }
  if (end != data.size()) {
    out->offsets.resize(out->offsets.size() - count);
    return malformed;
  }
  out->data.resize(first);
  out->data.insert(out->data.end(), data.begin(), data.end());
  return Status();
}

}  // namespace leat::feed
