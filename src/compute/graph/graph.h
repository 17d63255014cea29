// A dataflow graph: nodes are operations, edges are tensors.
//
// Nodes are added in topological order: inputs and control dependencies come before the node that uses them,
// so a graph has no cycles. Element types and shapes are checked when a node is added. A mismatch throws
// std::invalid_argument with op, node, shapes and the line of the job file:
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

#include "compute/tensor/tensor.h"

namespace leat::graph {

class Graph;
struct Node;

using NodeIndex = uint32_t;

// Output of a node.
struct Value {
  NodeIndex node = 0;
  uint32_t output = 0;
  friend auto operator<=>(const Value&, const Value&) = default;
};

// An operation. Each op is a small immutable class in ops/ with its attributes as members.
class Op {
 public:
  virtual ~Op() = default;
  // The key into kernel tables: "matmul".
  virtual std::string_view kind() const = 0;
  // Checks the input types and returns the output types. Throws std::invalid_argument; the message states
  // only the types or sizes, since Graph::Add adds op, node and line.
  virtual std::vector<TensorType> Infer(std::span<const TensorType> inputs) const = 0;
  // Adds nodes that compute the gradient of a loss with respect to each input, given the gradients with
  // respect to the outputs. Returns one entry per input; an empty one means that no gradient flows to it.
  // `output_grads[i]` is empty if the loss does not depend on output i. The default throws: no gradient.
  virtual std::vector<std::optional<Value>> Gradient(
      Graph& graph, const Node& node, std::span<const std::optional<Value>> output_grads) const;
  // The attributes as text: "transpose_b=true"; empty if there are none. Two ops of equal kind and attributes
  // must compute the same from the same inputs, since MergeCommon compares them.
  virtual std::string attributes() const { return ""; }
  // Whether output 0 has the elements of input 0 in another shape. A plan then shares the memory and runs no
  // kernel.
  virtual bool is_view() const { return false; }
  // Estimated arithmetic operations of one run, for scheduling. The default is one per output element.
  virtual double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

struct Node {
  NodeIndex index = 0;
  std::string name;   // unique in its graph: "dense1/matmul"
  std::string where;  // "job.yaml:14", or empty
  std::shared_ptr<const Op> op;
  std::vector<Value> inputs;
  std::vector<NodeIndex> control;  // nodes that must run before this one, besides the inputs
  std::string device;              // required device, such as "cpu:1"; empty: any
  std::vector<TensorType> outputs;
};

class Graph {
 public:
  // While it lives, nodes that are added get this name prefix, job file line and device. An empty argument
  // keeps the value of the enclosing scope. Scopes nest: prefixes are joined with "/".
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

  // Adds a node and returns its output 0. Its name is the scope's prefix and `name`, or the op's kind if
  // `name` is empty; a number is appended if the name is taken. Throws std::invalid_argument if the types do
  // not match.
  Value Add(std::shared_ptr<const Op> op, std::vector<Value> inputs, std::string_view name = "",
            std::vector<NodeIndex> control = {});
  // Adds a node with the op O(args...).
  template <class O, class... Args>
  Value Make(std::vector<Value> inputs, Args&&... args) {
    return Add(std::make_shared<O>(std::forward<Args>(args)...), std::move(inputs));
  }
  // The same with a name.
  template <class O, class... Args>
  Value MakeNamed(std::string_view name, std::vector<Value> inputs, Args&&... args) {
    return Add(std::make_shared<O>(std::forward<Args>(args)...), std::move(inputs), name);
  }
  // For passes: adds a node with exactly this name, line and device, ignoring the scope.
  NodeIndex AddExact(std::shared_ptr<const Op> op, std::vector<Value> inputs, std::vector<NodeIndex> control,
                     std::string name, std::string where, std::string device = "");

  const Node& node(NodeIndex index) const { return nodes_[index]; }
  const Node& node(Value v) const { return nodes_[v.node]; }
  const TensorType& type(Value v) const { return nodes_[v.node].outputs[v.output]; }
  const Shape& shape(Value v) const { return type(v).shape; }
  // In topological order. References to nodes stay valid while the graph grows.
  const std::deque<Node>& nodes() const { return nodes_; }
  // The node with this name, if any.
  std::optional<NodeIndex> Find(std::string_view name) const;

  // A line per node: `dense1/matmul = matmul(x, dense1/weight) transpose_b=true : f32[128, 64]`. Output 1 of
  // a node is written `node:1`, control dependencies `after a, b`, a device `on cpu:1`.
  std::string ToString() const;

 private:
  std::string UniqueName(std::string_view name) const;

  std::deque<Node> nodes_;
  std::unordered_map<std::string, NodeIndex> by_name_;
  std::string prefix_;
  std::string where_;
  std::string device_;
};

// Reverse-mode automatic differentiation.
//
// Appends nodes to `graph` that compute d loss / d v for each v in `wrt`, and returns those values in the
// same order. Each has the type of its v, and is zero if the loss does not depend on v. The result is an
// ordinary graph and can be differentiated again. Throws std::invalid_argument if `loss` is not an f32
// scalar, or if a path from `wrt` to `loss` contains an op without a gradient.
std::vector<Value> Gradients(Graph& graph, Value loss, std::span<const Value> wrt);

}  // namespace leat::graph
