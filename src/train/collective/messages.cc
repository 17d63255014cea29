#include "train/collective/messages.h"

#include "base/fields/codec.h"
#include "base/fields/description.h"
#include "protocol/allreduce/training_state.h"
#include "protocol/messages_data.h"

namespace leat::collective {

Status Check(const AbortMessage& message) {
  return message.why.ok() ? Status(Code::kDataLoss, "why is no error") : Status();
}

wire::Port MemberPort() {
  // The state that a member sends the others is in no frame of its own (train/step/state_broadcast.h). Pushes
  // are those of followers.
  return {
      wire::PortKind::kMember,
      fields::HashOf<Greet, PieceHeader, BucketHeader, Alive, AbortMessage, protocol::TrainingState::Header,
                     protocol::PartitionLedger, protocol::PushRequest, protocol::PushReply>()};
}

}  // namespace leat::collective

namespace leat {
LEAT_CODECS(protocol::Greet, collective::PieceHeader, collective::BucketHeader, collective::Alive,
            collective::AbortMessage);
}
