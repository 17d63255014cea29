// The events of an event file, as plain structs; event.proto has the messages. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace leat::tensorboard {

// A distribution. Bucket i has counts[i] values in [limits[i - 1], limits[i]); the first one begins at −∞.
struct Histogram {
  double min = 0, max = 0;
  double count = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits;  // ascending; the last bucket has a limit, too
  std::vector<double> counts;  // as many
  friend bool operator==(const Histogram&, const Histogram&) = default;
};

// Values that TensorBoard shows at one step.
struct Summary {
  std::vector<std::pair<std::string, float>> scalars;         // by tag: "learning/loss"
  std::vector<std::pair<std::string, Histogram>> histograms;  // by tag
  std::map<std::string, std::string> descriptions;            // Markdown for some of the tags
  friend bool operator==(const Summary&, const Summary&) = default;
};

struct GraphNode {
  std::string name;                 // "dense1/matmul"; "/" separates scopes
  std::string op;                   // "matmul"
  std::vector<std::string> inputs;  // "node", "node:1" for output 1, "^node" for a control dependency
  std::string device;               // "/job:ps/task:1"
  std::map<std::string, std::string> attributes;
  std::vector<std::vector<int64_t>> shapes;  // shapes of the outputs
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};
struct Graph {
  std::vector<GraphNode> nodes;
  friend bool operator==(const Graph&, const Graph&) = default;
};

// The first event of a file.
struct FileVersion {
  std::string text = "brain.Event:2";
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};
// The run starts here, or again: what any of its files has from this step on is obsolete.
struct RunStart {
  friend bool operator==(const RunStart&, const RunStart&) = default;
};

struct Event {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
  std::variant<FileVersion, RunStart, Summary, Graph> what;
  friend bool operator==(const Event&, const Event&) = default;
};

// As the data of a record. Texts other than the values of attributes are UTF-8.
std::string Encode(const Event& event);

}  // namespace leat::tensorboard
