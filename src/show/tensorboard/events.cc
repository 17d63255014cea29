#include "show/tensorboard/events.h"

#include "show/tensorboard/event.pb.h"

namespace leat::tensorboard {
namespace {

namespace pb = leat::tensorboard::v1;

// The attribute in which TensorBoard looks for the shapes of a node's outputs.
constexpr const char* kShapes = "_output_shapes";

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
  constexpr int kProducer = 22;  // version of graphs whose nodes have these attributes
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

}  // namespace

std::string Encode(const Event& event) {
  pb::Event message;
  message.set_wall_time(event.wall_time);
  message.set_step(event.step);
  std::visit(PutWhat{&message}, event.what);
  return message.SerializeAsString();
}

}  // namespace leat::tensorboard
