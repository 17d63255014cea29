// Prints the events of an event file, one JSON object per line, for system tests: read_events FILE
#include <cstdio>
#include <nlohmann/json.hpp>

#include "show/tensorboard/testing.h"
#include "storage/checkpoint/file.h"

using namespace leat::tensorboard;
using Json = nlohmann::ordered_json;

namespace {

constexpr uint64_t kMostBytes = 256 << 20;

struct Show {
  Json& json;
  void operator()(const FileVersion& version) const { json["version"] = version.text; }
  void operator()(const RunStart&) const { json["start"] = true; }
  void operator()(const Summary& summary) const {
    json["scalars"] = json["histograms"] = Json::object();
    for (const auto& [tag, value] : summary.scalars) json["scalars"][tag] = value;
    for (const auto& [tag, histogram] : summary.histograms) {
      json["histograms"][tag] = {{"min", histogram.min},       {"max", histogram.max},
                                 {"count", histogram.count},   {"sum", histogram.sum},
                                 {"limits", histogram.limits}, {"counts", histogram.counts}};
    }
  }
  void operator()(const Graph& graph) const {
    json["graph"] = Json::object();
    for (const GraphNode& node : graph.nodes)
      json["graph"][node.name] = {{"op", node.op}, {"device", node.device}, {"inputs", node.inputs}};
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: read_events FILE\n");
    return 2;
  }
  const auto bytes = leat::checkpoint::ReadFile(argv[1], kMostBytes);
  const auto events = bytes.ok() ? DecodeFile(*bytes, argv[1]) : bytes.status();
  if (!events.ok()) {
    std::fprintf(stderr, "%s\n", events.status().ToString().c_str());
    return 1;
  }
  for (const Event& event : *events) {
    Json json{{"wall_time", event.wall_time}, {"step", event.step}};
    std::visit(Show{json}, event.what);
    std::printf("%s\n", json.dump().c_str());
  }
  return 0;
}
