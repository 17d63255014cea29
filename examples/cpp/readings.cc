// Leat with a layer, a source and a placement of its own. docs/cpp.md explains it.
#include <leat/leat.h>

using namespace leat;

// y = gain * x, with a trained gain for each value.
class Gain final : public nn::Layer {
 public:
  explicit Gain(const nn::LayerRequest& request) : Layer(request), row_(request.inputs) {
    nn::AllowSettings(request.settings, {"start"});
    init_ = {.kind = optim::InitKind::kConstant, .value = float(request.settings.Number("start", 1))};
  }
  Shape outputs() const override { return row_; }
  std::vector<optim::VariableSpec> variables() const override { return {{name() + "/gain", row_, init_}}; }
  nn::Flow Apply(graph::Graph& graph, const nn::Flow& in, std::span<const graph::Value> variables,
                 nn::StepContext&) const override {
    return {graph.Make<ops::Mul>({in.x, variables[0]}), in.lengths};
  }

 private:
  Shape row_;
  optim::InitSpec init_;
};

// Readings of machines. The number of a reading decides its content, so every reader gets the same.
class Readings final : public stream::NumberedSource {
  using NumberedSource::NumberedSource;
  void Append(uint64_t begin, uint64_t end, stream::RecordBatch* out) const override {
    for (uint64_t i = begin; i < end; ++i) {
      const uint64_t heat = i * 37 % 101, load = i * 11 % 97;
      out->Add(AsBytes(R"({"heat": )" + std::to_string(heat) + R"(, "load": )" + std::to_string(load) +
                       R"(, "fails": )" + (heat + load > 120 ? "1}" : "0}")));
    }
  }
};
std::unique_ptr<stream::Source> OpenReadings(const SourceRequest& request) {
  request.settings.Allow({"count", "partitions"});
  return std::make_unique<Readings>(request.settings.Integer("count", 20'000, 1, 1'000'000'000),
                                    request.settings.Integer("partitions", 4, 1, 64));
}

// All variables of a layer are on one server, the layers on the servers in turn.
std::vector<uint32_t> ByLayer(const protocol::SliceTable& table, uint32_t servers) {
  std::map<std::string, uint32_t> layers;
  std::vector<uint32_t> places;
  for (const auto& slice : table.slices) {
    const std::string& name = table.variables[slice.variable].name;
    places.push_back(layers.try_emplace(name.substr(0, name.find('/')), layers.size()).first->second %
                     servers);
  }
  return places;
}

int main(int argc, char** argv) {
  return Main(argc, argv,
              {.layers = {{"gain", nn::Make<Gain>}},
               .sources = {{"readings", OpenReadings}},
               .placements = {{"by_layer", ByLayer}}});
}
