#include "observe/tensorboard/events.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "observe/tensorboard/event.pb.h"
#include "observe/tensorboard/records.h"

namespace leat::tensorboard {
namespace {

namespace pb = leat::tensorboard::v1;

// The attribute in which TensorBoard looks for the shapes of a node's outputs.
constexpr const char* kShapes = "_output_shapes";

// ---- structs → messages

void Put(const Histogram& in, pb::Histogram* out) {
  out->set_min(in.min);
  out->set_max(in.max);
  out->set_num(in.count);
  out->set_sum(in.sum);
  out->set_sum_squares(in.sum_squares);
  out->mutable_bucket_limit()->Add(in.limits.begin(), in.limits.end());
  out->mutable_bucket()->Add(in.counts.begin(), in.counts.end());
}

void Put(const Summary& in, pb::Summary* out) {
  const auto add = [&](const std::string& tag, const char* plugin) {
    auto* value = out->add_value();
    value->set_tag(tag);
    if (const auto found = in.descriptions.find(tag); found != in.descriptions.end()) {
      value->mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
      value->mutable_metadata()->set_summary_description(found->second);
    }
    return value;
  };
  for (const auto& [tag, scalar] : in.scalars) add(tag, "scalars")->set_simple_value(scalar);
  for (const auto& [tag, histogram] : in.histograms) Put(histogram, add(tag, "histograms")->mutable_histo());
}

void Put(const Graph& in, pb::GraphDef* out) {
  for (const GraphNode& from : in.nodes) {
    auto* node = out->add_node();
    node->set_name(from.name);
    node->set_op(from.op);
    for (const std::string& input : from.inputs) node->add_input(input);
    node->set_device(from.device);
    for (const auto& [key, text] : from.attributes) {
      auto* attribute = node->add_attr();
      attribute->set_key(key);
      attribute->mutable_value()->set_s(text);
    }
    if (from.shapes.empty()) continue;
    auto* shapes = node->add_attr();
    shapes->set_key(kShapes);
    for (const auto& sizes : from.shapes) {
      auto* shape = shapes->mutable_value()->mutable_list()->add_shape();
      for (const int64_t size : sizes) shape->add_dim()->set_size(size);
    }
  }
  constexpr int kProducer = 22;  // of graphs whose nodes have these attributes
  out->mutable_versions()->set_producer(kProducer);
}

struct PutWhat {
  pb::Event* out;
  void operator()(const FileVersion& version) const { out->set_file_version(version.text); }
  void operator()(const RunStart&) const { out->mutable_session_log()->set_status(pb::SessionLog::START); }
  void operator()(const Summary& summary) const { Put(summary, out->mutable_summary()); }
  void operator()(const Graph& graph) const {
    pb::GraphDef message;
    Put(graph, &message);
    out->set_graph_def(message.SerializeAsString());
  }
};

// ---- messages → structs

Status Damaged(const std::string& what) {
  return {Code::kDataLoss, what};
}

Result<Histogram> Take(const pb::Histogram& in) {
  Histogram out{
      .min = in.min(), .max = in.max(), .count = in.num(), .sum = in.sum(), .sum_squares = in.sum_squares()};
  out.limits.assign(in.bucket_limit().begin(), in.bucket_limit().end());
  out.counts.assign(in.bucket().begin(), in.bucket().end());
  if (out.limits.size() != out.counts.size())
    return Damaged("a histogram has more limits than counts, or fewer");
  // Also false for NaN.
  const auto ascends = [](double a, double b) { return a < b; };
  if (std::adjacent_find(out.limits.begin(), out.limits.end(), std::not_fn(ascends)) != out.limits.end())
    return Damaged("the limits of a histogram do not ascend");
  return out;
}

Result<Summary> Take(const pb::Summary& in) {
  Summary out;
  for (const auto& value : in.value()) {
    if (value.value_case() == pb::Summary::Value::kSimpleValue) {
      out.scalars.emplace_back(value.tag(), value.simple_value());
    } else if (value.value_case() == pb::Summary::Value::kHisto) {
      LEAT_ASSIGN_OR_RETURN(auto histogram, Take(value.histo()));
      out.histograms.emplace_back(value.tag(), std::move(histogram));
    } else {
      return Damaged("'" + value.tag() + "' is neither a scalar nor a histogram");
    }
    if (value.has_metadata()) out.descriptions[value.tag()] = value.metadata().summary_description();
  }
  return out;
}

Result<Graph> TakeGraph(const std::string& bytes) {
  pb::GraphDef in;
  if (!in.ParseFromString(bytes)) return Damaged("its graph is not a GraphDef");
  Graph out;
  for (const auto& from : in.node()) {
    GraphNode node{.name = from.name(), .op = from.op(), .device = from.device()};
    node.inputs.assign(from.input().begin(), from.input().end());
    for (const auto& attribute : from.attr()) {
      if (attribute.key() != kShapes) {
        node.attributes[attribute.key()] = attribute.value().s();
        continue;
      }
      for (const auto& shape : attribute.value().list().shape()) {
        auto& sizes = node.shapes.emplace_back();
        for (const auto& dim : shape.dim()) sizes.push_back(dim.size());
      }
    }
    out.nodes.push_back(std::move(node));
  }
  return out;
}

}  // namespace

std::string Encode(const Event& event) {
  pb::Event message;
  message.set_wall_time(event.wall_time);
  message.set_step(event.step);
  std::visit(PutWhat{&message}, event.what);
  return message.SerializeAsString();
}

Result<Event> Decode(ByteView data) {
  pb::Event in;
  if (data.size() > std::numeric_limits<int>::max() ||
      !in.ParseFromArray(data.data(), static_cast<int>(data.size())))
    return Damaged("is not an Event");
  Event out{.wall_time = in.wall_time(), .step = in.step(), .what = {}};
  switch (in.what_case()) {
    case pb::Event::kFileVersion:
      out.what = FileVersion{in.file_version()};
      return out;
    case pb::Event::kSessionLog:
      if (in.session_log().status() != pb::SessionLog::START) break;
      out.what = RunStart{};
      return out;
    case pb::Event::kSummary: {
      LEAT_ASSIGN_OR_RETURN(out.what, Take(in.summary()));
      return out;
    }
    case pb::Event::kGraphDef: {
      LEAT_ASSIGN_OR_RETURN(out.what, TakeGraph(in.graph_def()));
      return out;
    }
    case pb::Event::WHAT_NOT_SET:
      break;
  }
  return Damaged("is none of the events that a run has");
}

Result<std::vector<Event>> DecodeFile(ByteView file, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto records, ReadRecords(file, path));
  std::vector<Event> events;
  for (const ByteView record : records) {
    auto event = Decode(record);
    if (!event.ok()) return event.status().With(path + ": record " + std::to_string(events.size()));
    events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace leat::tensorboard
