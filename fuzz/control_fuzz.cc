// A control message that decodes is encoded to the same bytes. The input is also damage to a message.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "net/rpc/codec.h"
#include "protocol/random/testing.h"

using namespace leat;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes = std::as_bytes(std::span(data, size));
  if (const auto request = control::ParseRequest(bytes); request.ok())
    LEAT_CHECK(std::ranges::equal(control::Serialize(*request), bytes));
  if (const auto reply = control::ParseReply(bytes); reply.ok())
    LEAT_CHECK(std::ranges::equal(control::Serialize(*reply), bytes));
  LEAT_CHECK((fields::InputFault<protocol::ControlRequest, protocol::ControlReply>(bytes).empty()));
  return 0;
}
