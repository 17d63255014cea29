#include "base/config.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace leat {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 64;
// yaml-cpp reads keys of up to 1024 characters; ToYaml may need four for each byte.
constexpr size_t kMaxKeyBytes = 128;

[[noreturn]] void FailAt(std::string_view name, size_t line, std::string_view message) {
  std::string text = std::string(name) + ":" + std::to_string(line) + ": " + std::string(message);
  // One line, whatever it quotes.
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  throw std::invalid_argument(text);
}

// A value as messages quote it: short, and without what would break the line.
std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string out = "'";
  for (char c : text.substr(0, kLongest)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out + (text.size() > kLongest ? "...'" : "'");
}

std::string Listed(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

// "; did you mean 'dense'?", or all that is known when nothing is near.
std::string Hint(std::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  if (!nearest.empty()) return "; did you mean '" + nearest + "'?";
  return known.empty() ? "; none is known here" : "; known are " + Listed(known);
}

template <class T>
std::optional<T> ParseWhole(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseNumber(std::string_view text) {
  const auto value = ParseWhole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

template <class T>
std::string Printed(T value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

template <class T>
std::string Bounds(T least, T most, T lowest, T highest) {
  if (most == highest) return "at least " + Printed(least);
  if (least == lowest) return "at most " + Printed(most);
  return "between " + Printed(least) + " and " + Printed(most);
}

// Bytes of the UTF-8 character that `text` begins with, 0 when it is none (RFC 3629).
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : 4;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xed && byte(1) >= 0xa0;
  const bool too_large = lead == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

// yaml-cpp guesses encodings and takes some control characters for the end of the text, so they stay outside.
void CheckText(std::string_view text, std::string_view name) {
  if (text.size() > kMaxBytes) {
    FailAt(name, 1,
           "the text has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(kMaxBytes) +
               " are read");
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

bool IsNullWord(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// Reads as the same text without quotes, whatever stands around it.
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

std::string DoubleQuoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Edits that make `b` of `a`: insert, delete, replace, swap neighbours (Damerau 1964, each part edited once).
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

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

}  // namespace

struct Config::Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  using Pointer = std::shared_ptr<const Node>;

  Kind kind = Kind::kNull;
  std::shared_ptr<const std::string> file;
  size_t line = 1;
  std::string name;  // as messages call it: "rate", "layers[2]", "" for the whole
  std::string scalar;
  bool quoted = false;  // "3" is a text, 3 is a number
  std::vector<Pointer> children;
  std::vector<std::string> keys;  // map: key of each child
  std::map<std::string, size_t, std::less<>> index;

  [[noreturn]] void Fail(std::string_view message) const { FailAt(*file, line, message); }
  std::string title() const { return name.empty() ? "the job" : name; }
  // Fails with "rate is 'x'; must be a number".
  [[noreturn]] void Expected(std::string_view what) const {
    std::string is = "empty";
    if (kind == Kind::kScalar) is = quoted ? "the text " + Quoted(scalar) : Quoted(scalar);
    if (kind == Kind::kList) is = "a list";
    if (kind == Kind::kMap) is = "a map";
    Fail(title() + " is " + is + "; must be " + std::string(what));
  }
  // The text of a scalar that stands without quotes.
  std::string_view Plain(std::string_view what) const {
    if (kind != Kind::kScalar || quoted) Expected(what);
    return scalar;
  }
  double Number() const {
    const auto value = ParseNumber(Plain("a number"));
    if (!value) Expected("a finite number");
    return *value;
  }
  int64_t Integer() const {
    const auto value = ParseWhole<int64_t>(Plain("a whole number"));
    if (!value) Expected("a whole number of 64 bits");
    return *value;
  }
  bool Bool() const {
    const auto text = Plain("true or false");
    if (text != "true" && text != "false") Expected("true or false");
    return text == "true";
  }
  const Node* Find(std::string_view key) const {
    if (kind == Kind::kNull) return nullptr;
    if (kind != Kind::kMap) Expected("a map");
    const auto found = index.find(key);
    return found == index.end() ? nullptr : children[found->second].get();
  }
  void Write(std::string* out, size_t indent) const;
};

// Grows the tree from the parser's events; holds every limit before memory is taken.
class Config::Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view name) : file_(std::make_shared<const std::string>(name)) {}

  std::shared_ptr<const Node> Take() {
    if (!root_) root_ = Make(Node::Kind::kNull, 0);
    return root_;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_) FailAt(*file_, Line(mark), "a second document begins; there must be one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { OnScalar(mark, "?", anchor, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    FailAt(*file_, Line(mark), "aliases (*name) are not read; write the value out");
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
    if (anchor != 0) FailAt(*file_, Line(mark), "anchors (&name) are not read; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!") FailAt(*file_, Line(mark), "tags (!name) are not read");
  }
  void SetKey(const YAML::Mark& mark, const std::string& key) {
    auto& map = open_.back();
    if (key.empty()) FailAt(*file_, Line(mark), "an empty key");
    if (key.size() > kMaxKeyBytes) {
      FailAt(*file_, Line(mark),
             "key " + Quoted(key) + " has " + std::to_string(key.size()) + " bytes; at most " +
                 std::to_string(kMaxKeyBytes) + " are read");
    }
    const auto [old, added] = map.node->index.emplace(key, map.node->keys.size());
    if (!added) {
      FailAt(*file_, Line(mark),
             "key '" + key + "' is there twice; first in line " +
                 std::to_string(map.node->children[old->second]->line));
    }
    map.node->keys.push_back(key);
    map.has_key = true;
    map.key_line = Line(mark);
  }
  // Puts a node where the parser is: as the root, an item, or the value of the last key.
  void Place(std::shared_ptr<Node> node) {
    if (open_.empty()) {
      node->line = 1;
      root_ = std::move(node);
      return;
    }
    auto& [parent, has_key, key_line] = open_.back();
    if (parent->kind == Node::Kind::kMap) {
      node->name = parent->keys.back();
      node->line = key_line;  // a block's first line is its key's, not the one below
      has_key = false;
    } else {
      node->name = parent->title() + "[" + std::to_string(parent->children.size()) + "]";
    }
    parent->children.push_back(std::move(node));
  }
  void Open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Check(mark, tag, anchor);
    if (AtKey()) FailAt(*file_, Line(mark), "a key must be a word");
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

Config::Config(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

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
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (errno != 0 && file.gcount() == 0)) {
    throw std::invalid_argument(path + ": " + (errno != 0 ? std::strerror(errno) : "cannot be read"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxBytes)
    FailAt(path, 1, "the file has more than " + std::to_string(kMaxBytes) + " bytes");
  return Parse(text, path);
}

std::string Config::where() const {
  return *node_->file + ":" + std::to_string(node_->line);
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
  node_->Find("");  // fails when this is no map
  return node_->keys;
}

Config Config::At(std::string_view key) const {
  if (node_->Find(key) == nullptr) Fail(node_->title() + " has no " + Quoted(key) + Hint(key, node_->keys));
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

Config Config::WithoutSettings() const {
  auto node = std::make_shared<Node>();
  node->kind = Node::Kind::kMap;
  node->file = node_->file;
  node->line = node_->line;
  node->name = node_->scalar;
  return Config(std::move(node));
}

size_t Config::size() const {
  if (!IsList() && !IsNull()) node_->Expected("a list");
  return node_->children.size();
}

Config Config::operator[](size_t i) const {
  if (i >= size())
    Fail(node_->title() + " has " + std::to_string(size()) + " items; there is none at " + std::to_string(i));
  return Config(node_->children[i]);
}

std::string Config::String() const {
  if (!IsScalar()) node_->Expected("a text");
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
  const Node* node = node_->Find(key);
  return node == nullptr ? fallback : node->Number();
}
int64_t Config::Integer(std::string_view key, int64_t fallback) const {
  const Node* node = node_->Find(key);
  return node == nullptr ? fallback : node->Integer();
}
bool Config::Bool(std::string_view key, bool fallback) const {
  const Node* node = node_->Find(key);
  return node == nullptr ? fallback : node->Bool();
}

double Config::Number(std::string_view key, double fallback, double least, double most) const {
  const double value = Number(key, fallback);
  if (Has(key) && !(value >= least && value <= most)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    At(key).Fail(std::string(key) + " is " + At(key).String() + "; must be " +
                 Bounds(least, most, -kInfinity, kInfinity));
  }
  return value;
}

int64_t Config::Integer(std::string_view key, int64_t fallback, int64_t least, int64_t most) const {
  const int64_t value = Integer(key, fallback);
  if (Has(key) && (value < least || value > most)) {
    using Limits = std::numeric_limits<int64_t>;
    At(key).Fail(std::string(key) + " is " + At(key).String() + "; must be " +
                 Bounds(least, most, Limits::min(), Limits::max()));
  }
  return value;
}

std::string Config::OneOf(std::string_view what, std::initializer_list<std::string_view> known) const {
  return OneOf(what, std::vector<std::string>(known.begin(), known.end()));
}

std::string Config::OneOf(std::string_view what, const std::vector<std::string>& known) const {
  if (!IsScalar()) node_->Expected("one of " + Listed(known));
  if (std::ranges::find(known, node_->scalar) == known.end()) {
    FailUnknown(what, node_->scalar, known);
  }
  return node_->scalar;
}

void Config::FailUnknown(std::string_view what, std::string_view word,
                         const std::vector<std::string>& known) const {
  Fail("unknown " + std::string(what) + " " + Quoted(word) + Hint(word, known));
}

// Writes the value behind "key:" or "-", the line's end included.
void Config::Node::Write(std::string* out, size_t indent) const {
  const auto scalar_text = [](std::string_view text, bool plain) {
    const bool word = plain && (ParseNumber(text) || text == "true" || text == "false");
    return word || IsPlainWord(text) ? std::string(text) : DoubleQuoted(text);
  };
  if (kind == Kind::kNull) *out += "null\n";
  if (kind == Kind::kScalar) *out += scalar_text(scalar, !quoted) + "\n";
  if ((kind == Kind::kList || kind == Kind::kMap) && children.empty())
    *out += kind == Kind::kList ? "[]\n" : "{}\n";
  if ((kind == Kind::kList || kind == Kind::kMap) && !children.empty() && indent > 0) *out += "\n";
  for (size_t i = 0; i < children.size(); ++i) {
    out->append(2 * indent, ' ');
    *out += kind == Kind::kList ? "- " : scalar_text(keys[i], false) + ": ";
    children[i]->Write(out, indent + 1);
  }
}

std::string Config::ToYaml() const {
  std::string out;
  node_->Write(&out, 0);
  return out;
}

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

}  // namespace leat
