#include "compute/onnx/file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <unordered_set>

#include "compute/onnx/onnx.pb.h"
#include "compute/tensor/dtype.h"

namespace leat::onnx {
namespace {

constexpr int64_t kOldestOpset = 13, kNewestOpset = 21;
// Limits: more than any real network has, but small enough to bound the work for a malicious file.
constexpr int kMaxNodes = 1 << 16;
constexpr int kMaxEdges = 1 << 12;  // inputs or outputs of one node
constexpr int kMaxInitializers = 1 << 16;

[[noreturn]] void FailFile(const std::string& file, const std::string& message) {
  throw std::invalid_argument(file + ": " + message);
}

float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

// Reads the elements of a tensor, from little-endian raw_data or from the typed field.
class TensorReader {
 public:
  TensorReader(const proto::TensorProto& tensor, const std::string& file)
      : proto_(tensor), place_(file + ": tensor " + Quoted(tensor.name()) + ": ") {}

  Tensor Read() const {
    if (proto_.data_location() == proto::TensorProto::EXTERNAL) {
      Refuse(
          "its elements are in another file; save the model in one "
          "(save_as_external_data=False)");
    }
    const auto type = KeptAs(proto_.data_type());
    if (!type) Refuse("elements of type " + TypeName(proto_.data_type()) + " are not supported");
    const Shape shape = ReadShape();
    switch (proto_.data_type()) {
      case proto::TensorProto::FLOAT:
        return Elements<float, float>(shape, proto_.float_data(), [](float x) { return x; });
      case proto::TensorProto::DOUBLE:
        return Elements<float, double>(shape, proto_.double_data(),
                                       [](double x) { return static_cast<float>(x); });
      case proto::TensorProto::FLOAT16:
        return Elements<float, uint16_t>(shape, proto_.int32_data(),
                                         [](auto x) { return HalfToFloat(static_cast<uint16_t>(x)); });
      case proto::TensorProto::BFLOAT16:
        return Elements<float, uint16_t>(shape, proto_.int32_data(),
                                         [](auto x) { return ToFloat(Bf16{static_cast<uint16_t>(x)}); });
      case proto::TensorProto::INT64:
        return Elements<int64_t, int64_t>(shape, proto_.int64_data(), [](int64_t x) { return x; });
      case proto::TensorProto::INT32:
        return Elements<int32_t, int32_t>(shape, proto_.int32_data(), [](int32_t x) { return x; });
      case proto::TensorProto::INT16:
        return Elements<int32_t, int16_t>(shape, proto_.int32_data(), [](int32_t x) { return x; });
      case proto::TensorProto::UINT16:
        return Elements<int32_t, uint16_t>(shape, proto_.int32_data(), [](int32_t x) { return x; });
      case proto::TensorProto::INT8:
        return Elements<int32_t, int8_t>(shape, proto_.int32_data(), [](int32_t x) { return x; });
      case proto::TensorProto::BOOL:
        return Elements<uint8_t, uint8_t>(shape, proto_.int32_data(),
                                          [](int32_t x) { return uint8_t{x != 0}; });
      default:
        return Elements<uint8_t, uint8_t>(shape, proto_.int32_data(),
                                          [](int32_t x) { return static_cast<uint8_t>(x); });
    }
  }

 private:
  [[noreturn]] void Refuse(const std::string& message) const {
    throw std::invalid_argument(place_ + message);
  }

  Shape ReadShape() const {
    if (proto_.dims_size() > static_cast<int>(Shape::kMaxRank)) {
      Refuse("has " + std::to_string(proto_.dims_size()) + " axes; at most " +
             std::to_string(Shape::kMaxRank) + " are supported");
    }
    try {
      return Shape(std::span<const int64_t>(proto_.dims().data(), static_cast<size_t>(proto_.dims_size())));
    } catch (const std::invalid_argument& error) {
      Refuse(error.what());
    }
  }

  template <class To, class Raw, class Field, class Convert>
  Tensor Elements(const Shape& shape, const Field& field, Convert convert) const {
    const auto count = static_cast<uint64_t>(shape.elements());
    const std::string& raw = proto_.raw_data();
    if (proto_.has_raw_data() ? raw.size() != count * sizeof(Raw)
                              : static_cast<uint64_t>(field.size()) != count) {
      Refuse("has " +
             (proto_.has_raw_data() ? std::to_string(raw.size()) + " bytes"
                                    : std::to_string(field.size()) + " elements") +
             "; " + TypeName(proto_.data_type()) + shape.ToString() + " needs " +
             std::to_string(proto_.has_raw_data() ? count * sizeof(Raw) : count));
    }
    Tensor tensor(DTypeOf<To>::value, shape);
    const auto to = tensor.as<To>();
    for (uint64_t i = 0; i < count; ++i) {
      if (!proto_.has_raw_data()) {
        to[i] = convert(field[static_cast<int>(i)]);
        continue;
      }
      Raw element;
      std::memcpy(&element, raw.data() + i * sizeof(Raw), sizeof(Raw));
      to[i] = convert(element);
    }
    return tensor;
  }

