// Parses an ONNX file into plain structs and checks every size and name.
//
// Files are untrusted: for any input, ParseFile either returns a File with the invariants below or throws
// std::invalid_argument with a one-line message. It never allocates more than the file's own length
// justifies.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "base/text.h"
#include "compute/tensor/tensor.h"

namespace leat::onnx {

// Element types: f16, bf16 and f64 are converted to f32, bool to u8, small integers to i32.
struct Attribute {
  // monostate: a kind of attribute that Leat does not use, such as a graph.
  std::variant<std::monostate, float, int64_t, std::string, Tensor, std::vector<float>, std::vector<int64_t>,
               std::vector<std::string>>
      value;
};

struct FileNode {
  std::string name;                 // its first output if the file has no name
  std::string op;                   // "Conv"
  std::string domain;               // empty: the default ONNX domain
  std::vector<std::string> inputs;  // an empty name: omitted
  std::vector<std::string> outputs;
  std::map<std::string, Attribute, std::less<>> attributes;
};

// How training treats an initializer.
enum class Treatment : uint8_t {
  kConstant,
  kTrained,
  kStatistic,  // a running mean or variance, which batch normalisation moves
};

// A file may say it of each of its parameters, in entries of metadata_props: kTreatmentKey and the
// initializer's name, with the value "constant", "trained" or "statistic". Then initializers without an entry
// are constants.
inline constexpr std::string_view kTreatmentKey = "leat.parameter:";

struct FileInput {
  std::string name;
  DType type = DType::kF32;
  std::vector<std::optional<int64_t>> sizes;  // nullopt: symbolic
};

// Invariants: names of values are unique; every input of a node is an initializer, the model's input or an
// output of an earlier node; every graph output is defined; treatments are of initializers; all counts are
// within the limits in file.cc.
struct File {
  std::string name;  // for messages: "net.onnx"
  int64_t opset = 0;
  std::vector<FileNode> nodes;
  std::vector<std::string> initializers;           // in the file's order
  std::unordered_map<std::string, Tensor> values;  // by initializer name
  // By initializer name; empty: the file does not say.
  std::unordered_map<std::string, Treatment> treatments;
  FileInput input;
  std::vector<std::string> outputs;
  // Values of type bool. Other u8 values are numbers.
  std::unordered_set<std::string> bools;

  // "net.onnx: node 'fc1' (Gemm): "
  std::string Place(const FileNode& node) const;
};

// The TensorProto.DataType of bool.
inline constexpr int64_t kBoolNumber = 9;
// The element type that a TensorProto.DataType is converted to; empty if it is not supported.
std::optional<DType> KeptAs(int64_t type);
// Its name: "float16".
std::string TypeName(int64_t type);

File ParseFile(std::string_view bytes, const std::string& name);

// A name for messages.
inline std::string Quoted(std::string_view name) {
  return leat::Quoted(name, 80);
}

}  // namespace leat::onnx
