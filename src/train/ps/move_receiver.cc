#include "train/ps/move_receiver.h"

#include <memory>
#include <string>
#include <utility>

namespace leat::ps {

Result<std::vector<std::span<std::byte>>> MoveReceiver::OnHeader(ByteView header, uint64_t payload_bytes) {
  LEAT_ASSIGN_OR_RETURN(wire::MoveRequest request, fields::Decode<wire::MoveRequest>(header, "move"));
  if (request.index == 0) slices_.clear();
  const bool follows =
      request.index == slices_.size() &&
      (slices_.empty() || (request.move == request_.move && request.count == request_.count &&
                           request.slice > slices_.back().slice->id));
  if (!follows)
    return Status(Code::kDataLoss, "slices of move " + std::to_string(request.move) + " out of order");
  const std::optional<uint64_t> bytes = machine_.SliceBytes(request.slice);
  if (!bytes || payload_bytes != request.state_bytes + *bytes) {
    return Status(Code::kDataLoss, "payload has " + std::to_string(payload_bytes) + " bytes; slice " +
                                       ToString(request.slice) + " has " + std::to_string(bytes.value_or(0)));
  }
  request_ = request;
  state_.resize(request.state_bytes);
  memory_ = machine_.NewSliceMemory(request.slice);
  return std::vector<std::span<std::byte>>{state_, memory_.bytes().first(*bytes)};
}

Result<std::optional<MoveReceiver::Arrived>> MoveReceiver::OnMessage() {
  LEAT_ASSIGN_OR_RETURN(wire::SliceState state,
                        fields::Decode<wire::SliceState>(state_, "state of a slice that moves"));
  protocol::Slice slice = machine_.ArrivedSlice(request_.slice, std::move(memory_));
  slice.incarnation = request_.incarnation;
  slice.version = request_.version;
  slice.events = request_.events;
  slice.ledger = std::move(state.ledger);
  slices_.push_back(
      {std::make_shared<const protocol::Slice>(std::move(slice)), request_.saved, std::move(state.decided)});
  if (slices_.size() < request_.count) return std::optional<Arrived>();
  return std::optional<Arrived>(
      {request_.move, machine_.OnMoveArrived(request_.move, std::exchange(slices_, {}))});
}

}  // namespace leat::ps
