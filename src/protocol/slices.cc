#include "protocol/slices.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace leat::protocol {

namespace {

// Boundaries are rounded to this many elements: a cache line of f32.
constexpr uint64_t kBlock = 16;
// Three times what moving requires, so that typical networks divide within 10 % of even.
constexpr uint64_t kSlicesPerServer = 12;

uint64_t CeilDiv(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

void CutVariable(uint32_t variable, uint64_t elements, uint64_t pieces, std::vector<SliceSpec>* out) {
  const uint64_t blocks = CeilDiv(elements, kBlock);
  for (uint64_t i = 0; i < pieces; ++i) {
    SliceSpec slice{.variable = variable};
    if (pieces <= blocks) {
      slice.begin = blocks * i / pieces * kBlock;
      slice.end = std::min(blocks * (i + 1) / pieces * kBlock, elements);
    } else {
      slice.begin = elements * i / pieces;
      slice.end = elements * (i + 1) / pieces;
    }
    out->push_back(slice);
  }
}

}  // namespace

SliceTable MakeSlices(std::vector<optim::VariableSpec> variables, uint64_t seed, uint32_t max_servers,
                      uint64_t max_slice_bytes) {
  const uint64_t most = std::max<uint64_t>(max_slice_bytes / sizeof(float) / kBlock, 1);  // blocks
  std::vector<uint64_t> elements, pieces;
  uint64_t total = 0;
  for (const auto& variable : variables) {
    elements.push_back(static_cast<uint64_t>(variable.shape.elements()));
    pieces.push_back(CeilDiv(CeilDiv(elements.back(), kBlock), most));
    if (variable.role == optim::VariableRole::kMoments) pieces.back() = std::min<uint64_t>(pieces.back(), 1);
    total += pieces.back();
  }

  // Divides the variable with the largest pieces until there are enough, at block boundaries first, and
  // between them only when these are used up.
  const uint64_t wanted = kSlicesPerServer * std::max(max_servers, 1u);
  for (const uint64_t unit : {kBlock, uint64_t{1}}) {
    using Candidate = std::pair<uint64_t, uint32_t>;  // elements of a piece; ~variable: the first wins a tie
    std::priority_queue<Candidate> largest;
    const auto offer = [&](uint32_t v) {
      if (variables[v].role == optim::VariableRole::kMoments) return;
      if (pieces[v] > 0 && pieces[v] < CeilDiv(elements[v], unit))
        largest.push({elements[v] / pieces[v], ~v});
    };
    for (uint32_t v = 0; v < variables.size(); ++v) offer(v);
    for (; total < wanted && !largest.empty(); ++total) {
      const uint32_t v = ~largest.top().second;
      largest.pop();
      ++pieces[v];
      offer(v);
    }
  }

  SliceTable table{seed, std::move(variables), {}};
  table.slices.reserve(total);
  for (uint32_t v = 0; v < table.variables.size(); ++v) {
    CutVariable(v, elements[v], pieces[v], &table.slices);
  }
  return table;
}

std::optional<size_t> MomentsVariable(const SliceTable& table) {
  const auto at =
      std::ranges::find(table.variables, optim::VariableRole::kMoments, &optim::VariableSpec::role);
  if (at == table.variables.end()) return std::nullopt;
  return static_cast<size_t>(at - table.variables.begin());
}

SliceTable MakeWholeSlices(std::vector<optim::VariableSpec> variables, uint64_t seed) {
  SliceTable table{seed, std::move(variables), {}};
  for (uint32_t v = 0; v < table.variables.size(); ++v) {
    const auto elements = static_cast<uint64_t>(table.variables[v].shape.elements());
    if (elements > 0) table.slices.push_back({v, 0, elements});
  }
  return table;
}

}  // namespace leat::protocol
