// Messages in shared memory: the header with the regions of a message is rejected, or the content of the
// regions is read. The result does not depend on how the header's bytes are split in transit.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "net/framing.h"
#include "net/same_host/shared_memory.h"

namespace {

using namespace leat;

constexpr uint64_t kMaxPayload = 100'000;
// Stands for the 20 bytes that name this process's memory, which differ from run to run.
constexpr std::string_view kStandIn = "descriptor and inode";

class Peer : public net::Connection {
 public:
  void Send(uint8_t, Bytes, std::vector<ByteView>, std::function<void(const Status&)>) override {}
  void Close(Status) override {}
  const std::string& peer() const override { return name_; }

 private:
  std::string name_;
};

// Reads every second span in place, and the others as copies.
class Reader : public net::Receiver {
 public:
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t type, ByteView header,
                                                     uint64_t payload_bytes) override {
    LEAT_CHECK(payload_bytes <= kMaxPayload);
    read.push_back(std::byte{type});
    read.insert(read.end(), header.begin(), header.end());
    room_.resize(payload_bytes);
    spans_.clear();
    for (std::span<std::byte> rest = room_; !rest.empty(); rest = rest.subspan(spans_.back().size()))
      spans_.push_back(rest.first(std::min<size_t>(rest.size(), 5000)));
    return spans_;
  }
  bool OnView(net::Connection&, size_t i, ByteView bytes) override {
    LEAT_CHECK(bytes.size() == spans_[i].size());
    if (i % 2 == 0) std::ranges::copy(bytes, spans_[i].begin());
    return i % 2 == 0;
  }
  void OnMessage(net::Connection&) override { read.insert(read.end(), room_.begin(), room_.end()); }
  void OnClosed(net::Connection&, const Status&) override {}

  Bytes read;

 private:
  Bytes room_;
  std::vector<std::span<std::byte>> spans_;
};

struct Outcome {
  Status status;
  Bytes read;
  uint32_t shown = 0;
};

Outcome Deliver(const Bytes& frame, size_t at_a_time) {
  static net::Loop loop;
  static const net::TransportContext context(loop,
                                             {.max_header_bytes = 1000, .max_payload_bytes = kMaxPayload});
  static net::PeerMemory memory(getpid());
  const bool open = true;
  Peer connection;
  Reader receiver;
  net::FrameReader reader(context);
  reader.AllowSharedPayloads(&memory);
  Outcome outcome;
  for (ByteView rest = frame; !rest.empty() && outcome.status.ok();) {
    const size_t n = std::min(at_a_time, rest.size());
    outcome.status = reader.Take(rest.first(n), receiver, connection, open);
    rest = rest.subspan(n);
  }
  outcome.read = std::move(receiver.read);
  outcome.shown = reader.TakeReleased();
  return outcome;
}

// The only file that this process shares.
struct File {
  File() {
    for (size_t i = 0; i < buffer.bytes().size(); ++i) buffer.bytes()[i] = static_cast<std::byte>(i % 251);
    const auto place = net::FindSharedRegion(buffer.bytes());
    LEAT_CHECK(place.has_value());
    ByteWriter out;
    out.Put(place->descriptor);
    out.Put(place->device);
    out.Put(place->inode);
    name = out.Take();
    struct stat at {};
    LEAT_CHECK(fstat(place->descriptor, &at) == 0 && name.size() == kStandIn.size());
    contents = {buffer.bytes().data() - place->offset, static_cast<size_t>(at.st_size)};
  }
  Buffer buffer = net::MakeSharedBuffer(60'000);
  Bytes name;
  ByteView contents;
};
const File& Mine() {
  static const File file;
  return file;
}

Bytes WithName(ByteView header) {
  const auto stand_in = std::as_bytes(std::span(kStandIn));
  Bytes named(header.begin(), header.end());
  for (auto at = named.begin();;) {
    at = std::search(at, named.end(), stand_in.begin(), stand_in.end());
    if (at == named.end()) return named;
    at = std::ranges::copy(Mine().name, at).out;
  }
}

// The content that has to be read for an accepted header.
Bytes Meant(ByteView header) {
  ByteReader in(header);
  Bytes meant{in.Get<std::byte>()};
  const auto append = [&meant](ByteView bytes) { meant.insert(meant.end(), bytes.begin(), bytes.end()); };
  append(in.GetRaw(in.Get<uint32_t>()));
  for (auto regions = in.Get<uint32_t>(); in.ok() && regions > 0; --regions) {
    LEAT_CHECK(std::ranges::equal(in.GetRaw(kStandIn.size()), Mine().name));
    const auto offset = in.Get<uint64_t>(), bytes = in.Get<uint64_t>();
    const ByteView contents = Mine().contents;
    LEAT_CHECK(offset <= contents.size() && bytes <= contents.size() - offset);
    append(contents.subspan(offset, bytes));
  }
  LEAT_CHECK(in.Done());
  return meant;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes header = WithName({reinterpret_cast<const std::byte*>(data), size});
  Bytes frame(wire::FramePrefix::kBytes);
  wire::EncodePrefix(wire::MakePrefix(net::kSharedPayloadType, header, 0), frame.data());
  frame.insert(frame.end(), header.begin(), header.end());
  const Outcome whole = Deliver(frame, frame.size());
  LEAT_CHECK(whole.shown == (whole.status.ok() ? 1 : 0));
  if (whole.status.ok()) LEAT_CHECK(whole.read == Meant(header));
  for (const size_t at_a_time : {1, 30}) {
    const Outcome cut = Deliver(frame, at_a_time);
    LEAT_CHECK(cut.status == whole.status && cut.read == whole.read && cut.shown == whole.shown);
  }
  return 0;
}
