// Send and Receive ops between the parts of a partitioned graph. They come in pairs with the same edge
// number. Their kernels belong to the engine.
#pragma once

#include <optional>
#include <string>

#include "compute/graph/graph.h"

namespace leat::engine {

// Sends its input tensor. Without an input, it signals that its control dependencies have run.
class Send final : public graph::Op {
 public:
  Send(uint32_t e, std::string t) : edge(e), to(std::move(t)) {}
  std::string_view kind() const override { return "send"; }
  std::vector<TensorType> Infer(std::span<const TensorType>) const override { return {}; }
  std::string attributes() const override { return "edge=" + std::to_string(edge) + " to=" + to; }

  const uint32_t edge;
  const std::string to;  // device
};

// Outputs the tensor that was sent. Without a tensor, it has no output and only orders nodes.
class Receive final : public graph::Op {
 public:
  Receive(uint32_t e, std::string f, std::optional<TensorType> t)
      : edge(e), from(std::move(f)), type(std::move(t)) {}
  std::string_view kind() const override { return "recv"; }
  std::vector<TensorType> Infer(std::span<const TensorType>) const override {
    return type ? std::vector{*type} : std::vector<TensorType>{};
  }
  std::string attributes() const override { return "edge=" + std::to_string(edge) + " from=" + from; }

  const uint32_t edge;
  const std::string from;  // device
  const std::optional<TensorType> type;
};

}  // namespace leat::engine