  const proto::TensorProto& proto_;
  const std::string place_;
};

Attribute ReadAttribute(const proto::AttributeProto& attribute, const std::string& file) {
  switch (attribute.type()) {
    case proto::AttributeProto::FLOAT:
      return {attribute.f()};
    case proto::AttributeProto::INT:
      return {int64_t{attribute.i()}};
    case proto::AttributeProto::STRING:
      return {attribute.s()};
    case proto::AttributeProto::TENSOR:
      return {TensorReader(attribute.t(), file).Read()};
    case proto::AttributeProto::FLOATS:
      return {std::vector<float>(attribute.floats().begin(), attribute.floats().end())};
    case proto::AttributeProto::INTS:
      return {std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end())};
    case proto::AttributeProto::STRINGS:
      return {std::vector<std::string>(attribute.strings().begin(), attribute.strings().end())};
    default:
      return {};
  }
}

// Whether the first output of a node is of type bool, given the bool values before it.
bool MakesBool(const proto::NodeProto& node, const std::unordered_set<std::string>& bools) {
  static constexpr std::string_view kLogic[] = {
      "And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"};
  const std::string& op = node.op_type();
  if (std::ranges::find(kLogic, op) != std::end(kLogic)) return true;
  if (op == "Shape" || op == "Size") return false;
  for (const auto& attribute : node.attribute()) {
    if (op == "Cast" && attribute.name() == "to") return attribute.i() == proto::TensorProto::BOOL;
    if ((op == "Constant" || op == "ConstantOfShape") && attribute.name() == "value")
      return attribute.t().data_type() == proto::TensorProto::BOOL;
  }
  // Other ops keep the type of an input.
  const int typed = op == "CastLike" || op == "Where" ? 1 : 0;
  return node.input_size() > typed && bools.contains(node.input(typed));
}

class FileReader {
 public:
  FileReader(const proto::ModelProto& model, const std::string& name) : model_(model), graph_(model.graph()) {
    file_.name = name;
  }

  File Read() {
    ReadOpset();
    if (!model_.has_graph()) Refuse("has no graph");
    if (graph_.sparse_initializer_size() > 0) Refuse("sparse initializers are not supported");
    ReadInitializers();
    ReadTreatments();
    ReadInput();
    ReadNodes();
    if (graph_.output_size() == 0) Refuse("the graph has no output");
    for (const auto& output : graph_.output()) {
      if (!defined_.contains(output.name())) {
        Refuse("output " + Quoted(output.name()) + " is not computed by any node");
      }
      file_.outputs.push_back(output.name());
    }
    return std::move(file_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& message) const { FailFile(file_.name, message); }

  void ReadOpset() {
    for (const auto& opset : model_.opset_import()) {
      if (opset.domain().empty() || opset.domain() == "ai.onnx") file_.opset = opset.version();
    }
    if (file_.opset < kOldestOpset || file_.opset > kNewestOpset) {
      Refuse((file_.opset == 0 ? std::string("has no opset") : "uses opset " + std::to_string(file_.opset)) +
             "; supported: " + std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset));
    }
  }

  void Define(const std::string& name) {
    if (!defined_.insert(name).second) Refuse("two values are named " + Quoted(name));
  }

  void ReadInitializers() {
    if (graph_.initializer_size() > kMaxInitializers) {
      Refuse("has " + std::to_string(graph_.initializer_size()) + " initializers; at most " +
             std::to_string(kMaxInitializers) + " are supported");
    }
    for (const auto& tensor : graph_.initializer()) {
      if (tensor.name().empty()) Refuse("an initializer has no name");
      Define(tensor.name());
      if (tensor.data_type() == proto::TensorProto::BOOL) file_.bools.insert(tensor.name());
      file_.initializers.push_back(tensor.name());
      file_.values.emplace(tensor.name(), TensorReader(tensor, file_.name).Read());
    }
  }

  void ReadTreatments() {
    static const std::map<std::string_view, Treatment> kValues = {{"constant", Treatment::kConstant},
                                                                  {"statistic", Treatment::kStatistic},
                                                                  {"trained", Treatment::kTrained}};
    for (const auto& entry : model_.metadata_props()) {
      if (!entry.key().starts_with(kTreatmentKey)) continue;
      const std::string name = entry.key().substr(kTreatmentKey.size());
      const std::string place = "metadata of parameter " + Quoted(name) + ": ";
      if (!file_.values.contains(name)) Refuse(place + "there is no initializer of this name");
      const auto at = kValues.find(entry.value());
      if (at == kValues.end())
        Refuse(place + Quoted(entry.value()) + "; must be trained, constant or statistic");
      if (!file_.treatments.emplace(name, at->second).second) Refuse(place + "is there twice");
    }
  }

