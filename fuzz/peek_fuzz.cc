// Any record can be shown: one line of the width asked for, without control characters; as JSON, one object
// with all of it. Looking for keys in it ends, too.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/check.h"
#include "records.h"
#include "stream/inspect/peek.h"
#include "stream/publish/publish.h"

namespace {

constexpr const char* kSchema = R"(
format: json
fields:
  amount: {type: number, mean: 1, std: 2}
  hour: {type: number, period: 24}
  country: {type: category, values: [ES, MX]}
  card: {type: category, buckets: 4}
  items: {type: id, below: 50, length: 3}
  churned: {type: category, values: [no, yes], role: label}
)";

size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat::stream;
  const RecordBatch batch = leat::fuzz::RecordOf(data, size);
  for (const size_t width : {20u, 79u}) {
    const std::string shown = ShownRecord(batch[0], width);
    LEAT_CHECK(Width(shown) <= width);
    LEAT_CHECK(std::ranges::none_of(shown, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }));
  }
  static const Schema schema = Schema::FromConfig(leat::Config::Parse(kSchema, "fuzz"));
  std::string text, json;
  RecordPrinter(&schema, {}).Print(batch, &text);
  RecordPrinter(&schema, {.json = true}).Print(batch, &json);
  const auto object = nlohmann::json::parse(json);
  LEAT_CHECK(object.contains("features") != object.contains("dead_letter"));
  if (object.contains("record")) LEAT_CHECK(object["record"] == leat::AsText(batch[0]));
  for (const char* field : {"card", "a.b"}) {
    const auto reader = MakeJsonKeyReader(field);
    const auto key = reader(batch[0]);
    if (key) LEAT_CHECK(PartitionOfKey(*key, 7) < 7);
  }
  (void)MakeCsvKeyReader(1, {.delimiter = ';', .escape = '\\'})(batch[0]);
  return 0;
}
