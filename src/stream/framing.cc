#include "stream/framing.h"

#include "base/text.h"

namespace leat::stream {

std::string ReasonOfFrame(ByteView record) {
  const std::string wanted = "; a record begins with a byte 0 and the 4 bytes of a schema's id";
  if (record.size() < kFrameBytes) return "has " + std::to_string(record.size()) + " bytes" + wanted;
  return Formatted("begins with the byte 0x%02x", static_cast<unsigned>(record[0])) + wanted;
}

}  // namespace leat::stream
