// The ops that a cut graph sends and receives with. They stand in parts of a partition alone, in pairs of one
// edge, and have kernels of the engine's own.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace leat::engine {

// A tensor, or (without an input) the fact that the nodes it depends on by control have run.
class Send final : public graph::Op {
 public:
  Send(uint32_t e, std::string t) : edge(e), to(std::move(t)) {}
  std::string_view kind() const override { return "send"; }
  std::vector<TensorType> Infer(std::span<const TensorType>) const override { return {}; }
  std::string attributes() const override { return "edge=" + std::to_string(edge) + " to=" + to; }

  const uint32_t edge;
  const std::string to;  // device
};

// What was sent; no output when that was no tensor.
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
