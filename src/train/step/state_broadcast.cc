#include "train/step/state_broadcast.h"

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/fields/codec.h"

namespace leat::step {

namespace {

using protocol::GroupMember;
using protocol::TrainingState;

// The size limit of a ledger; a larger size is an error of the peer.
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;

struct StateBroadcast {
  collective::AllReduce* group = nullptr;
  bool holds = false;
  Bytes header;
  uint64_t floats = 0;
  uint64_t header_bytes = 0;
  std::vector<uint64_t> header_words;
  std::vector<uint64_t> words;
  std::function<void(Result<GroupMember::Snapshot>)> done;
};

void Max(const std::shared_ptr<StateBroadcast>& sharing, std::span<uint64_t> words,
         std::function<void()> next) {
  sharing->group->Start({.data = std::as_writable_bytes(words), .reduce = collective::kMaxU64},
                        [sharing, next = std::move(next)](const Status& status) {
                          if (status.ok()) return next();
                          sharing->done(status);
                        });
}

void Finish(const std::shared_ptr<StateBroadcast>& sharing) {
  GroupMember::Snapshot shared;
  auto header = fields::Decode<TrainingState::Header>(
      std::as_bytes(std::span(sharing->header_words)).first(sharing->header_bytes),
      "the state that the holder sent");
  if (!header.ok()) return sharing->done(header.status());
  shared.header = std::move(*header);
  if (!sharing->holds) {
    shared.memory.resize(sharing->floats);
    if (sharing->floats > 0) {
      std::memcpy(shared.memory.data(), sharing->words.data(), sharing->floats * sizeof(float));
    }
  }
  sharing->done(std::move(shared));
}

}  // namespace

void BroadcastState(collective::AllReduce& group, uint32_t holder, const TrainingState& state,
                    std::function<void(Result<GroupMember::Snapshot>)> done) {
  const auto sharing = std::make_shared<StateBroadcast>();
  sharing->group = &group;
  sharing->holds = group.rank() == holder;
  sharing->floats = state.floats();
  sharing->words.resize((state.floats() + 1) / 2);
  sharing->done = std::move(done);
  if (sharing->holds) {
    sharing->header = fields::Encode(state.header());
    sharing->header_bytes = sharing->header.size();
    auto* at = reinterpret_cast<std::byte*>(sharing->words.data());
    for (const auto& part : state.Memory()) {
      std::memcpy(at, part.data(), part.size_bytes());
      at += part.size_bytes();
    }
  }
  Max(sharing, {&sharing->header_bytes, 1}, [sharing] {
    if (sharing->header_bytes > kMaxHeaderBytes) {
      return sharing->done(
          Status(Code::kDataLoss, "the holder sent a ledger of " + std::to_string(sharing->header_bytes) +
                                      " bytes; the limit is " + std::to_string(kMaxHeaderBytes)));
    }
    sharing->header_words.resize((sharing->header_bytes + 7) / 8);
    if (!sharing->header.empty()) {
      std::memcpy(sharing->header_words.data(), sharing->header.data(), sharing->header.size());
    }
    Max(sharing, sharing->header_words,
        [sharing] { Max(sharing, sharing->words, [sharing] { Finish(sharing); }); });
  });
}

}  // namespace leat::step
