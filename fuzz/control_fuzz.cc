// A control message that decodes is encoded to one that decodes to the same.
#include "base/check.h"
#include "control/convert.h"

using namespace leat::control;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto request = ParseRequest(bytes); request.ok()) {
    const std::string text = Serialize(*request);
    const auto again = ParseRequest(text);
    LEAT_CHECK(again.ok() && Serialize(*again) == text);
  }
  if (const auto reply = ParseReply(bytes); reply.ok()) {
    const std::string text = Serialize(*reply);
    const auto again = ParseReply(text);
    LEAT_CHECK(again.ok() && Serialize(*again) == text);
  }
  return 0;
}
