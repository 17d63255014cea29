#include "compute/onnx/write/writer.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

#include "compute/onnx/file.h"

namespace leat::onnx {
namespace {

using NameSet = std::set<std::string>;

constexpr const char* kTrainingDomain = "ai.onnx.preview.training";

bool IsTrainingNode(const proto::NodeProto& node) {
  return node.domain() == kTrainingDomain;
}

// Removes all outputs but the first, which is the only one in inference.
void DropOutputs(proto::NodeProto* node, NameSet* gone) {
  while (node->output_size() > 1) {
    if (const std::string& last = node->output(node->output_size() - 1); !last.empty()) gone->insert(last);
    node->mutable_output()->RemoveLast();
  }
}

void DropInputs(proto::NodeProto* node, int keep) {
  while (node->input_size() > keep ||
         (node->input_size() > 0 && node->input(node->input_size() - 1).empty())) {
    node->mutable_input()->RemoveLast();
  }
}

void DropAttribute(proto::NodeProto* node, const char* name) {
  auto* attributes = node->mutable_attribute();
  const auto end = std::remove_if(attributes->begin(), attributes->end(),
                                  [name](const auto& attribute) { return attribute.name() == name; });
  attributes->erase(end, attributes->end());
}

// All names in use: inputs of nodes and outputs of the graph.
NameSet Used(const proto::GraphProto& graph) {
  NameSet used;
  for (const auto& node : graph.node()) used.insert(node.input().begin(), node.input().end());
  for (const auto& output : graph.output()) used.insert(output.name());
  return used;
}

template <class List, class Predicate>
void EraseIf(List* list, const Predicate& predicate) {
  list->erase(std::remove_if(list->begin(), list->end(), predicate), list->end());
}

// Removes nodes that depend on removed values. Nodes are in topological order.
void DropDependents(proto::GraphProto* graph, NameSet* gone) {
  EraseIf(graph->mutable_node(), [gone](const proto::NodeProto& node) {
    const bool goes = IsTrainingNode(node) || std::ranges::any_of(node.input(), [gone](const auto& name) {
                        return gone->contains(name);
                      });
    if (goes) gone->insert(node.output().begin(), node.output().end());
    gone->erase("");
    return goes;
  });
  EraseIf(graph->mutable_output(), [gone](const auto& output) { return gone->contains(output.name()); });
}

// Removes nodes, weights and inputs that were used before and are now unused.
void DropUnread(proto::GraphProto* graph, const NameSet& before) {
  for (int nodes = -1; nodes != graph->node_size();) {
    nodes = graph->node_size();
    const NameSet used = Used(*graph);
    const auto unread = [&](const std::string& name) {
      return before.contains(name) && !used.contains(name);
    };
    EraseIf(graph->mutable_node(), [&](const proto::NodeProto& node) {
      return std::ranges::any_of(node.output(), unread) &&
             std::ranges::none_of(node.output(), [&](const auto& name) { return used.contains(name); });
    });
    EraseIf(graph->mutable_initializer(), [&](const auto& tensor) { return unread(tensor.name()); });
    EraseIf(graph->mutable_input(), [&](const auto& input) { return unread(input.name()); });
  }
}

// Removes the treatments of parameters that the file has lost.
void DropTreatments(proto::ModelProto* file) {
  NameSet parameters;
  for (const auto& tensor : file->graph().initializer()) parameters.insert(tensor.name());
  EraseIf(file->mutable_metadata_props(), [&](const auto& entry) {
    return entry.key().starts_with(kTreatmentKey) &&
           !parameters.contains(entry.key().substr(kTreatmentKey.size()));
  });
}

}  // namespace

void ToInferenceForm(proto::ModelProto* file) {
  file->clear_training_info();
  proto::GraphProto* const graph = file->mutable_graph();
  const NameSet before = Used(*graph);
  const std::string first = graph->output_size() > 0 ? graph->output(0).name() : "";
  NameSet gone;
  bool changed = false;
  for (auto& node : *graph->mutable_node()) {
    changed = changed || IsTrainingNode(node);
    if (!node.domain().empty() && node.domain() != "ai.onnx") continue;
    const bool dropout = node.op_type() == "Dropout";
    if (!dropout && node.op_type() != "BatchNormalization") continue;
    const auto size = node.ByteSizeLong();
    if (dropout) DropInputs(&node, 2);
    if (!dropout) DropAttribute(&node, "training_mode");
    DropOutputs(&node, &gone);
    changed = changed || node.ByteSizeLong() != size;
  }
  if (!changed) return;
  DropDependents(graph, &gone);
  if (gone.contains(first))
    throw std::invalid_argument("output '" + first + "' of the ONNX file is computed only in training");
  DropUnread(graph, before);
  DropTreatments(file);
  EraseIf(file->mutable_opset_import(), [](const auto& opset) { return opset.domain() == kTrainingDomain; });
}

}  // namespace leat::onnx
