// Any text: as a profile, the result of a point and a target it is read or refused; as a cluster it is read,
// placed and priced, or refused with one line.
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/config/config.h"
#include "lab/study/analysis.h"
#include "lab/study/grid/study.h"
#include "lab/study/profile.h"
#include "lab/study/simulation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = study::ParseProfile(text, "fuzz");
  if (profile.ok()) {
    LEAT_CHECK(!profile->batches.empty());
    LEAT_CHECK(study::ParseProfile(study::ToJson(*profile), "again").ok());
    for (const uint32_t batch : {1u, 100u, 1000u}) {
      const auto between = study::BatchOf(*profile, batch, "fuzz");
      LEAT_CHECK(!between.ok() || std::isfinite(between->compute_s));
    }
  }
  if (const auto result = study::ParseResult(text, {}); result.ok() && result->error.empty())
    LEAT_CHECK(result->seconds > 0 && std::isfinite(result->seconds));
  try {
    static_cast<void>(study::ParseTarget(std::string(text)));
  } catch (const std::invalid_argument&) {  // as it should be
  }
  try {
    const study::ClusterFile file = study::ParseCluster(Config::Parse(text, "fuzz"));
    sim::ClusterOptions options;
    study::Place(file, file.workers(), file.servers(), &options);
    LEAT_CHECK(options.worker_hosts.size() == file.workers() &&
               options.server_hosts.size() == file.servers());
    for (const uint32_t host : options.worker_hosts) LEAT_CHECK(host < options.hosts.size());
    for (const study::HostClass& host : file.classes) LEAT_CHECK(std::isfinite(host.price));
  } catch (const std::invalid_argument& e) {
    LEAT_CHECK(std::string_view(e.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
