#include "run/roles/start/coordinator_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fields/files/testing.h"

namespace leat::roles {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CoordinatorOptions, TrainPassesOnWhatIsGiven) {
  EXPECT_THAT(PassedOn({}), IsEmpty());
  CoordinatorOptions options;
  options.feed_port = 4002;  // a coordinator's alone
  options.tensorboard = "runs";
  EXPECT_THAT(PassedOn(options), ElementsAre("--tensorboard", "runs"));
  options.tensorboard_gradients = true;
  EXPECT_THAT(PassedOn(options), ElementsAre("--tensorboard", "runs", "--tensorboard-gradients"));
}

TEST(CoordinatorOptions, ArePartOfTheDocumentation) {
  std::string table = "| option | also of `train` | |\n|---|---|---|\n";
  for (const CoordinatorOption& option : kCoordinatorOptions)
    table += std::string("| `") + option.name + "` | " + (option.train ? "yes" : "no") + " | " + option.help +
             " |\n";
  fields::DocPage page(LEAT_OPTIONS_PAGE);
  EXPECT_EQ(page.Put("<!-- options: coordinator -->", "options", table), "");
  EXPECT_EQ(page.Fault("options", fields::DocPage::Writes()), "");
}

}  // namespace
}  // namespace leat::roles
