#include "compute/onnx/layer.h"

#include <filesystem>
#include <stdexcept>

#include "base/exit_status.h"
#include "base/path/paths.h"
#include "compute/nn/layers/kinds.h"

namespace leat::onnx {
namespace {

std::string ReadBytes(const Config& setting, const std::string& path) {
  constexpr uintmax_t kMax = uintmax_t{1} << 31;
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    setting.Fail(path + " is no file");
  auto bytes = ReadFirstBytes(path, kMax);
  if (!bytes.ok() && ExitStatusOf(bytes.status().code()) != ExitStatus::kBadInput) Throw(bytes.status());
  if (!bytes.ok()) setting.Fail("cannot read " + bytes.status().message());
  if (bytes->empty()) setting.Fail(path + " is empty");
  if (bytes->size() >= kMax) setting.Fail(path + " has more bytes than the limit of ONNX, 2 GiB");
  return std::move(bytes).value();
}

class OnnxLayer final : public nn::Layer {
 public:
  explicit OnnxLayer(const nn::LayerRequest& request) : Layer(request) {
    nn::AllowSettings(request.settings, {"file", "output"});
    nn::Elements(request);
    const Config setting = request.settings.At("file");
    const std::filesystem::path path = setting.String();
    const std::string bytes = ReadBytes(setting, request.files.Locate(path.string()));
    try {
      network_ = Network::Import(bytes, path.filename().string(),
                                 {.output = request.settings.String("output", ""), .row = request.inputs});
    } catch (const std::invalid_argument& error) {
      setting.Fail("layer " + request.name + ": " + error.what());
    }
  }

  Shape outputs() const override { return network_->outputs(); }
  std::vector<optim::VariableSpec> variables() const override { return network_->variables(name()); }
  bool has_activation() const override { return network_->has_activation(); }
  std::vector<uint32_t> ids() const override { return network_->ids(); }

  nn::Flow Apply(graph::Graph& graph, const nn::Flow& in, std::span<const graph::Value> variables,
                 nn::StepContext& step) const override {
    return {network_->Apply(graph, in.x, variables, step), in.lengths};
  }

  const Network& network() const { return *network_; }

 private:
  std::shared_ptr<const Network> network_;
};

constexpr nn::LayerKind kKinds[] = {{.kind = "onnx", .make = nn::Make<OnnxLayer>, .outermost = true}};

}  // namespace

std::span<const nn::LayerKind> LayerKinds() {
  return kKinds;
}

const Network* NetworkOf(const nn::Layer& layer) {
  const auto* onnx = dynamic_cast<const OnnxLayer*>(&layer);
  return onnx == nullptr ? nullptr : &onnx->network();
}

}  // namespace leat::onnx
