#include "protocol/slice.h"

#include "base/check.h"

namespace leat::protocol {

std::span<float> Slice::values() const {
  return {reinterpret_cast<float*>(memory.data()), elements};
}

std::span<float> Slice::slot(uint32_t i) const {
  LEAT_CHECK(i < slots);
  return {reinterpret_cast<float*>(memory.data()) + (i + 1) * elements, elements};
}

}  // namespace leat::protocol