  void ReadInput() {
    std::vector<const proto::ValueInfoProto*> data;
    // Older files list initializers among the inputs.
    for (const auto& input : graph_.input()) {
      if (!file_.values.contains(input.name())) data.push_back(&input);
    }
    if (data.size() != 1) {
      std::string names;
      for (size_t i = 0; i < data.size() && i < 8; ++i)
        names += (i > 0 ? ", " : ": ") + Quoted(data[i]->name());
      Refuse("has " + std::to_string(data.size()) + " inputs" + names + "; a layer needs exactly one");
    }
    FileInput& input = file_.input;
    input.name = data[0]->name();
    const std::string place = "input " + Quoted(input.name) + ": ";
    if (input.name.empty()) Refuse("the input has no name");
    Define(input.name);
    if (!data[0]->type().has_tensor_type() || !data[0]->type().tensor_type().has_shape()) {
      Refuse(place + "is not a tensor of known rank");
    }
    const auto& tensor = data[0]->type().tensor_type();
    const auto type = KeptAs(tensor.elem_type());
    if (!type) Refuse(place + "elements of type " + TypeName(tensor.elem_type()) + " are not supported");
    input.type = *type;
    if (tensor.elem_type() == proto::TensorProto::BOOL) file_.bools.insert(input.name);
    const int rank = tensor.shape().dim_size();
    if (rank < 1 || rank > static_cast<int>(Shape::kMaxRank)) {
      Refuse(place + "has " + std::to_string(rank) + " axes; must be 1 to " +
             std::to_string(Shape::kMaxRank) + ", the batch first");
    }
    for (const auto& dim : tensor.shape().dim()) {
      if (!dim.has_dim_value()) {
        input.sizes.emplace_back();
        continue;
      }
      if (dim.dim_value() < 1 || dim.dim_value() > std::numeric_limits<int32_t>::max()) {
        Refuse(place + "has an axis of size " + std::to_string(dim.dim_value()));
      }
      input.sizes.emplace_back(dim.dim_value());
    }
  }

  void ReadNodes() {
    if (graph_.node_size() > kMaxNodes) {
      Refuse("has " + std::to_string(graph_.node_size()) + " nodes; at most " + std::to_string(kMaxNodes) +
             " are supported");
    }
    file_.nodes.reserve(static_cast<size_t>(graph_.node_size()));
    for (const auto& from : graph_.node()) {
      FileNode node;
      node.op = from.op_type();
      node.domain = from.domain() == "ai.onnx" ? "" : from.domain();
      node.name = from.name().empty() && from.output_size() > 0 ? from.output(0) : from.name();
      if (from.input_size() > kMaxEdges || from.output_size() > kMaxEdges) {
        Refuse("node " + Quoted(node.name) + " has more than " + std::to_string(kMaxEdges) +
               " inputs or outputs");
      }
      for (const auto& input : from.input()) {
        if (!input.empty() && !defined_.contains(input)) {
          throw std::invalid_argument(
              file_.Place(node) + "reads " + Quoted(input) +
              ", which is not an input, an initializer or an output of an earlier node");
        }
        node.inputs.push_back(input);
      }
      for (const auto& attribute : from.attribute()) {
        if (!node.attributes.emplace(attribute.name(), ReadAttribute(attribute, file_.name)).second) {
          throw std::invalid_argument(file_.Place(node) + "has a duplicate attribute " +
                                      Quoted(attribute.name()));
        }
      }
      const bool makes_bool = MakesBool(from, file_.bools);
      for (const auto& output : from.output()) {
        if (!output.empty()) Define(output);
        if (makes_bool) file_.bools.insert(output);
        node.outputs.push_back(output);
      }
      file_.nodes.push_back(std::move(node));
    }
  }

  const proto::ModelProto& model_;
  const proto::GraphProto& graph_;
  File file_;
  std::unordered_set<std::string> defined_;
};

}  // namespace

std::optional<DType> KeptAs(int64_t type) {
  switch (type) {
    case proto::TensorProto::FLOAT:
    case proto::TensorProto::DOUBLE:
    case proto::TensorProto::FLOAT16:
    case proto::TensorProto::BFLOAT16:
      return DType::kF32;
    case proto::TensorProto::INT64:
      return DType::kI64;
    case proto::TensorProto::INT32:
    case proto::TensorProto::INT16:
    case proto::TensorProto::INT8:
    case proto::TensorProto::UINT16:
      return DType::kI32;
    case proto::TensorProto::BOOL:
    case proto::TensorProto::UINT8:
      return DType::kU8;
    default:
      return std::nullopt;
  }
}

std::string TypeName(int64_t type) {
  static constexpr std::string_view kNames[] = {
      "undefined", "float",   "uint8",  "int8",   "uint16", "int16",     "int32",      "int64",   "string",
      "bool",      "float16", "double", "uint32", "uint64", "complex64", "complex128", "bfloat16"};
  if (type >= 0 && type < std::ssize(kNames)) return std::string(kNames[type]);
  return "type " + std::to_string(type);
}

std::string File::Place(const FileNode& node) const {
  const std::string op = Quoted(node.op);
  return name + ": node " + Quoted(node.name) + " (" + op.substr(1, op.size() - 2) + "): ";
}

File ParseFile(std::string_view bytes, const std::string& name) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    FailFile(name, "has " + std::to_string(bytes.size()) + " bytes; the limit of ONNX is 2 GiB");
  }
  proto::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    FailFile(name, "is not an ONNX file");
  return FileReader(model, name).Read();
}

}  // namespace leat::onnx
