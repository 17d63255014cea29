// Job files: a parsed YAML tree of typed values, each with its file and line.
//
// Every error throws std::invalid_argument with file, line and values:
//   job.yaml:14: unknown layer 'dens'; did you mean 'dense'?
// A Config is a cheap handle to a shared, immutable tree and may be read from any thread.
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
  // Parses YAML. `name` stands for the file in error messages. Limits: 1 MiB of text, 64 levels, no aliases.
  static Config Parse(std::string_view yaml, std::string_view name);
  static Config ParseFile(const std::string& path);

  // "job.yaml:14"
  std::string where() const;
  // Throws std::invalid_argument("job.yaml:14: message").
  [[noreturn]] void Fail(std::string_view message) const;

  bool IsMap() const;
  bool IsList() const;
  bool IsScalar() const;
  bool IsNull() const;  // present but empty: `key:`

  // Maps. Keys keep the order of the file.
  bool Has(std::string_view key) const;
  std::vector<std::string> Keys() const;
  Config At(std::string_view key) const;  // fails if the key is missing
  // Fails on the first key that is not in `known` and suggests the closest one.
  void Allow(std::initializer_list<std::string_view> known) const;
  void Allow(const std::vector<std::string>& known) const;

  // For a bare word where a map of settings is allowed: an empty map with the name and line of the word.
  Config WithoutSettings() const;

  // A copy of this map (or of an empty value) with an entry replaced, or added at the end. All other nodes
  // keep their file and line. A Config keeps its own too; any other value gets those of this map. A string
  // stays a string: With("x", "3") is not a number.
  Config With(std::string_view key, const Config& value) const;
  Config With(std::string_view key, std::string_view text) const;
  Config With(std::string_view key, int64_t value) const;
  Config With(std::string_view key, double value) const;
  Config With(std::string_view key, const std::vector<std::string>& texts) const;
  // A copy of this map without an entry, which may be missing.
  Config Without(std::string_view key) const;
  // An empty map that is in no file. `origin` replaces file and line in messages about entries added to it:
  // "command line: rate is -1; must be at least 0".
  static Config EmptyMap(std::string_view origin);

  // Lists.
  size_t size() const;
  Config operator[](size_t i) const;

  // Scalars. The overloads with a key read an optional entry of a map and return `fallback` if it is missing.
  std::string String() const;
  double Number() const;  // finite
  int64_t Integer() const;
  bool Bool() const;  // `true` or `false` only
  std::string String(std::string_view key, std::string_view fallback) const;
  double Number(std::string_view key, double fallback) const;
  int64_t Integer(std::string_view key, int64_t fallback) const;
  bool Bool(std::string_view key, bool fallback) const;
  // With inclusive bounds: "job.yaml:9: rate is -1; must be between 0 and 1". The fallback is not checked.
  double Number(std::string_view key, double fallback, double least, double most) const;
  int64_t Integer(std::string_view key, int64_t fallback, int64_t least, int64_t most) const;
  // A word in `known`. Fails otherwise: "unknown strategy 'asinc'; did you mean 'async'?"
  std::string OneOf(std::string_view what, std::initializer_list<std::string_view> known) const;
  std::string OneOf(std::string_view what, const std::vector<std::string>& known) const;
  // Fails with the same message for a word that is not this scalar, such as a key.
  [[noreturn]] void FailUnknown(std::string_view what, std::string_view word,
                                const std::vector<std::string>& known) const;

  // The tree as canonical YAML, keys in file order. The job hash covers this text, and processes send it to
  // each other.
  std::string ToYaml() const;

 private:
  struct Node;
  class Builder;
  explicit Config(std::shared_ptr<const Node> node);
  static std::shared_ptr<const Node> Renamed(const Node& node, std::string name);
  std::shared_ptr<const Node> MakeScalar(std::string text, bool quoted) const;
  template <class T>
  T Within(std::string_view key, T value, T least, T most, T lowest, T highest) const;
  std::shared_ptr<const Node> node_;
};

// The word in `known` with the smallest edit distance to `word`, or "" if none is close.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);
// A text in double quotes, as YAML reads it back.
std::string DoubleQuoted(std::string_view text);

}  // namespace leat
