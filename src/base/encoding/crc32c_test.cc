#include "base/bytes.h"

#include <gtest/gtest.h>

#include <string>

namespace leat {
namespace {

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, OfCheckValues) {
  EXPECT_EQ(Crc32c(AsBytes("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c(AsBytes(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(Crc32c(AsBytes(std::string(32, '\xff'))), 0x62a8ab43u);
  EXPECT_EQ(Crc32c({}), 0u);
}

}  // namespace
}  // namespace leat
