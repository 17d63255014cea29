#include "stream/publish/publish.h"

#include <gtest/gtest.h>

#include "stream/testing.h"

namespace leat::stream {
namespace {

std::string KeyOf(const KeyReader& reader, const std::string& record) {
  const RecordBatch batch = BatchOf({record});
  const auto key = reader(batch[0]);
  return key ? "key " + std::string(*key) : "none";
}

TEST(Keys, FieldsOfJson) {
  const auto id = MakeJsonKeyReader("id");
  EXPECT_EQ(KeyOf(id, R"({"x": 1, "id": "a\n\u00e9"})"), "key a\n\u00e9");
  EXPECT_EQ(KeyOf(id, R"({"id": 12.50 , "x": 1})"), "key 12.50");
  EXPECT_EQ(KeyOf(id, R"({"id":-3e2})"), "key -3e2");
  EXPECT_EQ(KeyOf(id, R"({"id": true})"), "key true");
  EXPECT_EQ(KeyOf(id, R"({"id": ""})"), "key ");
  for (const char* none : {R"({"id": null})", R"({"id": [1]})", R"({"id": {"id": 1}})", R"({"x": {"id": 1}})",
                           "{}", "", "7", "[1]", R"({"id": )", R"({"id": "a)"})
    EXPECT_EQ(KeyOf(id, none), "none") << none;

  const auto nested = MakeJsonKeyReader("customer.address.city");
  EXPECT_EQ(KeyOf(nested, R"({"n": 1, "customer": {"id": 2, "address": {"city": "Lima"}}})"), "key Lima");
  EXPECT_EQ(KeyOf(nested, R"({"customer": {"address": "Lima"}})"), "none");
}

TEST(Keys, ColumnsOfCsv) {
  const auto second = MakeCsvKeyReader(1, {.delimiter = ';'});
  EXPECT_EQ(KeyOf(second, R"(1; "a;b" ;3)"), "key a;b");
  EXPECT_EQ(KeyOf(second, "1;x"), "key x");
  for (const char* none : {"1", "1;;3", "", R"(1;"a)"}) EXPECT_EQ(KeyOf(second, none), "none") << none;
}

// Results of kafka.utils.Utils.murmur2 of the Java client for these, by its own unit test:
// -973932308, -790332482, -985981536, -1486304829, -58897971, 479470107.
TEST(Keys, HaveThePartitionOfKafkasClients) {
  constexpr uint32_t kMany = 1000;
  const auto place = [](int32_t murmur) { return static_cast<uint32_t>(murmur & 0x7fffffff) % kMany; };
  EXPECT_EQ(PartitionOfKey("21", kMany), place(-973932308));
  EXPECT_EQ(PartitionOfKey("foobar", kMany), place(-790332482));
  EXPECT_EQ(PartitionOfKey("a-little-bit-long-string", kMany), place(-985981536));
  EXPECT_EQ(PartitionOfKey("a-little-bit-longer-string", kMany), place(-1486304829));
  EXPECT_EQ(PartitionOfKey("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", kMany), place(-58897971));
  EXPECT_EQ(PartitionOfKey("abc", kMany), place(479470107));
}

}  // namespace
}  // namespace leat::stream
