// A period in which a thread of a role did one kind of work.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace leat::timeline {

enum class Kind : uint8_t {
  kDecode = 0,      // a split: read and decoded
  kForward = 1,     // forward pass of a batch
  kBackward = 2,    // backward pass of a batch
  kStep = 3,        // forward and backward, by a plan that runs them together on several threads
  kPush = 4,        // to one server, from the request to its reply; `number`: the request's sequence
  kBucket = 5,      // all-reduce: a bucket of gradients, from its start to its end
  kWait = 6,        // a worker has nothing to do but to wait for servers or members
  kApply = 7,       // a push: from its first gradient to the last one that is taken, as in kPush
  kCheckpoint = 8,  // a shard or, by the coordinator, all of one; `number`: the checkpoint
};
inline constexpr std::array<std::string_view, 9> kKindNames = {
    "decode", "forward", "backward", "forward+backward", "push", "bucket", "wait", "apply", "checkpoint"};

struct Span {
  Kind kind = Kind::kWait;
  Time begin{0}, end{0};  // by the clock of its host
  uint64_t peer = 0;      // node: the server of a push, the worker whose push is applied; 0: none
  uint64_t number = 0;
  uint64_t bytes = 0;  // size of its data; 0: unknown
  Duration busy{0};    // kApply: without the time in which the next gradient had not arrived yet
  friend bool operator==(const Span&, const Span&) = default;
};

}  // namespace leat::timeline
