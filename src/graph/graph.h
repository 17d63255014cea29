// A graph of operations and the tensors that flow between them.
//
// Nodes are appended in topological order: a node's inputs and control dependencies stand before it, so a
// graph has no cycle. Types (element type and shape) are known when a node is added; what does not fit throws
// std::invalid_argument naming op, node, shapes and the line of the job file:
//   [matmul] a[128, 30] x b[64, 32]: inner sizes 30 and 64 differ, node "dense1/matmul", job.yaml:14
// Not thread-safe while it is built; afterwards any number of threads may read it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace leat::graph {

class Graph;
struct Node;

using NodeIndex = uint32_t;

// One output of one node.
struct Value {
  NodeIndex node = 0;
  uint32_t output = 0;
  friend auto operator<=>(const Value&, const Value&) = default;
};

// What a node does. One small immutable class per op, its attributes as members; ops/ has one file for each.
class Op {
 public:
  virtual ~Op() = default;
  // The key into kernel tables: "matmul".
  virtual std::string_view kind() const = 0;
  // Types of the outputs for these inputs. Throws std::invalid_argument on what does not fit; the message
  // needs only the sizes, Graph::Add puts op, node and line around it.
  virtual std::vector<TensorType> Infer(std::span<const TensorType> inputs) const = 0;
  // Adds the nodes that compute the gradient of a loss by each input, given that by each output, and returns
  // them, one for each input. An empty optional means: no gradient flows there. `output_grads[i]` is empty
  // when output i does not reach the loss. The default says that the op has no gradient at all.
  virtual std::vector<std::optional<Value>> Gradient(
      Graph& graph, const Node& node, std::span<const std::optional<Value>> output_grads) const;
  // Attributes for the printed form: "transpose_b=true"; empty when there are none. Ops of equal kind and
  // attributes compute the same from the same inputs: common subexpressions are found by them.
  virtual std::string attributes() const { return ""; }
  // Output 0 is input 0 in another shape, element for element: a plan gives both the same memory and needs no
  // kernel.
  virtual bool is_view() const { return false; }
  // Arithmetic operations of one run, roughly: what the executor weighs a node by. The default is one an
  // output element.
  virtual double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

struct Node {
  NodeIndex index = 0;
  std::string name;   // unique in its graph: "dense1/matmul"
  std::string where;  // "job.yaml:14", or empty
  std::shared_ptr<const Op> op;
  std::vector<Value> inputs;
  std::vector<NodeIndex> control;  // run before this node, though no tensor flows
  std::string device;              // where it has to run: "cpu:1"; empty: wherever it is best
  std::vector<TensorType> outputs;
};

class Graph {
 public:
  // Sets the prefix of names, the line and the device that nodes added while it lives belong to; what is
  // empty stays as it was. Nests.
  class Scope {
   public:
    Scope(Graph& graph, std::string_view name, std::string_view where = "", std::string_view device = "");
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Graph& graph_;
    std::string old_prefix_;
    std::string old_where_;
    std::string old_device_;
  };

  // Adds a node; its name is the scope's prefix and `name` (the op's kind when empty), numbered when taken.
  // Returns its output 0.
  Value Add(std::shared_ptr<const Op> op, std::vector<Value> inputs, std::string_view name = "",
            std::vector<NodeIndex> control = {});
  template <class O, class... Args>
  Value Make(std::vector<Value> inputs, Args&&... args) {
    return Add(std::make_shared<O>(std::forward<Args>(args)...), std::move(inputs));
  }
  // The same with a name of the node's own.
  template <class O, class... Args>
  Value MakeNamed(std::string_view name, std::vector<Value> inputs, Args&&... args) {
    return Add(std::make_shared<O>(std::forward<Args>(args)...), std::move(inputs), name);
  }
  // For passes: adds a node under exactly that name, line and device, whatever the scope, and returns it.
  NodeIndex AddExact(std::shared_ptr<const Op> op, std::vector<Value> inputs, std::vector<NodeIndex> control,
                     std::string name, std::string where, std::string device = "");

  const Node& node(NodeIndex index) const { return nodes_[index]; }
  const Node& node(Value v) const { return nodes_[v.node]; }
  const TensorType& type(Value v) const { return nodes_[v.node].outputs[v.output]; }
  const Shape& shape(Value v) const { return type(v).shape; }
  // In topological order. References to nodes stay valid while the graph grows.
  const std::deque<Node>& nodes() const { return nodes_; }
  // The node of that name, or an empty optional.
  std::optional<NodeIndex> Find(std::string_view name) const;

  // A line a node: `dense1/matmul = matmul(x, dense1/weight) transpose_b=true : f32[128, 64]`; output 1 of a
  // node is written `node:1`, control dependencies `after a, b`, a device `on cpu:1`.
  std::string ToString() const;

 private:
  std::string UniqueName(std::string_view name) const;

  std::deque<Node> nodes_;
  std::unordered_map<std::string, NodeIndex> by_name_;
  std::string prefix_;
  std::string where_;
  std::string device_;
};

}  // namespace leat::graph
