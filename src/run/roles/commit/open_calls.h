// Requests of members that are not answered yet. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "protocol/messages_control.h"

namespace leat::roles {

class OpenCalls {
 public:
  using Answer = std::function<void(protocol::ControlReply)>;
  struct Call {
    Answer answer;
    std::optional<protocol::JoinRequest> join;  // none: the request is another one
    // A heartbeat of a member that has not heard of this coordinator yet, but of a former one of the job.
    bool former = false;
  };
  // `term`: this coordinator's.
  explicit OpenCalls(uint64_t term) : term_(term) {}

  // Returns the number of the call.
  uint64_t Open(const protocol::ControlRequest& request, Answer answer) {
    Call& call = calls_[++last_];
    call.answer = std::move(answer);
    if (const auto* join = std::get_if<protocol::JoinRequest>(&request)) call.join = *join;
    const uint64_t term = protocol::TermOf(request);
    call.former = term != 0 && term < term_ && protocol::SameRun(term, term_);
    return last_;
  }
  bool IsFormer(uint64_t number) const {
    const auto call = calls_.find(number);
    return call != calls_.end() && call->second.former;
  }
  // The reply that comes later is dropped.
  void AnswerEarly(uint64_t number, protocol::ControlReply reply) {
    std::exchange(calls_[number].answer, [](const protocol::ControlReply&) {})(std::move(reply));
  }
  // None: there is no such call, or it has been closed.
  std::optional<Call> Close(uint64_t number) {
    auto call = calls_.extract(number);
    if (call.empty()) return std::nullopt;
    return std::move(call.mapped());
  }

 private:
  const uint64_t term_;
  std::map<uint64_t, Call> calls_;
  uint64_t last_ = 0;
};

}  // namespace leat::roles
