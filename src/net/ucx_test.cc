// Whether messages go the way that was meant, and what goes wrong on the way to it.
#include <gtest/gtest.h>

#include "net/testing.h"
#include "net/ucx_port.h"

namespace leat::net {
namespace {

using testing::RandomBytes;
using testing::Recorder;
using testing::RunUntil;

TEST(UcxPort, ContextForHost) {
  const auto context = UcxContext::ForHost(false);
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  struct Nobody final : UcxPort::Handler {
    void OnFragment(ByteView) override {}
    void OnTaken(uint32_t) override {}
  } handler;
  const auto port = UcxPort::Make(*context, &handler);
  ASSERT_TRUE(port.ok()) << port.status().ToString();
}

}  // namespace
}  // namespace leat::net
