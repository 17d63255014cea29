#include "base/recorder/recorder.h"

#include <string>
#include <utility>

#include "base/encoding/varint.h"

namespace leat::timeline {

void Track::Add(const Span& span) {
  Span* const ring = ring_.load(std::memory_order_acquire);
  if (!on() || ring == nullptr) return;
  const uint64_t at = added_.load(std::memory_order_relaxed);
  if (at - taken_.load(std::memory_order_acquire) >= kCapacity) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring[at % kCapacity] = span;
  added_.store(at + 1, std::memory_order_release);
}

// Before recording begins. The ring stays: a thread may be about to add to it.
void Track::Prepare() {
  if (memory_ == nullptr) {
    memory_ = std::make_unique<Span[]>(kCapacity);
    ring_.store(memory_.get(), std::memory_order_release);
  }
  taken_.store(added_.load(std::memory_order_acquire), std::memory_order_release);
  dropped_.store(0, std::memory_order_relaxed);
}

void Track::Take(std::vector<Span>* out) {
  const uint64_t end = added_.load(std::memory_order_acquire);
  uint64_t at = taken_.load(std::memory_order_relaxed);
  for (; at < end; ++at) out->push_back(memory_[at % kCapacity]);
  taken_.store(at, std::memory_order_release);
}

Track* Recorder::MakeTrack(std::string name) {
  std::lock_guard lock(mutex_);
  return &tracks_.emplace_back(std::move(name), on_);
}

void Recorder::Begin() {
  std::lock_guard lock(mutex_);
  for (Track& track : tracks_) track.Prepare();
  on_.store(true, std::memory_order_release);
}

void Recorder::End() {
  on_.store(false, std::memory_order_relaxed);
}

std::vector<TrackSpans> Recorder::Take() {
  std::lock_guard lock(mutex_);
  std::vector<TrackSpans> taken;
  for (Track& track : tracks_) {
    TrackSpans row{.name = track.name_, .spans = {}};
    track.Take(&row.spans);
    if (!row.spans.empty()) taken.push_back(std::move(row));
  }
  return taken;
}

uint64_t Recorder::dropped() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Track& track : tracks_) sum += track.dropped_.load(std::memory_order_relaxed);
  return sum;
}

// ---- bytes of spans

namespace {

constexpr uint8_t kVersion = 0x81;
constexpr size_t kMaxName = 64;
static_assert(kMaxName < kVersion);
// A span that takes the most bytes: six numbers and the kind.
constexpr size_t kMaxSpanBytes = 6 * 10 + 1;
constexpr size_t kMaxTrackBytes = 1 + kMaxName + 10;

// Difference in two's complement, without overflow.
int64_t Minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

void PutTrack(const std::string& name, std::span<const Span> spans, Time* last, ByteWriter* out) {
  const std::string_view text = std::string_view(name).substr(0, kMaxName);
  out->Put(static_cast<uint8_t>(text.size()));
  out->PutRaw(AsBytes(text));
  PutVarint(spans.size(), out);
  for (const Span& span : spans) {
    out->Put(span.kind);
    PutVarint(ZigZag(Minus(span.end.count(), last->count())), out);
    PutVarint(static_cast<uint64_t>(Minus(span.end.count(), span.begin.count())), out);
    PutVarint(span.peer, out);
    PutVarint(span.number, out);
    PutVarint(span.bytes, out);
    PutVarint(static_cast<uint64_t>(span.busy.count()), out);
    *last = span.end;
  }
}

}  // namespace

std::vector<Bytes> EncodeSpans(const std::vector<TrackSpans>& tracks) {
  std::vector<Bytes> chunks;
  ByteWriter out;
  Time last{0};
  const auto begin = [&] {
    out = ByteWriter();
    out.Put(kVersion);
    last = Time{0};
  };
  begin();
  for (const TrackSpans& track : tracks) {
    std::span<const Span> left = track.spans;
    while (!left.empty()) {
      if (kMaxChunkBytes - out.size() < kMaxTrackBytes + kMaxSpanBytes) {
        chunks.push_back(out.Take());
        begin();
      }
      const size_t room = (kMaxChunkBytes - out.size() - kMaxTrackBytes) / kMaxSpanBytes;
      const size_t count = std::min(left.size(), room);
      PutTrack(track.name, left.first(count), &last, &out);
      left = left.subspan(count);
    }
  }
  if (out.size() > 1) chunks.push_back(out.Take());
  return chunks;
}

Result<std::vector<TrackSpans>> DecodeSpans(ByteView chunks) {
  ByteReader in(chunks);
  if (const auto version = in.Get<uint8_t>(); !in.ok() || version != kVersion)
    return Status(Code::kDataLoss,
                  "spans of version " + std::to_string(version) + ", not " + std::to_string(kVersion));
  std::vector<TrackSpans> tracks;
  int64_t last = 0;
  while (in.remaining() > 0) {
    const auto length = in.Get<uint8_t>();
    if (length == kVersion) {
      last = 0;
      continue;
    }
    if (length > kMaxName) in.Fail();
    TrackSpans track{.name = std::string(AsText(in.GetRaw(in.ok() ? length : 0))), .spans = {}};
    constexpr size_t kLeastSpanBytes = 7;
    const uint64_t count = GetVarint(&in);
    if (count > in.remaining() / kLeastSpanBytes) in.Fail();
    for (uint64_t i = 0; i < count && in.ok(); ++i) {
      Span span{.kind = in.Get<Kind>()};
      last = Minus(last, Minus(0, UnZigZag(GetVarint(&in))));
      span.end = Time(last);
      const uint64_t took = GetVarint(&in);
      span.peer = GetVarint(&in);
      span.number = GetVarint(&in);
      span.bytes = GetVarint(&in);
      const uint64_t busy = GetVarint(&in);
      // Nobody records for a day.
      constexpr uint64_t kLongest = uint64_t{86'400} * 1'000'000'000;
      constexpr int64_t kLatest = int64_t{1} << 62;
      if (static_cast<size_t>(span.kind) >= kKindNames.size() || took > kLongest || busy > took || last < 0 ||
          last > kLatest)
        in.Fail();
      span.begin = Time(Minus(last, static_cast<int64_t>(took)));
      span.busy = Duration(static_cast<int64_t>(busy));
      track.spans.push_back(span);
    }
    if (!in.ok()) break;
    tracks.push_back(std::move(track));
  }
  if (!in.ok()) return Status(Code::kDataLoss, "the spans are damaged");
  return tracks;
}

}  // namespace leat::timeline
