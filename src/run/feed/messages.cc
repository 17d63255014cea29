#include "run/feed/messages.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/fields/codec.h"
#include "base/fields/description.h"

namespace leat::feed {
namespace {

// Spans of a reply's records ascend. Adds up the records that they have.
template <class Spans>
Status CheckSpans(const char* field, const Spans& spans, const Reply& reply, uint64_t* sum) {
  uint64_t last = 0;
  for (const auto& span : spans) {
    if (span.begin < last || span.end <= span.begin || span.end > reply.records)
      return {Code::kDataLoss, field + (" has records " + std::to_string(span.begin)) + " to " +
                                   std::to_string(span.end) + " of " + std::to_string(reply.records) +
                                   ", behind " + std::to_string(last)};
    *sum += span.end - span.begin;
    last = span.end;
  }
  return {};
}

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

Status Check(const Reply& reply) {
  for (size_t i = 0; i < reply.ranges.size(); ++i) {
    if (const uint32_t partition = reply.ranges[i].partition; partition != i)
      return {Code::kDataLoss, "ranges[" + std::to_string(i) + "].partition is " + std::to_string(partition)};
  }
  uint64_t lost = 0, absent = 0;
  LEAT_RETURN_IF_ERROR(CheckSpans("lost", reply.lost, reply, &lost));
  LEAT_RETURN_IF_ERROR(CheckSpans("absent", reply.absent, reply, &absent));
  if (reply.expired <= absent) return {};
  return {Code::kDataLoss,
          "expired is " + std::to_string(reply.expired) + " of " + std::to_string(absent) + " absent"};
}

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

wire::Port FeedPort() {
  return {wire::PortKind::kFeed, fields::HashOf<Request, Reply, Scores>()};
}

}  // namespace leat::feed

namespace leat {
LEAT_CODECS(feed::Request, feed::Reply, feed::Scores);
}
