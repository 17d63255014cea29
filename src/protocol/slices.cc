#include "protocol/slices.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

namespace leat::protocol {

namespace {

// Elements that a border is rounded to: a cache line of f32.
constexpr uint64_t kBlock = 16;
// Thrice what moving them needs, so that typical nets divide within 10 % of even.
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

class Loads {
 public:
  explicit Loads(uint32_t servers) : bytes_(servers, 0) {}
  uint32_t Least() const {
    return static_cast<uint32_t>(std::min_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
  }
  uint64_t& operator[](uint32_t server) { return bytes_[server]; }

 private:
  std::vector<uint64_t> bytes_;
};

// Places of `sizes`, largest first; equal ones keep their order.
std::vector<uint32_t> LargestFirst(const std::vector<uint64_t>& sizes) {
  std::vector<uint32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sizes[a] > sizes[b]; });
  return order;
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
    total += pieces.back();
  }

  // The variable with the largest pieces is cut once more, until there are enough; first at borders of
  // blocks, and only when these are used up between them.
  const uint64_t wanted = kSlicesPerServer * std::max(max_servers, 1u);
  for (const uint64_t unit : {kBlock, uint64_t{1}}) {
    using Candidate = std::pair<uint64_t, uint32_t>;  // elements of a piece; ~variable: the first wins a tie
    std::priority_queue<Candidate> largest;
    const auto offer = [&](uint32_t v) {
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

SliceTable MakeWholeSlices(std::vector<optim::VariableSpec> variables, uint64_t seed) {
  SliceTable table{seed, std::move(variables), {}};
  for (uint32_t v = 0; v < table.variables.size(); ++v) {
    const auto elements = static_cast<uint64_t>(table.variables[v].shape.elements());
    if (elements > 0) table.slices.push_back({v, 0, elements});
  }
  return table;
}

std::vector<uint32_t> Place(const SliceTable& table, Placement placement, uint32_t servers) {
  std::vector<uint32_t> places(table.slices.size(), 0);
  if (servers <= 1) return places;
  if (placement == Placement::kRoundRobin) {
    for (size_t i = 0; i < places.size(); ++i) places[i] = table.slices[i].variable % servers;
    return places;
  }

  uint64_t total = 0;
  std::vector<uint64_t> variable_sizes(table.variables.size(), 0);
  std::vector<std::vector<uint32_t>> members(table.variables.size());
  for (uint32_t i = 0; i < places.size(); ++i) {
    const SliceSpec& slice = table.slices[i];
    variable_sizes[slice.variable] += slice.elements();
    members[slice.variable].push_back(i);
    total += slice.elements();
  }

  Loads loads(servers);
  const auto place_slices = [&](const std::vector<uint32_t>& slices) {
    std::vector<uint64_t> sizes;
    for (uint32_t i : slices) sizes.push_back(table.slices[i].elements());
    for (uint32_t k : LargestFirst(sizes)) {
      places[slices[k]] = loads.Least();
      loads[places[slices[k]]] += sizes[k];
    }
  };
  if (placement == Placement::kPartitioned) {
    std::vector<uint32_t> all(places.size());
    std::iota(all.begin(), all.end(), 0u);
    place_slices(all);
    return places;
  }
  const uint64_t fair = CeilDiv(total, servers);
  for (uint32_t v : LargestFirst(variable_sizes)) {
    const uint32_t least = loads.Least();
    if (loads[least] + variable_sizes[v] > fair + fair / 20) {
      place_slices(members[v]);
      continue;
    }
    for (uint32_t i : members[v]) places[i] = least;
    loads[least] += variable_sizes[v];
  }
  return places;
}

}  // namespace leat::protocol
