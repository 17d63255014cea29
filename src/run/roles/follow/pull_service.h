// Answers those that follow the parameters of an all-reduce job, on the port of one of its members: with a
// copy of the values as of the last step. The copy is made when values are asked for that have not been
// copied yet, and exists only while somebody follows. Steps go on while it is being sent. Loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/allreduce/group_member.h"
#include "protocol/parameters.h"
#include "train/collective/port.h"

namespace leat::roles {

class PullService final : private collective::Channel::Owner {
 public:
  // Each may have copies that are being sent; one that does not read them must not need more memory.
  static constexpr size_t kMaxSubscribers = 64;
  static constexpr size_t kMaxCopies = 3;

  // `values` and `view`: of the member, as its machine has them. All outlive the service.
  PullService(collective::Port& port, const protocol::Parameters& parameters,
              std::function<std::optional<protocol::MemberValues>()> values,
              std::function<const protocol::View&()> view);
  ~PullService();

 private:
  struct Subscriber {
    std::unique_ptr<collective::Channel> channel;
    protocol::PushRequest request;
    std::shared_ptr<uint32_t> unsent = std::make_shared<uint32_t>(0);  // replies
  };
  struct Copy {
    Buffer memory;
    protocol::MemberValues values;
  };

  void Adopt(std::unique_ptr<collective::Channel> channel);
  Result<std::vector<std::span<std::byte>>> OnHeader(collective::Channel& channel, uint8_t type,
                                                     ByteView header, uint64_t payload_bytes) override;
  void OnMessage(collective::Channel& channel) override;
  void OnClosed(collective::Channel& channel, const Status& why) override;
  std::list<Subscriber>::iterator Find(const collective::Channel& channel);
  // The memory with these values, laid out as Parameters::all_values; empty: all copies are being sent.
  Buffer CopyOf(const protocol::MemberValues& values);

  collective::Port& port_;
  const protocol::Parameters& parameters_;
  const std::function<std::optional<protocol::MemberValues>()> values_;
  const std::function<const protocol::View&()> view_;
  std::list<Subscriber> subscribers_;
  std::vector<Copy> copies_;
};

}  // namespace leat::roles
