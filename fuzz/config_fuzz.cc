// Any text parses to a tree or fails with one line. A tree that is written and parsed again is the same.
#include <stdexcept>
#include <string_view>

#include "base/check.h"
#include "base/config/config.h"
#include "stream/schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto config = leat::Config::Parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::string yaml = config.ToYaml();
    LEAT_CHECK(leat::Config::Parse(yaml, "again").ToYaml() == yaml);
    leat::stream::Schema::FromConfig(config);
  } catch (const std::invalid_argument& error) {
    LEAT_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
