// An ONNX file as plain structs, every size and name in it checked.
//
// Bytes of a file are a stranger's: whatever they are, reading them either gives a File that keeps the
// promises below or throws std::invalid_argument with one line. Nothing is allocated for a length that the
// bytes themselves do not have.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace leat::onnx {

// f16, bf16 and f64 tensors become f32, bool u8, small integers i32.
struct Attribute {
  // Nothing: a kind that Leat has no use for, such as a graph.
  std::variant<std::monostate, float, int64_t, std::string, Tensor, std::vector<float>, std::vector<int64_t>,
               std::vector<std::string>>
      value;
};

struct FileNode {
  std::string name;                 // its first output's where the file gives none
  std::string op;                   // "Conv"
  std::string domain;               // empty: ONNX's own
  std::vector<std::string> inputs;  // an empty name: left out
  std::vector<std::string> outputs;
  std::map<std::string, Attribute, std::less<>> attributes;
};

struct FileInput {
  std::string name;
  DType type = DType::kF32;
  std::vector<std::optional<int64_t>> sizes;  // an empty one: symbolic
};

// Promises: names of values are unique; every input of a node is an initializer, the model's input or an
// output of an earlier node; outputs are made by somebody; all of them within the bounds of file.cc.
struct File {
  std::string name;  // what messages call it: "net.onnx"
  int64_t opset = 0;
  std::vector<FileNode> nodes;
  std::vector<std::string> initializers;           // in the file's order
  std::unordered_map<std::string, Tensor> values;  // of the initializers
  FileInput input;
  std::vector<std::string> outputs;

  // "net.onnx: node 'fc1' (Gemm): "
  std::string Place(const FileNode& node) const;
};

// The type that elements of a TensorProto.DataType are kept as; empty when they are not read.
std::optional<DType> KeptAs(int64_t type);

File ParseFile(std::string_view bytes, const std::string& name);

// A name as messages show it: in quotes, cut when it is long, without what a terminal would obey.
std::string Quoted(std::string_view name);

}  // namespace leat::onnx
