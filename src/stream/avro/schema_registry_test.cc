#include "stream/avro/schema_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace leat::stream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A service with a clock: time passes only by waiting, and by `slow` for each request.
struct World {
  Time now{0};
  Duration slow{0};
  bool down = false;
  std::map<uint32_t, std::string> schemas;
  std::map<uint32_t, Time> later;  // when these appear
  std::vector<uint32_t> asked;
  std::vector<Duration> waits;

  class Service final : public SchemaService {
   public:
    explicit Service(World& world) : world_(world) {}
    Result<std::string> Get(uint32_t id, Duration timeout) override {
      world_.asked.push_back(id);
      world_.now += std::min(world_.slow, timeout);
      if (world_.down) return Status(Code::kUnavailable, "connection refused");
      if (world_.slow > timeout) return Status(Code::kDeadlineExceeded, "timed out");
      if (id == 403) return Status(Code::kPermissionDenied, "forbidden");
      const auto at = world_.later.find(id);
      const auto found = world_.schemas.find(id);
      if (found == world_.schemas.end() || (at != world_.later.end() && world_.now < at->second))
        return Status(Code::kNotFound, "no schema " + std::to_string(id));
      return found->second;
    }

   private:
    World& world_;
  };

  SchemaRegistry Registry(Duration timeout = seconds(10)) {
    return {std::make_unique<Service>(*this),
            timeout,
            {.now = [this] { return now; },
             .wait =
                 [this](Duration time) {
                   waits.push_back(time);
                   now += time;
                 }}};
  }
};

std::map<uint32_t, std::string> Found(SchemaRegistry& registry, const std::set<uint32_t>& ids) {
  std::map<uint32_t, std::string> found;
  registry.Find(ids, [&](uint32_t id, const std::string& text) { found[id] = text; });
  return found;
}

TEST(SchemaRegistry, FindsWhatIsThereWithoutWaiting) {
  World world{.schemas = {{1, "one"}, {2, "two"}}};
  auto registry = world.Registry();
  EXPECT_EQ(Found(registry, {1, 2}), world.schemas);
  EXPECT_THAT(world.asked, ElementsAre(1, 2));
  EXPECT_TRUE(world.waits.empty());
}

TEST(SchemaRegistry, AsksAgainForAnIdThatAppearsLater) {
  World world{.schemas = {{1, "one"}, {2, "two"}}, .later = {{2, seconds(1)}}};
  auto registry = world.Registry();
  EXPECT_EQ(Found(registry, {1, 2}), world.schemas);
  EXPECT_THAT(world.waits, ElementsAre(milliseconds(50), milliseconds(100), milliseconds(200),
                                       milliseconds(400), milliseconds(800)));
  EXPECT_EQ(std::ranges::count(world.asked, 1u), 1);
}

TEST(SchemaRegistry, GivesUpAtTheDeadlineAndRemembers) {
  World world;
  auto registry = world.Registry();
  EXPECT_TRUE(Found(registry, {7}).empty());
  EXPECT_EQ(registry.Reason(7), "no schema 7");
  EXPECT_LE(world.now, seconds(10));
  EXPECT_GE(world.now, seconds(7));
  EXPECT_LE(world.asked.size(), 12u);
  const size_t asked = world.asked.size();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Found(registry, {7}).empty());
  EXPECT_EQ(world.asked.size(), asked) << "not asked for each record";
  // Then other ids are asked for once, without waiting.
  const Time before = world.now;
  EXPECT_TRUE(Found(registry, {8, 9}).empty());
  EXPECT_EQ(world.asked.size(), asked + 2);
  EXPECT_EQ(world.now, before);
  EXPECT_EQ(registry.Reason(9), "no schema 9");
  world.schemas[7] = "seven";
  world.now += SchemaRegistry::kPause;
  EXPECT_EQ(Found(registry, {7}), world.schemas);
}

TEST(SchemaRegistry, ARegistryThatIsDownIsLeftAlone) {
  World world{.down = true, .schemas = {{1, "one"}, {2, "two"}}};
  auto registry = world.Registry();
  EXPECT_TRUE(Found(registry, {1, 2}).empty());
  EXPECT_EQ(registry.Reason(1), "connection refused");
  EXPECT_EQ(registry.Reason(2), "connection refused");
  EXPECT_LE(world.now, seconds(10));
  const size_t asked = world.asked.size();
  const Time before = world.now;
  for (uint32_t id = 3; id < 1000; ++id) EXPECT_TRUE(Found(registry, {id}).empty());
  EXPECT_EQ(registry.Reason(999), "connection refused");
  EXPECT_EQ(world.asked.size(), asked);
  EXPECT_EQ(world.now, before);
  world.down = false;
  world.now += SchemaRegistry::kPause;
  EXPECT_EQ(Found(registry, {1, 2}), world.schemas);
}

TEST(SchemaRegistry, ASlowRegistryHasNoMoreTimeThanTheDeadline) {
  World world{.slow = seconds(4)};
  std::set<uint32_t> ids;
  for (uint32_t id = 0; id < 100; ++id) ids.insert(id);
  auto registry = world.Registry();
  EXPECT_TRUE(Found(registry, ids).empty());
  EXPECT_LE(world.now, seconds(10));
  EXPECT_LE(world.asked.size(), 3u);
  EXPECT_NE(registry.Reason(99), "");
}

TEST(SchemaRegistry, ALastWordIsNotAskedForAgain) {
  World world{.schemas = {{1, "one"}}};
  auto registry = world.Registry();
  EXPECT_EQ(Found(registry, {1, 403}), world.schemas);
  EXPECT_EQ(registry.Reason(403), "forbidden");
  EXPECT_THAT(world.asked, ElementsAre(1, 403));
  EXPECT_EQ(world.now, Time{0});
}

TEST(SchemaRegistry, RemembersALimitedNumberOfUnknownIds) {
  World world;
  auto registry = world.Registry(milliseconds(10));
  std::set<uint32_t> ids;
  for (uint32_t id = 0; id < 2 * SchemaRegistry::kMaxUnknown; ++id) ids.insert(id);
  EXPECT_TRUE(Found(registry, ids).empty());
  EXPECT_EQ(registry.Reason(0), "is not known");
  EXPECT_THAT(registry.Reason(2 * SchemaRegistry::kMaxUnknown - 1), HasSubstr("no schema"));
}

}  // namespace
}  // namespace leat::stream
