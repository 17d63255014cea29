#include "base/config/config.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/path/paths.h"
#include "base/text.h"

namespace leat {

namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

// ---- texts

// Throws std::invalid_argument("name:line: message") in one line; without the line if that is 0.
[[noreturn]] void FailAt(std::string_view name, size_t line, std::string_view message) {
  const std::string place = line == 0 ? "" : ":" + std::to_string(line);
  std::string text = std::string(name) + place + ": " + std::string(message);
  // Quoted values must not break the message into several lines.
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  throw std::invalid_argument(text);
}

// Rejects text that is too long, other encodings and control characters: yaml-cpp guesses encodings and stops
// at some control characters.
void CheckText(std::string_view text, std::string_view name) {
  if (text.size() > kMaxBytes) {
    FailAt(name, 1,
           "the text has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(kMaxBytes) +
               " are allowed");
  }
  size_t line = 1;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = Utf8Length(text.substr(i));
    const bool control = (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f;
    if (control || length == 0) {
      FailAt(name, line,
             "byte " + std::to_string(c) + " at offset " + std::to_string(i) + " is not UTF-8 text");
    }
    line += c == '\n';
    i += length;
  }
}

// Edit distance with insert, delete, replace and swap of neighbours (Damerau 1964; no substring is edited
// twice).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

// "; did you mean 'dense'?", or `list_title` and all known words if none is close.
std::string Hint(std::string_view word, const std::vector<std::string>& known,
                 std::string_view list_title = "; expected one of: ") {
  const std::string nearest = Nearest(word, known);
  if (!nearest.empty()) return "; did you mean '" + nearest + "'?";
  return known.empty() ? "" : std::string(list_title) + Joined(known);
}

template <class T>
std::optional<T> ParseWhole(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return ToNumber<T>(text);
}

// A finite number.
std::optional<double> ParseNumber(std::string_view text) {
  const auto value = ParseWhole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// The shortest text that reads as the same value.
template <class T>
std::string Printed(T value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

bool IsNullWord(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// Whether YAML reads `text` back unchanged without quotes, in any position.
bool IsPlainWord(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || !letter(text[0])) return false;
  if (IsNullWord(text) || text == "true" || text == "false") return false;
  return std::ranges::all_of(text,
                             [&](char c) {
                               return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-';
                             }) &&
         !ParseNumber(text);
}

// A scalar as YAML, in double quotes if YAML would read it as something else without. `plain`: it had no
// quotes, so a number stays a number.
std::string Scalar(std::string_view text, bool plain) {
  const bool word = plain && (ParseNumber(text) || text == "true" || text == "false");
  return word || IsPlainWord(text) ? std::string(text) : DoubleQuoted(text);
}

// ---- the tree

template <class T>
std::string Bounds(T least, T most, T lowest, T highest) {
  if (most == highest) return "at least " + Printed(least);
  if (least == lowest) return "at most " + Printed(most);
  return "between " + Printed(least) + " and " + Printed(most);
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::string wanted = Lower(word);
  const size_t limit = std::max<size_t>(1, wanted.size() / 3);
  std::string best;
  size_t best_distance = std::min(limit + 1, wanted.size());
  for (const auto& candidate : known) {
    const size_t longer = std::max(candidate.size(), wanted.size());
    if (longer - std::min(candidate.size(), wanted.size()) >= best_distance) continue;
    const size_t distance = EditDistance(wanted, Lower(candidate));
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DoubleQuoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x" + ToHex({&c, 1});
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Immutable once a Config points to it.
struct Config::Node {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::shared_ptr<const std::string> file;
  size_t line = 1;   // 0: not from a file; `file` says where the value comes from
  std::string name;  // in messages: "rate", "layers[2]"; "" for the root
  std::string scalar;
  bool quoted = false;  // "3" is a string, 3 is a number
  std::vector<std::shared_ptr<const Node>> children;
  std::vector<std::string> keys;  // map: key of each child
  std::map<std::string, size_t, std::less<>> index;

  // A new node in the place of this one.
  std::shared_ptr<Node> Make(Kind its_kind, std::string text = {}) const {
    auto made = std::make_shared<Node>();
    made->kind = its_kind;
    made->file = file;
    made->line = line;
    made->scalar = std::move(text);
    return made;
  }

  std::string title() const { return name.empty() ? "the job" : name; }
  [[noreturn]] void Fail(std::string_view message) const { FailAt(*file, line, message); }
  // Fails with "rate is 'x'; must be a number".
  [[noreturn]] void Expected(std::string_view what) const {
    std::string is = "empty";
    if (kind == Kind::kScalar) is = quoted ? "the string " + Quoted(scalar) : Quoted(scalar);
    if (kind == Kind::kList) is = "a list";
    if (kind == Kind::kMap) is = "a map";
    Fail(title() + " is " + is + "; must be " + std::string(what));
  }
  // The value of an unquoted scalar, as `parse` reads it. Fails unless the scalar is `what`, and `exactly`
  // so.
  template <class Parse>
  auto Value(const Parse& parse, std::string_view what, std::string_view exactly) const {
    if (kind != Kind::kScalar || quoted) Expected(what);
    const auto value = parse(scalar);
    if (!value) Expected(exactly);
    return *value;
  }
  double Number() const { return Value(ParseNumber, "a number", "a finite number"); }
  int64_t Integer() const { return Value(ParseWhole<int64_t>, "a whole number", "a 64-bit whole number"); }
  bool Bool() const {
    const auto parse = [](std::string_view text) {
      return text == "true" || text == "false" ? std::optional(text == "true") : std::nullopt;
    };
    return Value(parse, "true or false", "true or false");
  }
  const Node* Find(std::string_view key) const {
    if (kind == Kind::kNull) return nullptr;
    if (kind != Kind::kMap) Expected("a map");
    const auto found = index.find(key);
    return found == index.end() ? nullptr : children[found->second].get();
  }
  // Writes the value after "key:" or "-", including the newline.
  void Write(std::string* out, size_t indent) const {
    if (kind == Kind::kNull) *out += "null\n";
    if (kind == Kind::kScalar) *out += Scalar(scalar, !quoted) + "\n";
    const bool inner = kind == Kind::kList || kind == Kind::kMap;
    if (inner && children.empty()) *out += kind == Kind::kList ? "[]\n" : "{}\n";
    if (inner && !children.empty() && indent > 0) *out += "\n";
    for (size_t i = 0; i < children.size(); ++i) {
      out->append(2 * indent, ' ');
      *out += kind == Kind::kList ? "- " : Scalar(keys[i], false) + ": ";
      children[i]->Write(out, indent + 1);
    }
  }
};

Config::Config(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

std::string Config::where() const {
  return *node_->file + (node_->line == 0 ? "" : ":" + std::to_string(node_->line));
}
void Config::Fail(std::string_view message) const {
  node_->Fail(message);
}

bool Config::IsMap() const {
  return node_->kind == Node::Kind::kMap;
}
bool Config::IsList() const {
  return node_->kind == Node::Kind::kList;
}
bool Config::IsScalar() const {
  return node_->kind == Node::Kind::kScalar;
}
bool Config::IsNull() const {
  return node_->kind == Node::Kind::kNull;
}

bool Config::Has(std::string_view key) const {
  return node_->Find(key) != nullptr;
}

std::vector<std::string> Config::Keys() const {
  node_->Find("");  // fails if this is not a map
  return node_->keys;
}

Config Config::At(std::string_view key) const {
  if (node_->Find(key) == nullptr) {
    Fail(node_->title() + " has no " + Quoted(key) + Hint(key, node_->keys, "; it has: "));
  }
  return Config(node_->children[node_->index.find(key)->second]);
}

void Config::Allow(std::initializer_list<std::string_view> known) const {
  Allow(std::vector<std::string>(known.begin(), known.end()));
}

void Config::Allow(const std::vector<std::string>& known) const {
  for (const auto& key : Keys()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    At(key).Fail("unknown key " + Quoted(key) + (node_->name.empty() ? "" : " in " + node_->name) +
                 Hint(key, known));
  }
}

size_t Config::size() const {
  if (!IsList() && !IsNull()) node_->Expected("a list");
  return node_->children.size();
}

Config Config::operator[](size_t i) const {
  if (i >= size())
    Fail(node_->title() + " has " + std::to_string(size()) + " items; index " + std::to_string(i) +
         " is out of range");
  return Config(node_->children[i]);
}

std::string Config::String() const {
  if (!IsScalar()) node_->Expected("a string");
  return node_->scalar;
}
double Config::Number() const {
  return node_->Number();
}
int64_t Config::Integer() const {
  return node_->Integer();
}
bool Config::Bool() const {
  return node_->Bool();
}

std::string Config::String(std::string_view key, std::string_view fallback) const {
  return Has(key) ? At(key).String() : std::string(fallback);
}
double Config::Number(std::string_view key, double fallback) const {
  return Has(key) ? At(key).Number() : fallback;
}
int64_t Config::Integer(std::string_view key, int64_t fallback) const {
  return Has(key) ? At(key).Integer() : fallback;
}
bool Config::Bool(std::string_view key, bool fallback) const {
  return Has(key) ? At(key).Bool() : fallback;
}

double Config::Number(std::string_view key, double fallback, double least, double most) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return Within(key, Number(key, fallback), least, most, -kInfinity, kInfinity);
}

int64_t Config::Integer(std::string_view key, int64_t fallback, int64_t least, int64_t most) const {
  using Limits = std::numeric_limits<int64_t>;
  return Within(key, Integer(key, fallback), least, most, Limits::min(), Limits::max());
}

// The value of an entry, which has to be within the bounds if it is there.
template <class T>
T Config::Within(std::string_view key, T value, T least, T most, T lowest, T highest) const {
  if (!Has(key) || (value >= least && value <= most)) return value;
  At(key).Fail(std::string(key) + " is " + At(key).String() + "; must be " +
               Bounds(least, most, lowest, highest));
}

std::string Config::OneOf(std::string_view what, std::initializer_list<std::string_view> known) const {
  return OneOf(what, std::vector<std::string>(known.begin(), known.end()));
}

std::string Config::OneOf(std::string_view what, const std::vector<std::string>& known) const {
  if (!IsScalar()) node_->Expected("one of " + Joined(known));
  if (std::ranges::find(known, node_->scalar) == known.end()) {
    FailUnknown(what, node_->scalar, known);
  }
  return node_->scalar;
}

void Config::FailUnknown(std::string_view what, std::string_view word,
                         const std::vector<std::string>& known) const {
  Fail("unknown " + std::string(what) + " " + Quoted(word) + Hint(word, known));
}

// ---- changed copies, and the tree as YAML

Config Config::EmptyMap(std::string_view origin) {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kMap;
  node->file = std::make_shared<const std::string>(origin);
  node->line = 0;
  return Config(std::move(node));
}

Config Config::WithoutSettings() const {
  auto node = node_->Make(Node::Kind::kMap);
  node->name = node_->scalar;
  return Config(std::move(node));
}

// Items of a list are called by its name.
std::shared_ptr<const Config::Node> Config::Renamed(const Node& node, std::string name) {
  auto renamed = std::make_shared<Node>(node);
  renamed->name = std::move(name);
  if (node.kind != Node::Kind::kList) return renamed;
  for (size_t i = 0; i < node.children.size(); ++i)
    renamed->children[i] = Renamed(*node.children[i], renamed->name + "[" + std::to_string(i) + "]");
  return renamed;
}

Config Config::With(std::string_view key, const Config& value) const {
  node_->Find(key);  // fails if this is not a map
  auto map = std::make_shared<Node>(*node_);
  map->kind = Node::Kind::kMap;
  auto child = Renamed(*value.node_, std::string(key));
  const auto [at, added] = map->index.emplace(key, map->keys.size());
  if (added) {
    map->keys.emplace_back(key);
    map->children.push_back(std::move(child));
  } else {
    map->children[at->second] = std::move(child);
  }
  return Config(std::move(map));
}

std::shared_ptr<const Config::Node> Config::MakeScalar(std::string text, bool quoted) const {
  auto node = node_->Make(Node::Kind::kScalar, std::move(text));
  node->quoted = quoted;
  return node;
}

Config Config::With(std::string_view key, std::string_view text) const {
  return With(key, Config(MakeScalar(std::string(text), true)));
}
Config Config::With(std::string_view key, int64_t value) const {
  return With(key, Config(MakeScalar(Printed(value), false)));
}
Config Config::With(std::string_view key, double value) const {
  constexpr double kWholeNumbers = 1e15;  // below it doubles hold each whole number
  const bool whole = value == std::floor(value) && std::abs(value) < kWholeNumbers;
  return With(key, Config(MakeScalar(whole ? Printed(static_cast<int64_t>(value)) : Printed(value), false)));
}
Config Config::With(std::string_view key, const std::vector<std::string>& texts) const {
  auto list = node_->Make(Node::Kind::kList);
  for (const auto& text : texts) list->children.push_back(MakeScalar(text, true));
  return With(key, Config(std::move(list)));
}

Config Config::Without(std::string_view key) const {
  if (node_->Find(key) == nullptr) return *this;
  auto map = std::make_shared<Node>(*node_);
  const auto at = map->index.find(key)->second;
  map->keys.erase(map->keys.begin() + static_cast<std::ptrdiff_t>(at));
  map->children.erase(map->children.begin() + static_cast<std::ptrdiff_t>(at));
  map->index.clear();
  for (size_t i = 0; i < map->keys.size(); ++i) map->index.emplace(map->keys[i], i);
  return Config(std::move(map));
}

std::string Config::ToYaml() const {
  std::string out;
  node_->Write(&out, 0);
  return out;
}

// ---- parsing

// Builds the tree from yaml-cpp's events. Checks every limit before it allocates.
class Config::Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view name) : file_(std::make_shared<const std::string>(name)) {}

  std::shared_ptr<const Node> Take() {
    if (!root_) root_ = Make(Node::Kind::kNull, 0);
    return root_;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_) FailAt(*file_, Line(mark), "a second document begins here; the file must contain one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { OnScalar(mark, "?", anchor, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    FailAt(*file_, Line(mark), "aliases (*name) are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Check(mark, tag, anchor);
    const bool quoted = tag == "!";
    if (AtKey()) return SetKey(mark, value);
    auto node = Make(!quoted && IsNullWord(value) ? Node::Kind::kNull : Node::Kind::kScalar, Line(mark));
    node->scalar = value;
    node->quoted = quoted;
    Place(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Node::Kind::kList, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Node::Kind::kMap, mark, tag, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  static constexpr size_t kMaxDepth = 64;
  // yaml-cpp accepts keys of up to 1024 characters, and ToYaml may write up to four for each byte.
  static constexpr size_t kMaxKeyBytes = 128;

  struct OpenNode {
    std::shared_ptr<Node> node;
    bool has_key = false;  // a key was read, its value comes next
    size_t key_line = 0;
  };

  static size_t Line(const YAML::Mark& mark) {
    return mark.line < 0 ? 1 : static_cast<size_t>(mark.line) + 1;
  }

  std::shared_ptr<Node> Make(Node::Kind kind, size_t line) const {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->file = file_;
    node->line = std::max<size_t>(line, 1);
    return node;
  }
  bool AtKey() const {
    return !open_.empty() && open_.back().node->kind == Node::Kind::kMap && !open_.back().has_key;
  }
  void Check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) FailAt(*file_, Line(mark), "anchors (&name) are not supported; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!")
      FailAt(*file_, Line(mark), "tags (!name) are not supported");
  }
  void SetKey(const YAML::Mark& mark, const std::string& key) {
    auto& map = open_.back();
    if (key.empty()) FailAt(*file_, Line(mark), "empty key");
    if (key.size() > kMaxKeyBytes) {
      FailAt(*file_, Line(mark),
             "key " + Quoted(key) + " has " + std::to_string(key.size()) + " bytes; at most " +
                 std::to_string(kMaxKeyBytes) + " are allowed");
    }
    const auto [old, added] = map.node->index.emplace(key, map.node->keys.size());
    if (!added) {
      FailAt(*file_, Line(mark),
             "duplicate key '" + key + "'; first defined in line " +
                 std::to_string(map.node->children[old->second]->line));
    }
    map.node->keys.push_back(key);
    map.has_key = true;
    map.key_line = Line(mark);
  }
  // Adds a node at the parser's position: as the root, a list item or the value of the last key.
  void Place(std::shared_ptr<Node> node) {
    if (open_.empty()) {
      node->line = 1;
      root_ = std::move(node);
      return;
    }
    auto& [parent, has_key, key_line] = open_.back();
    if (parent->kind == Node::Kind::kMap) {
      node->name = parent->keys.back();
      node->line = key_line;  // report the line of the key, not of the block below it
      has_key = false;
    } else {
      node->name = parent->title() + "[" + std::to_string(parent->children.size()) + "]";
    }
    parent->children.push_back(std::move(node));
  }
  void Open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Check(mark, tag, anchor);
    if (AtKey()) FailAt(*file_, Line(mark), "a key must be a scalar, not a list or a map");
    if (open_.size() == kMaxDepth) {
      FailAt(*file_, Line(mark), "nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    auto node = Make(kind, Line(mark));
    Place(node);
    open_.push_back({std::move(node)});
  }

  std::shared_ptr<const std::string> file_;
  std::shared_ptr<const Node> root_;
  std::vector<OpenNode> open_;
};

Config Config::Parse(std::string_view yaml, std::string_view name) {
  CheckText(yaml, name);
  std::istringstream stream{std::string(yaml)};
  Builder builder(name);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    FailAt(name, error.mark.line < 0 ? 1 : static_cast<size_t>(error.mark.line) + 1, error.msg);
  }
  return Config(builder.Take());
}

Config Config::ParseFile(const std::string& path) {
  const auto text = OrThrow(ReadFirstBytes(path, kMaxBytes + 1));
  if (text.size() > kMaxBytes)
    FailAt(path, 1, "the file has more than " + std::to_string(kMaxBytes) + " bytes");
  return Parse(text, path);
}

}  // namespace leat
