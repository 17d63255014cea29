#include "run/launcher/start/ready.h"

#include <gtest/gtest.h>

#include <string>

namespace leat::launcher {
namespace {

TEST(Ready, ReadsLinesHoweverTheyAreCut) {
  const std::string all = WaitsLine("brokers") + WaitsLine("a\nbucket") + "10.0.0.1:4000\n";
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    std::string rest, waits, address;
    for (const std::string& part : {all.substr(0, cut), all.substr(cut)}) {
      const ReadyNews news = TakeReady(part, &rest);
      if (news.waits) waits = *news.waits;
      if (!news.address.empty()) address = news.address;
    }
    EXPECT_EQ(waits, "a bucket") << cut;
    EXPECT_EQ(address, "10.0.0.1:4000") << cut;
    EXPECT_EQ(rest, "") << cut;
  }
}

TEST(Ready, ALongTextStaysOneLineThatIsRead) {
  std::string rest;
  const std::string line = WaitsLine(std::string(100'000, 'x'));
  EXPECT_EQ(TakeReady(line, &rest).waits.value_or("").size(), 1000u);
  EXPECT_EQ(TakeReady(WaitsLine(""), &rest).waits, "") << "for nothing any more";
  EXPECT_EQ(TakeReady("127.0.0.1:1\n", &rest).address, "127.0.0.1:1");
}

TEST(Ready, NoEndOfLineGrowsForEver) {
  std::string rest;
  for (int i = 0; i < 1000; ++i) TakeReady(std::string(1000, 'x'), &rest);
  EXPECT_LT(rest.size(), 10'000u);
}

}  // namespace
}  // namespace leat::launcher
