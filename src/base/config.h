// Job files: a tree of typed values that knows where each came from.
//
// Every mistake throws std::invalid_argument with file, line and values:
//   job.yaml:14: unknown layer 'dens'; did you mean 'dense'?
// A Config is a cheap handle on a shared, immutable tree. Thread-safe once built.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

class Config {
 public:
  // Parses YAML; `name` is what messages call the text. Bounded: at most 1 MiB of text, 64 levels deep, no
  // aliases.
  static Config Parse(std::string_view yaml, std::string_view name);
  static Config ParseFile(const std::string& path);

  // "job.yaml:14"
  std::string where() const;
  // Throws std::invalid_argument("job.yaml:14: message").
  [[noreturn]] void Fail(std::string_view message) const;

  bool IsMap() const;
  bool IsList() const;
  bool IsScalar() const;
  bool IsNull() const;  // there, but empty: `key:`

  // Maps. Keys keep the order of the file.
  bool Has(std::string_view key) const;
  std::vector<std::string> Keys() const;
  Config At(std::string_view key) const;  // fails, naming the key, when it is missing
  // Fails on the first key that is not among `known`, naming the nearest one.
  void Allow(std::initializer_list<std::string_view> known) const;
  void Allow(const std::vector<std::string>& known) const;

  // A word that stands where a map of settings could, as the empty map in its place.
  Config WithoutSettings() const;

  // Lists.
  size_t size() const;
  Config operator[](size_t i) const;

  // Scalars. The forms with a key and a default read an optional entry of a map.
  std::string String() const;
  double Number() const;  // finite
  int64_t Integer() const;
  bool Bool() const;  // true, false
  std::string String(std::string_view key, std::string_view fallback) const;
  double Number(std::string_view key, double fallback) const;
  int64_t Integer(std::string_view key, int64_t fallback) const;
  bool Bool(std::string_view key, bool fallback) const;
  // The same with bounds, both inclusive: "job.yaml:9: rate is -1; must be between 0 and 1".
  double Number(std::string_view key, double fallback, double least, double most) const;
  int64_t Integer(std::string_view key, int64_t fallback, int64_t least, int64_t most) const;
  // One of `known`, or a failure that names the nearest: "unknown strategy 'asinc'; did you mean 'async'?"
  std::string OneOf(std::string_view what, std::initializer_list<std::string_view> known) const;
  std::string OneOf(std::string_view what, const std::vector<std::string>& known) const;
  // The same failure for a word that stands elsewhere, such as a key.
  [[noreturn]] void FailUnknown(std::string_view what, std::string_view word,
                                const std::vector<std::string>& known) const;

  // The tree as YAML again, keys in order: what the job's hash is taken of and roles are sent.
  std::string ToYaml() const;

 private:
  struct Node;
  class Builder;
  explicit Config(std::shared_ptr<const Node> node);
  std::shared_ptr<const Node> node_;
};

// The known word that is nearest to `word` by edit distance, or "" when none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace leat
