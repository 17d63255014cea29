#include "base/config/config.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/config/config_node.h"
#include "base/config/config_text.h"
#include "base/text.h"

namespace leat {

using config_text::FailAt;
using config_text::Hint;
using config_text::ParseNumber;
using config_text::ParseWhole;
using config_text::Printed;

namespace {

template <class T>
std::string Bounds(T least, T most, T lowest, T highest) {
  if (most == highest) return "at least " + Printed(least);
  if (least == lowest) return "at most " + Printed(most);
  return "between " + Printed(least) + " and " + Printed(most);
}

}  // namespace

void Config::Node::Fail(std::string_view message) const {
  FailAt(*file, line, message);
}

void Config::Node::Expected(std::string_view what) const {
  std::string is = "empty";
  if (kind == Kind::kScalar) is = quoted ? "the string " + Quoted(scalar) : Quoted(scalar);
  if (kind == Kind::kList) is = "a list";
  if (kind == Kind::kMap) is = "a map";
  Fail(title() + " is " + is + "; must be " + std::string(what));
}

std::string_view Config::Node::Plain(std::string_view what) const {
  if (kind != Kind::kScalar || quoted) Expected(what);
  return scalar;
}

double Config::Node::Number() const {
  const auto value = ParseNumber(Plain("a number"));
  if (!value) Expected("a finite number");
  return *value;
}

int64_t Config::Node::Integer() const {
  const auto value = ParseWhole<int64_t>(Plain("a whole number"));
  if (!value) Expected("a 64-bit whole number");
  return *value;
}

bool Config::Node::Bool() const {
  const auto text = Plain("true or false");
  if (text != "true" && text != "false") Expected("true or false");
  return text == "true";
}

const Config::Node* Config::Node::Find(std::string_view key) const {
  if (kind == Kind::kNull) return nullptr;
  if (kind != Kind::kMap) Expected("a map");
  const auto found = index.find(key);
  return found == index.end() ? nullptr : children[found->second].get();
}

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

}  // namespace leat
