// The node that a Config points to, for its own sources: config.cc (accessors), config_parse.cc (the YAML
// handler), config_write.cc (With, Without, ToYaml).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"

namespace leat {

// Immutable once a Config points to it.
struct Config::Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  using Pointer = std::shared_ptr<const Node>;

  Kind kind = Kind::kNull;
  std::shared_ptr<const std::string> file;
  size_t line = 1;   // 0: not from a file; `file` says where the value comes from
  std::string name;  // in messages: "rate", "layers[2]"; "" for the root
  std::string scalar;
  bool quoted = false;  // "3" is a string, 3 is a number
  std::vector<Pointer> children;
  std::vector<std::string> keys;  // map: key of each child
  std::map<std::string, size_t, std::less<>> index;

  std::string title() const { return name.empty() ? "the job" : name; }
  [[noreturn]] void Fail(std::string_view message) const;
  // Fails with "rate is 'x'; must be a number".
  [[noreturn]] void Expected(std::string_view what) const;
  // The text of an unquoted scalar.
  std::string_view Plain(std::string_view what) const;
  double Number() const;
  int64_t Integer() const;
  bool Bool() const;
  const Node* Find(std::string_view key) const;
  // Writes the value after "key:" or "-", including the newline.
  void Write(std::string* out, size_t indent) const;
};

}  // namespace leat
